package ledger

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"garcon/store/internal/boltfile"
)

// maxIdle is how many ledgers nobody uses stay open: opening one costs a few
// reads, keeping one a descriptor and a mapping.
const maxIdle = 64

// Options configure a [Set].
type Options struct {
	// Log takes what concerns no single call; nil discards.
	Log *slog.Logger
	// Clock gives row times; nil means [time.Now].
	Clock func() time.Time
	// Version is written into files, so that an older program can name the one
	// that wrote them.
	Version string
}

// Set is the ledgers of one workspace. All methods are safe for concurrent use.
//
// Lock order: Ledger.mu before Set.mu. Set.mu is never held during a disk
// operation.
type Set struct {
	dir    string
	log    *slog.Logger
	clock  func() time.Time
	layout *layout
	format boltfile.Format
	faults boltfile.Faults
	pace   pace
	// writers are the writer goroutines and the closing of idle ledgers.
	writers sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry
	// idle holds the entries without users, least recently used first.
	idle *list.List
	// aside lists the damaged files, oldest first.
	aside []Quarantine
}

// entry is a chat's place in the set. Set.mu guards it.
type entry struct {
	l     *Ledger
	users int
	// place is where the entry is in the idle list, nil while it has users.
	place *list.Element
	// busy is open while the ledger is being opened, closed or deleted; the
	// chat must be looked up again afterwards.
	busy chan struct{}
}

