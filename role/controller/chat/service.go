package chat

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/role/controller/permission"
	"garcon/store"
	"garcon/store/ledger"
	"garcon/store/registry"
)

// Timings of the service.
const (
	// janitorInterval is how often idle agent processes are looked for.
	janitorInterval = 30 * time.Second
	// defaultIdle is how long an agent process without work is kept: resuming
	// one costs seconds, keeping one costs memory.
	defaultIdle = 10 * time.Minute
	// closeBindingTimeout bounds the end of one agent's processes: the longest
	// polite way any agent needs, before they are killed.
	closeBindingTimeout = 20 * time.Second
	// abortTimeout bounds the delivery of an abort to an agent.
	abortTimeout = 30 * time.Second
)

// Runtimes finds executors; see role/controller/fleet.
type Runtimes interface {
	// Runtime returns the executor with the id or an error that names it.
	Runtime(id string) (exec.Runtime, error)
	// Default returns the executor of requests that name none, given the
	// user's setting.
	Default(setting string) string
}

// Options are what a service works with.
type Options struct {
	Workspace *store.Workspace
	Runtimes  Runtimes
	Desk      *permission.Desk
	// Instance is the id of this server instance.
	Instance string
	Log      *slog.Logger
}

// Service owns all chats of a workspace. It is safe for concurrent use.
type Service struct {
	registry    *registry.Store
	ledgers     *ledger.Set
	attachments *store.Attachments
	runtimes    Runtimes
	desk        *permission.Desk
	instance    string
	log         *slog.Logger
	receipts    *receipts
	titles      chan struct{} // bounds concurrent title queries
	subs        subscribers
	heads       heads
	// unwatch ends the watch of the registry.
	unwatch func()

	// ctx is the life of everything the service runs; wg waits for it.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	owners  map[string]*owner
	closing bool
}

// maxTitleQueries bounds how many titles are asked for at once: each may start
// an agent process.
const maxTitleQueries = 2

// New returns a running service. Close it.
func New(o Options) *Service {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{
		registry: o.Workspace.Registry(), ledgers: o.Workspace.Ledgers(), attachments: o.Workspace.Attachments(),
		runtimes: o.Runtimes, desk: o.Desk, instance: o.Instance, log: o.Log,
		receipts: newReceipts(), titles: make(chan struct{}, maxTitleQueries),
		ctx: ctx, cancel: cancel, owners: map[string]*owner{},
		subs: subscribers{all: map[*Subscription]struct{}{}}, heads: heads{made: map[headKey]json.RawMessage{}},
	}
	s.unwatch = s.registry.Watch(s.recordChanged)
	s.wg.Go(s.janitor)
	return s
}

// start runs f as a goroutine of the service, unless it is closing.
func (s *Service) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Go(f)
	return true
}

// owner returns the owner of a chat that exists.
func (s *Service) owner(id string) (*owner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[id]; o != nil {
		return o, nil
	}
	if _, ok := s.registry.Chat(id); !ok {
		return nil, s.notFound(id)
	}
	o := newOwner(s, id)
	s.owners[id] = o
	return o, nil
}

func (s *Service) notFound(id string) error {
	if s.registry.Deleted(id) {
		e := api.NewError(api.CodeChatNotFound, "chat "+id+" has been deleted", "")
		e.Details = map[string]any{api.DetailDeleted: true}
		return e
	}
	return api.NewError(api.CodeChatNotFound, "there is no chat "+id, "`garcon chats list --all` shows every chat.")
}

// live returns the owners that have been touched.
func (s *Service) live() []*owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*owner, 0, len(s.owners))
	for _, o := range s.owners {
		out = append(out, o)
	}
	return out
}

// janitor closes the bindings of chats that have done nothing for a while.
func (s *Service) janitor() {
	tick := time.NewTicker(janitorInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			idle := s.idle()
			for _, o := range s.live() {
				o.closeIdle(now.Add(-idle))
			}
		}
	}
}

// Ended names a turn that a shutdown ended.
type Ended struct {
	ChatID, TurnID, Title string
}

// Close ends every turn and every agent process and waits for them until ctx
// ends; then it gives up waiting for what is politely ending and returns. It
// returns the turns it ended.
func (s *Service) Close(ctx context.Context) []Ended {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	var (
		ended []Ended
		group sync.WaitGroup
	)
	for _, o := range s.live() {
		if turn, ok := o.shutdown(); ok {
			title := ""
			if c, ok := s.registry.Chat(o.id); ok {
				title = c.Title
			}
			ended = append(ended, Ended{o.id, turn, title})
		}
		group.Go(func() { o.unbind(ctx) })
	}
	group.Wait()
	s.unwatch()
	s.cancel()
	s.wg.Wait()
	return ended
}

// storageError turns a failure of the store into one of the interface.
func storageError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	if e, ok := errors.AsType[*ledger.StorageError](err); ok {
		if e.Full {
			return api.NewError(api.CodeStorageFull, "the disk is full: nothing can be saved",
				"Free some space and try again; no restart is needed.")
		}
		return api.NewError(api.CodeStorage, "the workspace could not be written: "+err.Error(), "See `garcon doctor`.")
	}
	if e, ok := errors.AsType[*ledger.QuarantineError](err); ok {
		return api.NewError(api.CodeDamaged, "the transcript of this chat is damaged and was set aside as "+e.Path,
			"See `garcon doctor`. Other chats are not affected.")
	}
	if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrClosed) {
		return api.NewError(api.CodeChatNotFound, "the transcript of this chat is gone", "")
	}
	if errors.Is(err, store.ErrTooLarge) {
		return api.NewError(api.CodeTooLarge, err.Error(), "")
	}
	if errors.Is(err, registry.ErrInvalid) || errors.Is(err, ledger.ErrInvalid) {
		return api.NewError(api.CodeInvalid, err.Error(), "")
	}
	if errors.Is(err, ledger.ErrConflict) || errors.Is(err, registry.ErrConflict) {
		return errConflict()
	}
	return err
}

func errConflict() error {
	return api.NewError(api.CodeConflict, "this request id was used for another request",
		"Use a fresh request id for each submission.")
}

func errClosing() error {
	return api.NewError(api.CodeShuttingDown, "the controller is shutting down", "Start it again: `garcon controller`.")
}
