package registry

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"garcon/proto/exec"
)

// Options configure a [Store].
type Options struct {
	// Log takes what concerns no single call; nil discards.
	Log *slog.Logger
	// Clock gives creation times and chat ids; nil means [time.Now].
	Clock func() time.Time
	// Version is written into the file.
	Version string
}

// Store is an open workspace file. All methods are safe for concurrent use;
// what they return is the caller's.
type Store struct{}

// Open opens or creates the file at path.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	return nil, errors.ErrUnsupported
}

// Close waits for changes in progress and closes the file.
func (s *Store) Close() error { return nil }

// NewChatID returns an id no chat of this workspace has or had: 16 decimal
// digits, the time in microseconds, never going back.
func (s *Store) NewChatID() string { return "" }

// Chat returns a chat.
func (s *Store) Chat(id string) (Chat, bool) { return Chat{}, false }

// Chats returns every chat, by id.
func (s *Store) Chats() []Chat { return nil }

// Deleted reports whether a chat of that id existed and was deleted.
func (s *Store) Deleted(id string) bool { return false }

// CreateChat stores a new chat; an empty id is assigned. A submission seen
// before returns the chat it created and replayed, or fails with [ErrConflict]
// when its fingerprint differs.
func (s *Store) CreateChat(ctx context.Context, c Chat, sub Submission) (created Chat, replayed bool, err error) {
	return Chat{}, false, errors.ErrUnsupported
}

// UpdateChat changes a chat. change runs on the store's writer goroutine, must
// be cheap and must not call the store; an error from it is returned and
// nothing changes.
func (s *Store) UpdateChat(ctx context.Context, id string, change func(*Chat) error) (Chat, error) {
	return Chat{}, errors.ErrUnsupported
}

// DeleteChat removes a chat and remembers that its id was used.
func (s *Store) DeleteChat(ctx context.Context, id string) error { return errors.ErrUnsupported }

// Watch calls f after every commit that changed a chat, in order, from the
// writer goroutine: f must be cheap and must not wait for the store. After
// stop has returned f is not called again.
func (s *Store) Watch(f func(Change)) (stop func()) { return func() {} }

// Providers returns every provider, by id.
func (s *Store) Providers() []Provider { return nil }

// Provider returns one provider.
func (s *Store) Provider(id string) (Provider, bool) { return Provider{}, false }

// PutProvider stores a provider and returns it as stored.
func (s *Store) PutProvider(ctx context.Context, p Provider) (Provider, error) {
	return Provider{}, errors.ErrUnsupported
}

// DeleteProvider removes a provider with its key.
func (s *Store) DeleteProvider(ctx context.Context, id string) error { return errors.ErrUnsupported }

// ProviderKey returns the key of a provider that has one.
func (s *Store) ProviderKey(id string) (exec.Credential, bool) { return exec.Credential{}, false }

// Setting returns the JSON value of a setting.
func (s *Store) Setting(key string) (json.RawMessage, bool) { return nil, false }

// Settings returns every setting.
func (s *Store) Settings() map[string]json.RawMessage { return nil }

// PutSetting stores a setting; a nil value removes it.
func (s *Store) PutSetting(ctx context.Context, key string, value json.RawMessage) error {
	return errors.ErrUnsupported
}

// Selection returns what was last used for the project on the executor.
func (s *Store) Selection(executorID, projectPath string) (Selection, bool) {
	return Selection{}, false
}

// PutSelection remembers a selection for the project on its executor.
func (s *Store) PutSelection(ctx context.Context, projectPath string, sel Selection) error {
	return errors.ErrUnsupported
}

// Collection returns the named collection of JSON records: what the workspace
// keeps for others, such as folders, executors or schedules. Asking creates
// nothing.
func (s *Store) Collection(name string) Collection { return Collection{} }

// Collection is a named set of JSON records.
type Collection struct{}

// Get returns one record.
func (c Collection) Get(id string) (json.RawMessage, bool) { return nil, false }

// All returns every record, by id.
func (c Collection) All() []Record { return nil }

// Put stores a record.
func (c Collection) Put(ctx context.Context, id string, data json.RawMessage) error {
	return errors.ErrUnsupported
}

// Update replaces a record by what change makes of it: nil input when there is
// none, nil result to remove it. The rules of [Store.UpdateChat] hold for
// change.
func (c Collection) Update(ctx context.Context, id string, change func(json.RawMessage) (json.RawMessage, error)) error {
	return errors.ErrUnsupported
}

// Delete removes a record.
func (c Collection) Delete(ctx context.Context, id string) error { return errors.ErrUnsupported }
