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
)

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
	// What a process that was killed had begun to write is nobody's.
	left, err := filepath.Glob(filepath.Join(dir, incomingPrefix+"*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
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
// written again.
func (a *Attachments) Put(ctx context.Context, r io.Reader, max int64) (digest string, size int64, err error) {
	f, err := os.CreateTemp(a.dir, incomingPrefix)
	if err != nil {
		return "", 0, fmt.Errorf("store attachment: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if e := os.Remove(f.Name()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	hash := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, hash), io.LimitReader(&contextReader{ctx, r}, max+1))
	if err != nil {
		return "", 0, fmt.Errorf("store attachment: %w", err)
	}
	if size > max {
		return "", 0, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, max)
	}
	digest = digestPrefix + hex.EncodeToString(hash.Sum(nil))
	path := filepath.Join(a.dir, digest)
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return digest, size, nil
	}
	if err := f.Sync(); err != nil {
		return "", 0, fmt.Errorf("store attachment: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return "", 0, fmt.Errorf("store attachment: %w", err)
	}
	// A message must not outlive the file it came with.
	if err := boltfile.SyncDir(a.dir); err != nil {
		return "", 0, fmt.Errorf("store attachment: %w", err)
	}
	return digest, size, nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
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
