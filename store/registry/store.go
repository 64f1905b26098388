package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"garcon/proto/exec"
	"garcon/store/internal/boltfile"
)

// Options configure a [Store].
type Options struct {
	// Log takes what concerns no single call; nil discards.
	Log *slog.Logger
	// Clock gives creation times and chat ids; nil means [time.Now].
	Clock func() time.Time
	// Version is written into the file.
	Version string
	// faults fail commits in tests.
	faults boltfile.Faults
}

// Store is an open workspace file. All methods are safe for concurrent use;
// what they return is the caller's.
//
// Everything is in memory; a change is published there after its commit. One
// goroutine writes, and changes that come together share a commit.
type Store struct {
	file    *boltfile.File
	log     *slog.Logger
	clock   func() time.Time
	changes chan *change
	quit    chan struct{}
	close   sync.Once
	// ended is closed when the writer has ended.
	ended chan struct{}
	// tasks are the writer and the keeping of a copy.
	tasks sync.WaitGroup

	// committed is what the file holds, and doubtful what it held of the places
	// that a failed commit touched, nil for nothing. They belong to the writer.
	committed, doubtful records

	mu       sync.RWMutex // guards what follows
	chats    map[string]Chat
	deleted  map[string]bool
	provider map[string]Provider
	keys     map[string]exec.Credential
	raw      map[string]map[string]json.RawMessage // settings, selections, collections
	watchers map[int]func(Change)
	nextID   int
	lastChat int64 // the newest chat id, in microseconds
}

// Open opens or creates the file at path. A damaged file is a [*DamagedError]
// and stays as it is.
func Open(_ context.Context, path string, opts Options) (*Store, error) {
	s := &Store{
		log: opts.Log, clock: opts.Clock, changes: make(chan *change, maxGroup), quit: make(chan struct{}),
		ended: make(chan struct{}), doubtful: records{}, watchers: map[int]func(Change){},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	var (
		all records
		err error
	)
	if s.file, all, err = openFile(path, opts.Version, opts.faults); err != nil {
		return nil, err
	}
	if err := s.load(all); err != nil {
		_ = s.file.Close() // the file is damaged; that is the error to report
		return nil, describe(path, &boltfile.DamageError{Path: path, Reason: err.Error()})
	}
	s.tasks.Go(s.write)
	s.tasks.Go(func() {
		if err := keepCopy(s.file); err != nil {
			s.log.Warn("no copy of the workspace file could be kept", "path", path, "err", err)
		}
	})
	return s, nil
}

// Close waits for changes in progress and closes the file.
func (s *Store) Close() error {
	s.close.Do(func() { close(s.quit) })
	s.tasks.Wait()
	return s.file.Close()
}

// load fills the memory with the content of the file, before anyone else has
// the store.
func (s *Store) load(all records) error {
	s.committed = all
	s.chats, s.deleted, s.provider = map[string]Chat{}, map[string]bool{}, map[string]Provider{}
	s.keys, s.raw = map[string]exec.Credential{}, map[string]map[string]json.RawMessage{}
	_, err := s.take(all)
	return err
}

// publish makes committed changes visible and tells the watchers.
func (s *Store) publish(changes records) {
	s.committed.merge(changes)
	for bucket, values := range changes {
		for key, value := range values {
			if value == nil {
				delete(s.committed[bucket], key)
			}
		}
	}
	s.mu.Lock()
	news, err := s.take(changes)
	watchers := slices.Collect(maps.Values(s.watchers))
	s.mu.Unlock()
	if err != nil {
		// What was just encoded does not decode: a mistake in this package.
		s.log.Error("committed record is not readable", "err", err)
	}
	for _, c := range news {
		for _, f := range watchers {
			f(c)
		}
	}
}

// take decodes records into the memory and returns what changed of chats. The
// caller holds mu.
func (s *Store) take(changes records) ([]Change, error) {
	var news []Change
	for bucket, values := range changes {
		for key, value := range values {
			var err error
			switch bucket {
			case bucketChats:
				news, err = s.takeChat(news, key, value)
			case bucketDeleted:
				s.deleted[key] = value != nil
				s.noteID(key)
			case bucketProviders:
				if value == nil {
					delete(s.provider, key)
					break
				}
				var p Provider
				err = json.Unmarshal(value, &p)
				s.provider[key] = p
			case bucketKeys:
				delete(s.keys, key)
				if value != nil {
					s.keys[key] = exec.NewCredential(string(value))
				}
			case bucketSubmissions:
			default:
				if s.raw[bucket] == nil {
					s.raw[bucket] = map[string]json.RawMessage{}
				}
				delete(s.raw[bucket], key)
				if value != nil {
					s.raw[bucket][key] = value
				}
			}
			if err != nil {
				return news, fmt.Errorf("record %s of %s is not readable: %w", key, bucket, err)
			}
		}
	}
	return news, nil
}

func (s *Store) takeChat(news []Change, id string, value []byte) ([]Change, error) {
	if value == nil {
		delete(s.chats, id)
		return append(news, Change{Removed: id}), nil
	}
	var c Chat
	if err := json.Unmarshal(value, &c); err != nil {
		return news, err
	}
	s.chats[id] = c
	s.noteID(id)
	shared := c.clone()
	return append(news, Change{Chat: &shared}), nil
}

func (s *Store) noteID(id string) {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil {
		s.lastChat = max(s.lastChat, n)
	}
}

// Watch calls f after every commit that changed a chat, in order, from the
// writer goroutine: f must be cheap and must not wait for the store. After
// stop has returned f is not called again.
func (s *Store) Watch(f func(Change)) (stop func()) {
	var (
		mu      sync.Mutex
		stopped bool
	)
	s.mu.Lock()
	id := s.nextID
	s.nextID++
	s.watchers[id] = func(c Change) {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			f(c)
		}
	}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.watchers, id)
		s.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

