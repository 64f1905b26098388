package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"garcon/store/internal/boltfile"
)

// Errors of attachments.
var (
	// ErrNotFound: there is no attachment of that digest.
	ErrNotFound = errors.New("no such attachment")
	// ErrTooLarge: the content is over the caller's limit.
	ErrTooLarge = errors.New("the attachment is too large")
	// ErrDigest: the text is not a digest.
	ErrDigest = errors.New("not an attachment digest")
	// ErrStorage matches every [*StorageError], of the registry and of ledgers
	// too.
	ErrStorage = boltfile.ErrStorage
)

// StorageError reports a write that the operating system refused; Full is set
// when there is no space left.
type StorageError = boltfile.StorageError

// digestPrefix names the hash of a digest.
const digestPrefix = "sha256-"

// incomingPrefix begins the names of files that are being written.
const incomingPrefix = "incoming-"

// Attachments are files addressed by their content. They are safe for
// concurrent use.
type Attachments struct{ dir string }

func openAttachments(dir string) (*Attachments, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		// What a process that was killed had begun to write is nobody's.
		if strings.HasPrefix(e.Name(), incomingPrefix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return &Attachments{dir}, err
}

// path returns the file of a digest. Only a well-formed digest becomes part of
// a path.
func (a *Attachments) path(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, digestPrefix)
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(sum) != sum {
		return "", ErrDigest
	}
	return filepath.Join(a.dir, digest), nil
}

// Put stores what r gives, at most max bytes, and returns its digest and size.
// The file is there whole or not at all. Content that is there already is not
// written again, but counts as put now: see [Attachments.Sweep]. A disk that is
// full is a [*StorageError].
func (a *Attachments) Put(ctx context.Context, r io.Reader, max int64) (digest string, size int64, err error) {
	f, err := os.CreateTemp(a.dir, incomingPrefix)
	if err != nil {
		return "", 0, a.failed(err)
	}
	defer func() {
		f.Close() // a failure was seen by Sync
		if e := os.Remove(f.Name()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	hash := sha256.New()
	source := &contextReader{ctx: ctx, r: r}
	size, err = io.Copy(io.MultiWriter(f, hash), io.LimitReader(source, max+1))
	switch {
	case source.err != nil:
		return "", 0, fmt.Errorf("read the attachment: %w", source.err)
	case err != nil:
		return "", 0, a.failed(err)
	case size > max:
		return "", 0, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, max)
	}
	digest = digestPrefix + hex.EncodeToString(hash.Sum(nil))
	path := filepath.Join(a.dir, digest)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == size {
		if now := time.Now(); os.Chtimes(path, now, now) == nil {
			return digest, size, nil
		}
		// It was swept away in this moment, or is not ours to touch: write it.
	}
	if err := f.Sync(); err != nil {
		return "", 0, a.failed(err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return "", 0, a.failed(err)
	}
	// A message must not outlive the file it came with.
	if err := boltfile.SyncDir(a.dir); err != nil {
		return "", 0, a.failed(err)
	}
	return digest, size, nil
}

func (a *Attachments) failed(err error) error {
	return boltfile.AsStorageError("store an attachment in", a.dir, err)
}

// contextReader ends with its context. It keeps the error of the source, so
// that one can be told from an error of the destination.
type contextReader struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (c *contextReader) Read(p []byte) (n int, err error) {
	if err = context.Cause(c.ctx); err == nil {
		n, err = c.r.Read(p)
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// Open opens an attachment and returns its size in bytes.
func (a *Attachments) Open(digest string) (io.ReadSeekCloser, int64, error) {
	path, err := a.path(digest)
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrNotFound
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Has reports whether the attachment is there.
func (a *Attachments) Has(digest string) bool {
	path, err := a.path(digest)
	if err != nil {
		return false
	}
	_, err = os.Lstat(path)
	return err == nil
}

// Remove removes an attachment; a missing one is no error.
func (a *Attachments) Remove(digest string) error {
	path, err := a.path(digest)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sweep removes the attachments that keep does not want and that were last put
// more than olderThan ago, and returns how many bytes that freed. The age
// protects what a message is about to refer to: it must be longer than any
// upload waits for its message.
func (a *Attachments) Sweep(ctx context.Context, keep func(digest string) bool, olderThan time.Duration) (freed int64, err error) {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return 0, err
	}
	before := time.Now().Add(-olderThan)
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return freed, err
		}
		path, err := a.path(e.Name())
		if err != nil || keep(e.Name()) {
			continue // not an attachment, or wanted
		}
		info, err := e.Info()
		if err != nil || !info.ModTime().Before(before) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return freed, err
		}
		freed += info.Size()
	}
	return freed, nil
}
