package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// reader reads a session file from its start.
type reader struct {
	header header
	lines  *provider.LineReader
	// torn is set at the end when the file does not end with a line feed, bad
	// counts the lines that are no entries.
	torn bool
	bad  int
	file *os.File
}

func newReader(file *os.File) (*reader, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	r := &reader{lines: provider.NewLineReader(file, 0), file: file}
	line, err := r.lines.Next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = json.Unmarshal(line, &r.header)
	}
	if err == nil && r.header.Session == "" {
		err = errors.New("no header")
	}
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", filepath.Base(file.Name()), err)
	}
	return r, nil
}

// next returns the next entry, skipping lines that are none.
func (r *reader) next() (entry, error) {
	for {
		line, err := r.lines.Next()
		if _, tooLong := errors.AsType[*provider.LineTooLongError](err); tooLong {
			r.bad++
			continue
		}
		if errors.Is(err, io.EOF) {
			r.torn, err = lacksLineFeed(r.file)
			return entry{}, errors.Join(err, io.EOF)
		}
		if err != nil {
			return entry{}, fmt.Errorf("read session: %w", err)
		}
		if len(line) == 0 {
			continue
		}
		var e entry
		if json.Unmarshal(line, &e) != nil || e.Row == nil && e.Allow == "" {
			r.bad++
			continue
		}
		return e, nil
	}
}

func lacksLineFeed(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return last[0] != '\n', err
}

// Sessions implements [exec.History].
func (s *store) Sessions(ctx context.Context, project string, max int) ([]exec.NativeSession, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var list []exec.NativeSession
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if !ok {
			continue
		}
		one, err := s.describe(id)
		if err != nil || one.ProjectPath != project {
			continue
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b exec.NativeSession) int {
		if a.Updated != b.Updated {
			return int(b.Updated - a.Updated)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list[:min(len(list), max)], nil
}

// describe reads as much of a session as its title needs.
func (s *store) describe(id string) (exec.NativeSession, error) {
	file, r, err := s.read(id)
	if err != nil {
		return exec.NativeSession{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return exec.NativeSession{}, err
	}
	one := exec.NativeSession{ID: id, ProjectPath: r.header.Project, Updated: info.ModTime().UnixMilli(), Size: info.Size()}
	for one.Title == "" {
		e, err := r.next()
		if err != nil {
			break
		}
		if e.Row == nil {
			continue
		}
		if u, ok := e.Row.Body.(*row.User); ok {
			one.Title = title(exec.StripMentions(u.Text))
		}
	}
	return one, nil
}

// read opens a session for reading only.
func (s *store) read(id string) (*os.File, *reader, error) {
	path, err := s.path(id)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errNoSession(id)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read session: %w", err)
	}
	r, err := newReader(file)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, r, nil
}

// Revision implements [exec.History].
func (s *store) Revision(_ context.Context, _, id string) (string, error) {
	path, err := s.path(id)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errNoSession(id)
	}
	if err != nil {
		return "", fmt.Errorf("session revision: %w", err)
	}
	return fmt.Sprint(info.Size()), nil
}

// pageRows is how many rows a history gives at a time.
const pageRows = 200

// history reads the rows of a session.
type history struct {
	file *os.File
	r    *reader
	told bool
}

// Open implements [exec.History].
func (s *store) Open(_ context.Context, _, id string) (exec.HistoryReader, error) {
	file, r, err := s.read(id)
	if err != nil {
		return nil, err
	}
	return &history{file: file, r: r}, nil
}

// Next implements [exec.HistoryReader].
func (h *history) Next(ctx context.Context) ([]row.Row, error) {
	var page []row.Row
	for len(page) < pageRows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := h.r.next()
		if h.r.bad > 0 && !h.told {
			h.told = true
			page = append(page, row.Row{Body: &row.Notice{
				Code: "malformed-history", Title: "Part of the session could not be read",
				Text: "The session file holds lines that are damaged; they are left out.",
			}})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if e.Row != nil {
			page = append(page, *e.Row)
		}
	}
	if len(page) == 0 {
		return nil, io.EOF
	}
	return page, nil
}

// Close implements [io.Closer].
func (h *history) Close() error { return h.file.Close() }

// Fork implements [exec.Forking]: it copies the session.
func (s *store) Fork(_ context.Context, f exec.Fork) (string, error) {
	file, r, err := s.read(f.NativeSession)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var entries []entry
	found := f.AtNativeID == ""
	for {
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", err
		}
		entries = append(entries, e)
		if f.AtNativeID != "" && e.Row != nil && e.Row.NativeID == f.AtNativeID {
			found = true
			break
		}
	}
	if !found {
		return "", exec.Errorf(exec.CodeInvalid, "the session has no entry %s", row.Prefix(row.Text(f.AtNativeID), maxTitle))
	}
	project := f.ProjectPath
	if project == "" {
		project = r.header.Project
	}
	return s.copy(header{
		Session: uuid.NewString(), Project: project, Created: time.Now().UnixMilli(),
		ForkOf: f.NativeSession, Copied: len(entries),
	}, entries)
}

// copy writes a session beside its place and moves it there when it is whole.
func (s *store) copy(h header, entries []entry) (string, error) {
	path, err := s.path(h.Session)
	if err != nil {
		return "", err
	}
	tmp, err := os.CreateTemp(s.dir, "fork-*")
	if err != nil {
		return "", fmt.Errorf("fork session: %w", err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := writeLine(tmp, h); err != nil {
		return "", err
	}
	for _, e := range entries {
		if err := writeLine(tmp, e); err != nil {
			return "", err
		}
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return "", fmt.Errorf("fork session: %w", err)
	}
	return h.Session, nil
}

// Discard implements [exec.Forking].
func (s *store) Discard(_ context.Context, _, id string) error {
	n, err := s.acquire(id)
	if err != nil {
		return err
	}
	// Whoever acquires the session from here on waits, and then finds it gone
	// or in use.
	s.mu.Lock()
	defer s.mu.Unlock()
	unused := n.ForkOf != "" && n.count() == n.Copied && n.refs == 1
	if err := n.releaseLocked(); err != nil {
		return fmt.Errorf("discard fork: %w", err)
	}
	if !unused {
		return exec.Errorf(exec.CodeInvalid, "session %s is in use; only a fork that nothing was added to can be discarded", id)
	}
	if err := os.Remove(n.file.Name()); err != nil {
		return fmt.Errorf("discard fork: %w", err)
	}
	return nil
}
