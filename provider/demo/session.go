package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// A session file holds one JSON object a line: first the header, then entries.
// An entry is a row with its native id, or a standing permission. Lines are
// only appended, so that a crash costs at most the last.

// header is the first line of a session file.
type header struct {
	Session string `json:"session"`
	Project string `json:"project"`
	// Created is in Unix milliseconds.
	Created int64 `json:"created"`
	// ForkOf is the session this one was copied from, Copied how many entries
	// came from there.
	ForkOf string `json:"forkOf,omitempty"`
	Copied int    `json:"copied,omitempty"`
}

// entry is any other line.
type entry struct {
	Row *row.Row `json:"row,omitempty"`
	// Allow is something the user allowed for the session.
	Allow string `json:"allow,omitempty"`
}

// store keeps the sessions. It implements [exec.History] and [exec.Forking].
type store struct {
	dir string

	// mu guards open and the references of the sessions in it: whoever goes on
	// with a session shares one object with all others.
	mu   sync.Mutex
	open map[string]*session
}

func newStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("demo agent: %w", err)
	}
	return &store{dir: dir, open: map[string]*session{}}, nil
}

func (s *store) path(id string) (string, error) {
	// Ids come from outside and become file names.
	if uuid.Validate(id) != nil || strings.ContainsAny(id, "{}:") {
		return "", errNoSession(id)
	}
	return filepath.Join(s.dir, id+".jsonl"), nil
}

func errNoSession(id string) *exec.Error {
	return exec.Errorf(exec.CodeSessionMissing, "the demo agent has no session %s", row.Prefix(row.Text(id), maxTitle)).
		WithHint("Start a new chat, or hand this one to an agent.")
}

// session is a session that is being gone on with. Its holder must release it.
type session struct {
	header // constant
	store  *store
	refs   int // guarded by store.mu

	mu   sync.Mutex
	file *os.File
	// entries counts the entries and last is the highest native id.
	entries, last int
	// bytes is the text since the last compaction; tokens are counted from it.
	bytes   int64
	title   string
	allowed map[string]bool
}

// create makes a new session.
func (s *store) create(project string) (*session, error) {
	h := header{Session: uuid.NewString(), Project: project, Created: time.Now().UnixMilli()}
	path, err := s.path(h.Session)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create session: %w", err)
	}
	n := &session{header: h, store: s, refs: 1, file: file, allowed: map[string]bool{}}
	if err := writeLine(file, h); err != nil {
		file.Close()
		return nil, errors.Join(err, os.Remove(path))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[h.Session] = n
	return n, nil
}

// acquire opens a session to go on with it.
func (s *store) acquire(id string) (*session, error) {
	path, err := s.path(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.open[id]; n != nil {
		n.refs++
		return n, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoSession(id)
	}
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	n := &session{store: s, refs: 1, file: file, allowed: map[string]bool{}}
	if err := n.load(); err != nil {
		file.Close()
		return nil, err
	}
	s.open[id] = n
	return n, nil
}

// hold takes the session once more.
func (n *session) hold() *session {
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	n.refs++
	return n
}

// release gives the session back; the last one closes its file.
func (n *session) release() error {
	n.store.mu.Lock()
	defer n.store.mu.Unlock()
	return n.releaseLocked()
}

// releaseLocked is release for a caller who holds store.mu.
func (n *session) releaseLocked() error {
	if n.refs--; n.refs > 0 {
		return nil
	}
	delete(n.store.open, n.Session)
	return n.file.Close()
}

func (n *session) load() error {
	r, err := newReader(n.file)
	if err != nil {
		return err
	}
	n.header = r.header
	for {
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		n.noteLocked(e)
	}
	if r.torn {
		// The next entry must not join the half of one that a crash left.
		_, err = n.file.Write([]byte{'\n'})
	}
	return err
}

// noteLocked takes an entry into account.
func (n *session) noteLocked(e entry) {
	n.entries++
	if e.Allow != "" {
		n.allowed[e.Allow] = true
	}
	if e.Row == nil {
		return
	}
	if id, err := strconv.Atoi(strings.TrimPrefix(e.Row.NativeID, "e")); err == nil {
		n.last = max(n.last, id)
	}
	switch b := e.Row.Body.(type) {
	case *row.User:
		n.bytes += int64(len(b.Text))
		if n.title == "" {
			n.title = title(exec.StripMentions(b.Text))
		}
	case *row.Assistant:
		n.bytes += int64(len(b.Text))
	case *row.ToolResult:
		n.bytes += int64(len(b.Output))
	case *row.Compaction:
		n.bytes = int64(len(b.Summary))
	}
}

// bytesPerToken makes tokens of text: what models need for English on average.
const bytesPerToken = 4

// tokens is the size of the conversation.
func (n *session) tokens() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes / bytesPerToken
}

func (n *session) name() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.title
}

func (n *session) allows(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.allowed[what]
}

// count returns how many entries there are.
func (n *session) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.entries
}

// append stores entries. A row gets its native id and its time, which the live
// row is to have too.
func (n *session) append(entries ...entry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range entries {
		if e.Row != nil {
			e.Row.NativeID = "e" + strconv.Itoa(n.last+1)
			e.Row.Time = time.Now().UnixMilli()
		}
		if err := writeLine(n.file, e); err != nil {
			return err
		}
		n.noteLocked(e)
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return nil
}
