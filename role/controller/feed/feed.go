package feed

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/role/controller/auth"
	"garcon/role/controller/chat"
	"garcon/role/controller/folder"
	"garcon/role/controller/permission"
)

// DefaultHeartbeat is how often a client is pinged.
const DefaultHeartbeat = 2 * time.Second

// Options are what a feed works with.
type Options struct {
	Chats   *chat.Service
	Desk    *permission.Desk
	Folders *folder.Service
	// Executors are what a browser sees of the fleet.
	Executors []exec.Runtime
	Guard     *auth.Guard
	// Host describes the server to a browser; the feed adds the heartbeat.
	Host api.Host
	// Instance is the id of this server instance.
	Instance string
	// Heartbeat is how often a client is pinged, [DefaultHeartbeat] if zero.
	Heartbeat time.Duration
	Log       *slog.Logger
}

// Feed serves browsers' live connections. It is safe for concurrent use.
type Feed struct {
	Options
	clients clients
	buffers sync.Pool // of websocket writers

	mu       sync.Mutex // guards what follows
	sessions map[*session]struct{}
	open     int // upgrades being made and sockets
	closing  bool
	// served waits for every request.
	served sync.WaitGroup
}

// source makes the items of one stream: it sends them until ctx ends or the
// stream is over, with an error for the client if there is one.
type source func(ctx context.Context, st *stream, args json.RawMessage) error

// New returns a feed. Close it.
func New(o Options) *Feed {
	if o.Heartbeat <= 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	o.Host.HeartbeatMs = o.Heartbeat.Milliseconds()
	return &Feed{Options: o, sessions: map[*session]struct{}{}, clients: clients{byID: map[string]*client{}}}
}

// source returns what makes the items of a stream.
func (f *Feed) source(name api.StreamName) (source, bool) {
	switch name {
	case api.StreamEvents:
		return f.events, true
	case api.StreamChats:
		return f.chatList, true
	case api.StreamControl:
		return f.control, true
	case api.StreamFolders:
		return f.folders, true
	case api.StreamExecutors:
		return f.executors, true
	case api.StreamChat:
		return f.chat, true
	}
	return nil, false
}

// enter counts a connection; done gives it back. It is false when there are too
// many or the feed is closing.
func (f *Feed) enter() (done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing || f.open >= maxSockets {
		return nil, false
	}
	f.open++
	f.served.Add(1)
	return func() {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
		f.served.Done()
	}, true
}

func (f *Feed) add(s *session) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.sessions[s] = struct{}{}
	return true
}

func (f *Feed) remove(s *session) {
	s.end(closeGoingAway, "over") // for a session that never ran
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sessions, s)
}

// Close ends every connection and waits for them: shutting the HTTP server down
// does not.
func (f *Feed) Close() {
	f.mu.Lock()
	f.closing = true
	for s := range f.sessions {
		s.end(closeGoingAway, "the controller is shutting down")
	}
	f.mu.Unlock()
	f.served.Wait()
}