// Setting returns the JSON value of a setting.
func (s *Store) Setting(key string) (json.RawMessage, bool) { return s.record(bucketSettings, key) }

// Settings returns every setting.
func (s *Store) Settings() map[string]json.RawMessage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[string]json.RawMessage, len(s.raw[bucketSettings]))
	for k, v := range s.raw[bucketSettings] {
		out[k] = slices.Clone(v)
	}
	return out
}

// PutSetting stores a setting; a nil value removes it.
func (s *Store) PutSetting(ctx context.Context, key string, value json.RawMessage) error {
	return s.putRecord(ctx, place{bucketSettings, key}, value)
}

// Selection returns what was last used for the project on the executor.
func (s *Store) Selection(executorID, projectPath string) (Selection, bool) {
	raw, ok := s.record(bucketSelections, selectionKey(executorID, projectPath))
	if !ok {
		return Selection{}, false
	}
	var sel Selection
	if err := json.Unmarshal(raw, &sel); err != nil {
		s.log.Error("selection is not readable", "err", err)
		return Selection{}, false
	}
	return sel, true
}

// PutSelection remembers a selection for the project on its executor.
func (s *Store) PutSelection(ctx context.Context, projectPath string, sel Selection) error {
	raw, err := json.Marshal(sel)
	if err != nil {
		return err
	}
	return s.putRecord(ctx, place{bucketSelections, selectionKey(sel.ExecutorID, projectPath)}, raw)
}

func selectionKey(executorID, projectPath string) string { return executorID + "\x00" + projectPath }

func (s *Store) record(bucket, key string) (json.RawMessage, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.raw[bucket][key]
	return slices.Clone(v), ok
}

// maxKey bounds a key, in bytes: bbolt takes no more than twice this.
const maxKey = 16 << 10

func (s *Store) putRecord(ctx context.Context, p place, value json.RawMessage) error {
	switch {
	case p.key == "" || len(p.key) > maxKey:
		return fmt.Errorf("%w: a key of %d bytes", ErrInvalid, len(p.key))
	case value != nil && !json.Valid(value):
		return fmt.Errorf("%w: the value of %s is not JSON", ErrInvalid, p.key)
	case len(value) > maxValue:
		return fmt.Errorf("%w: the value of %s has %d bytes", ErrInvalid, p.key, len(value))
	}
	value = slices.Clone(value)
	return s.do(ctx, func(t *txn) error {
		if value == nil {
			t.remove(p)
		} else {
			t.put(p, value)
		}
		return nil
	})
}

// Collection returns the named collection of JSON records: what the workspace
// keeps for others, such as folders, executors or schedules. Asking creates
// nothing.
func (s *Store) Collection(name string) Collection { return Collection{s, collectionPrefix + name} }

// Collection is a named set of JSON records.
type Collection struct {
	s      *Store
	bucket string
}

// Get returns one record.
func (c Collection) Get(id string) (json.RawMessage, bool) { return c.s.record(c.bucket, id) }

// All returns every record, by id.
func (c Collection) All() []Record {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	out := make([]Record, 0, len(c.s.raw[c.bucket]))
	for id, data := range c.s.raw[c.bucket] {
		out = append(out, Record{ID: id, Data: slices.Clone(data)})
	}
	slices.SortFunc(out, func(a, b Record) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Put stores a record.
func (c Collection) Put(ctx context.Context, id string, data json.RawMessage) error {
	if data == nil {
		return fmt.Errorf("%w: record %s has no data", ErrInvalid, id)
	}
	return c.s.putRecord(ctx, place{c.bucket, id}, data)
}

// Delete removes a record.
func (c Collection) Delete(ctx context.Context, id string) error {
	return c.s.putRecord(ctx, place{c.bucket, id}, nil)
}