// OpenSet opens the ledgers in dir, which it creates.
func OpenSet(dir string, opts Options) (*Set, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	layout := newLayout()
	s := &Set{
		dir: dir, log: opts.Log, clock: opts.Clock, layout: layout, format: layout.format(opts.Version),
		entries: map[string]*entry{}, idle: list.New(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !boltfile.IsStaged(e.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	s.aside = findQuarantined(dir, entries)
	return s, nil
}

func (s *Set) path(id string) string { return filepath.Join(s.dir, id+".db") }

func (s *Set) now() int64 { return s.clock().UnixMilli() }

// Open returns the chat's ledger, shared with everyone else who has it open.
// The caller must release it. A chat without a ledger is [ErrNotFound], one
// whose ledger was set aside a [*QuarantineError].
func (s *Set) Open(ctx context.Context, chatID string) (*Ledger, error) {
	return s.acquire(ctx, chatID, func(e *entry) error {
		if e.l != nil {
			return nil
		}
		file, st, err := s.openFile(chatID)
		if damage, ok := errors.AsType[*boltfile.DamageError](err); ok {
			return s.quarantine(chatID, damage)
		}
		if errors.Is(err, os.ErrNotExist) {
			return s.missing(chatID)
		}
		if err != nil {
			return err
		}
		e.l = s.newLedger(chatID, st, file)
		return nil
	})
}

// Create returns a new, empty ledger. Its file is written with the first append
// (in the same commit), or at the latest when the last user releases it.
func (s *Set) Create(ctx context.Context, chatID string, meta CreateMeta) (*Ledger, error) {
	if meta.View == "" {
		return nil, fmt.Errorf("%w: a ledger needs a view id", ErrInvalid)
	}
	return s.acquire(ctx, chatID, func(e *entry) error {
		if e.l != nil {
			return ErrExists
		}
		if _, err := os.Lstat(s.path(chatID)); err == nil {
			return ErrExists
		}
		e.l = s.newLedger(chatID, newState(chatID, meta), nil)
		return nil
	})
}

// acquire finds or makes the chat's entry and adds a user once prepare, which
// runs alone for that chat, has agreed.
func (s *Set) acquire(ctx context.Context, id string, prepare func(*entry) error) (*Ledger, error) {
	e, err := s.seize(ctx, id)
	if err != nil {
		return nil, err
	}
	err = prepare(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yieldLocked(id, e)
	if err != nil {
		return nil, err
	}
	e.users++
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	return e.l, nil
}

// seize returns the chat's entry, new when there is none, and makes it busy.
func (s *Set) seize(ctx context.Context, id string) (*entry, error) {
	if err := checkChatID(id); err != nil {
		return nil, err
	}
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, ErrClosed
		}
		e := s.entries[id]
		if e == nil {
			e = &entry{}
			s.entries[id] = e
		}
		if e.busy == nil {
			e.busy = make(chan struct{})
			s.mu.Unlock()
			return e, nil
		}
		busy := e.busy
		s.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// yieldLocked ends what seize began. An entry without a ledger goes.
func (s *Set) yieldLocked(id string, e *entry) {
	close(e.busy)
	e.busy = nil
	if e.l == nil && s.entries[id] == e {
		delete(s.entries, id)
	}
}

// retain adds a user to an open ledger.
func (s *Set) retain(l *Ledger) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[l.id]; e != nil && e.l == l && e.users > 0 {
		e.users++
		return nil
	}
	l.set.log.Debug("follow a ledger that is not open", "chat", l.id)
	return ErrClosed
}

// release removes a user. The ledger then stays open until enough others are
// idle too.
func (s *Set) release(l *Ledger) {
	s.mu.Lock()
	e := s.entries[l.id]
	last := e != nil && e.l == l && e.users == 1
	s.mu.Unlock()
	if last {
		if err := l.materialize(); err != nil {
			s.log.Warn("write a new ledger", "chat", l.id, "err", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.entries[l.id]; e == nil || e.l != l || e.users == 0 {
		return // deleted, set aside or released too often
	}
	if e.users--; e.users > 0 || s.closed {
		return
	}
	e.place = s.idle.PushBack(e)
	s.evictLocked()
}

// evictLocked closes the least recently used idle ledgers over [maxIdle].
func (s *Set) evictLocked() {
	for place := s.idle.Front(); place != nil && s.idle.Len() > maxIdle; {
		e := place.Value.(*entry)
		next := place.Next()
		if e.busy == nil {
			s.idle.Remove(place)
			e.place = nil
			e.busy = make(chan struct{})
			s.writers.Go(func() { s.evict(e) })
		}
		place = next
	}
}

func (s *Set) evict(e *entry) {
	id := e.l.id
	if err := errors.Join(e.l.materialize(), e.l.close()); err != nil {
		s.log.Warn("close an idle ledger", "chat", id, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.l = nil
	s.yieldLocked(id, e)
}

// detach forgets a ledger that was set aside.
func (s *Set) detach(l *Ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[l.id]
	if e == nil || e.l != l {
		return
	}
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	delete(s.entries, l.id)
}

// Exists reports whether the chat has a ledger.
func (s *Set) Exists(chatID string) bool {
	if checkChatID(chatID) != nil {
		return false
	}
	s.mu.Lock()
	e := s.entries[chatID]
	open := e != nil && e.l != nil
	s.mu.Unlock()
	if open {
		return true
	}
	_, err := os.Lstat(s.path(chatID))
	return err == nil
}

// Delete removes everything kept for the chat, set aside files included, and
// ends whoever uses its ledger with [ErrClosed]. A chat without a ledger is no
// error.
func (s *Set) Delete(ctx context.Context, chatID string) error {
	e, err := s.seize(ctx, chatID)
	if err != nil {
		return err
	}
	if l := e.l; l != nil {
		l.kill(ErrClosed)
		<-l.written
		if l.file != nil {
			err = l.file.Close()
		}
	}
	err = errors.Join(err, s.removeFiles(chatID))
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	e.l = nil
	s.yieldLocked(chatID, e)
	return err
}

// removeFiles removes the chat's file and everything beside it.
func (s *Set) removeFiles(id string) error {
	entries, err := os.ReadDir(s.dir)
	name := filepath.Base(s.path(id))
	for _, e := range entries {
		if e.Name() != name && !strings.HasPrefix(e.Name(), name+".") {
			continue
		}
		if removeErr := os.Remove(filepath.Join(s.dir, e.Name())); !errors.Is(removeErr, os.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	s.mu.Lock()
	s.aside = slices.DeleteFunc(s.aside, func(q Quarantine) bool { return q.ChatID == id })
	s.mu.Unlock()
	return errors.Join(err, boltfile.SyncDir(s.dir))
}

// Close commits what is queued and closes every ledger.
func (s *Set) Close() error {
	s.mu.Lock()
	s.closed = true
	entries := slices.Collect(maps.Values(s.entries))
	s.mu.Unlock()
	var g errgroup.Group
	for _, e := range entries {
		g.Go(func() error { return s.closeEntry(e) })
	}
	err := g.Wait()
	s.writers.Wait()
	return err
}

func (s *Set) closeEntry(e *entry) error {
	s.mu.Lock()
	for e.busy != nil {
		busy := e.busy
		s.mu.Unlock()
		<-busy
		s.mu.Lock()
	}
	l := e.l
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	return errors.Join(l.materialize(), l.close())
}
