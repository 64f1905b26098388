package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/role/controller/auth"
	"garcon/role/controller/chat"
	"garcon/role/controller/fleet"
	"garcon/role/controller/folder"
	"garcon/role/controller/permission"
	"garcon/store"
)

// testTimeout is how long a test waits for what must happen.
const testTimeout = 20 * time.Second

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testTimeout):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// agent is an executor with one agent: every launch is taken at once, and what
// it says is up to the test.
type agent struct {
	integration *exec.Integration
	runs        chan *run
	// answer is what delivering an answer gives; nil delivers.
	answer func(exec.Answer) error

	mu       sync.Mutex
	sinks    map[string]exec.Sink
	seq      uint64
	bindings int
	watchers []func(exec.Availability)
	away     bool
}

type run struct {
	agent  *agent
	launch exec.Launch
}

func newAgent() *agent {
	a := &agent{runs: make(chan *run, 64), sinks: map[string]exec.Sink{}}
	a.integration = &exec.Integration{
		Manifest:  exec.Manifest{ID: "fake", Label: "Fake", Conversation: exec.ConversationNative, DefaultMode: "ask", Modes: []exec.Mode{{ID: "ask"}}},
		Execution: a, Permissions: a,
	}
	return a
}

func (a *agent) ID() string { return exec.LocalID }

func (a *agent) Availability() exec.Availability {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return exec.Offline
	}
	return exec.Ready
}

func (a *agent) Watch(f func(exec.Availability)) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers = append(a.watchers, f)
	return func() {}
}

// leave makes the executor unavailable.
func (a *agent) leave() {
	a.mu.Lock()
	a.away = true
	watchers := a.watchers
	a.mu.Unlock()
	for _, f := range watchers {
		f(exec.Offline)
	}
}

func (a *agent) Project() exec.Project       { return a }
func (a *agent) Close(context.Context) error { return nil }

func (a *agent) Info(context.Context) (exec.Info, error) {
	if a.Availability() != exec.Ready {
		return exec.Info{}, exec.Errorf(exec.CodeUnavailable, "it is away")
	}
	return exec.Info{ExecutorID: exec.LocalID, Version: "1", Hostname: "box"}, nil
}

func (a *agent) Integration(context.Context, string) (*exec.Integration, error) {
	return a.integration, nil
}

func (a *agent) Inspect(_ context.Context, path string) (exec.ProjectInfo, error) {
	return exec.ProjectInfo{Path: path, Exists: true, IsDir: true, InsideBase: true}, nil
}

func (a *agent) ExpandMentions(context.Context, string, string) ([]exec.Mention, error) {
	return nil, nil
}

func (a *agent) OpenBinding(_ context.Context, _ exec.BindingSpec, sink exec.Sink) (exec.Ref, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bindings++
	ref := exec.Ref{Kind: exec.RefBinding, ID: fmt.Sprint(a.bindings)}
	a.sinks[ref.ID] = sink
	return ref, nil
}

func (a *agent) CloseBinding(_ context.Context, ref exec.Ref) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sinks, ref.ID)
	return nil
}

func (a *agent) Start(_ context.Context, l exec.Launch) (exec.Ref, error) {
	r := &run{a, l}
	a.runs <- r
	return exec.Ref{Kind: exec.RefRun, ID: l.RunID}, nil
}

func (a *agent) Resume(ctx context.Context, l exec.Launch) (exec.Ref, error) { return a.Start(ctx, l) }
func (a *agent) Abort(context.Context, exec.Ref) error                       { return nil }

func (a *agent) Answer(_ context.Context, _ exec.Ref, answer exec.Answer) error {
	if a.answer != nil {
		return a.answer(answer)
	}
	return nil
}

func (r *run) publish(e exec.Event) {
	r.agent.mu.Lock()
	sink := r.agent.sinks[r.launch.Binding.ID]
	r.agent.seq++
	e.Seq, e.RunID = r.agent.seq, r.launch.RunID
	r.agent.mu.Unlock()
	if sink != nil {
		sink.Publish(e)
	}
}

func (r *run) say(text string) {
	r.publish(exec.Event{Rows: []row.Row{row.New(r.launch.TurnID, r.launch.RunID, &row.Assistant{Text: text})}})
}

func (r *run) live(part string, offset int, text string) {
	r.publish(exec.Event{Live: &row.Live{PartID: part, Kind: row.KindAssistant, Offset: offset, Text: text}})
}

func (r *run) end() { r.publish(exec.Event{Terminal: &exec.Terminal{Phase: row.RunCompleted}}) }

// ask makes a permission request.
func (r *run) ask(occurrence string) {
	r.publish(exec.Event{Ask: &exec.Ask{
		Request: exec.Ref{Kind: exec.RefPermission, ID: occurrence},
		Row: row.New("", "", &row.Permission{
			Occurrence: occurrence, Tool: row.ToolBash, Title: "Run it?",
			Options: []row.PermissionOption{{ID: "yes", Decision: row.AllowOnce, Label: "Yes"}, {ID: "no", Decision: row.Deny, Label: "No"}},
		}),
	}})
}

// world is a feed over an empty workspace with one scripted agent.
type world struct {
	*Feed
	t     testing.TB
	agent *agent
}

func newWorld(t testing.TB) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	root, err := store.OpenRoot(t.TempDir(), store.RoleController)
	must(t, err)
	ws, err := root.OpenWorkspace(context.Background(), "default", store.Options{Log: log})
	must(t, err)
	a := newAgent()
	desk := permission.New(log)
	chats := chat.New(chat.Options{Workspace: ws, Runtimes: fleet.New("", a), Desk: desk, Instance: "instance", Log: log})
	folders := folder.Open(ws.Registry(), log)
	sessions, err := auth.OpenSessions(context.Background(), ws.Registry(), "default", log)
	must(t, err)
	w := &world{t: t, agent: a}
	w.Feed = New(Options{
		Chats: chats, Desk: desk, Folders: folders, Executors: []exec.Runtime{a}, Instance: "instance",
		Host: api.Host{Version: "test", Workspace: "default"}, Log: log,
		Guard: auth.NewGuard(auth.Options{Addrs: []net.Addr{testAddr}, Capability: "capability", Sessions: sessions}),
	})
	t.Cleanup(func() {
		w.Close()
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		chats.Close(ctx)
		folders.Close()
		must(t, ws.Close())
		must(t, root.Close())
	})
	return w
}

var testAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}

var someone = chat.Principal{Name: "someone", Origin: row.OriginBrowser}

// start starts a chat and returns its run.
func (w *world) start(prompt string) (api.Accepted, *run) {
	w.t.Helper()
	a, err := w.Chats.Start(context.Background(), api.StartRequest{RequestID: uuid.NewString(), Agent: "fake", ProjectPath: "/p", Prompt: prompt}, someone)
	must(w.t, err)
	return a, receive(w.t, w.agent.runs)
}

// memory is a carrier in memory. A test that does not read it is a client that
// takes nothing.
type memory struct {
	up     chan []byte
	down   chan []byte
	closed chan struct{}
	why    closing

	once  sync.Once
	mu    sync.Mutex
	alive time.Time
	pings int
}

func newMemory() *memory {
	return &memory{up: make(chan []byte, 256), down: make(chan []byte), closed: make(chan struct{}), alive: time.Now()}
}

func (m *memory) note() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alive = time.Now()
}

// Read implements [carrier].
func (m *memory) Read() ([]byte, error) {
	select {
	case f := <-m.up:
		m.note()
		return f, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Write implements [carrier].
func (m *memory) Write(frame []byte) error {
	select {
	case m.down <- append([]byte(nil), frame...):
		m.note()
		return nil
	case <-m.closed:
		return net.ErrClosed
	}
}

// Ping implements [carrier]; the client is one that answers.
func (m *memory) Ping() error {
	m.note()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pings++
	return nil
}

// Alive implements [carrier].
func (m *memory) Alive() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alive
}

// Close implements [carrier].
func (m *memory) Close(code int, reason string) {
	m.once.Do(func() {
		m.why = closing{code, reason}
		close(m.closed)
	})
}

// browser is the other end of a carrier in memory.
type browser struct {
	*memory
	t    testing.TB
	last uint32
	// parts are the pieces of items that are not complete yet.
	parts map[uint32][]byte
	// bytes and frames are what came.
	bytes, frames int
	done          chan struct{} // closed when the session is over
}

// connect serves a carrier in memory.
func (w *world) connect(who auth.Identity) *browser {
	b := &browser{memory: newMemory(), t: w.t, parts: map[uint32][]byte{}, done: make(chan struct{})}
	done, ok := w.enter()
	if !ok {
		w.t.Fatal("the feed takes no more")
	}
	go func() {
		defer close(b.done)
		defer done()
		w.serve(b.memory, who)
	}()
	return b
}

// ready connects and takes the ready item.
func (w *world) ready() (*browser, api.EventItem) {
	w.t.Helper()
	b := w.connect(auth.Identity{Kind: auth.Open})
	b.open(api.StreamEvents, "")
	var item api.EventItem
	b.item(1, &item)
	if item.Type != api.EventReady || item.ClientID == "" || item.ServerInstanceID != "instance" || item.Host.HeartbeatMs != 2000 {
		w.t.Fatalf("the first item is %+v", item)
	}
	return b, item
}

func (b *browser) send(frame string) { b.up <- []byte(frame) }

// open opens a stream and returns its number.
func (b *browser) open(name api.StreamName, args string) uint32 {
	b.last++
	if args == "" {
		args = "{}"
	}
	b.send(fmt.Sprintf(`{"type":"open","stream":%d,"name":%q,"args":%s}`, b.last, name, args))
	return b.last
}

// next takes frames until one is complete, with parts joined to an item.
func (b *browser) next() api.ServerFrame {
	b.t.Helper()
	for {
		var raw []byte
		select {
		case raw = <-b.down:
		case <-b.closed:
			b.t.Fatalf("the connection was closed: %v", &b.why)
		case <-time.After(testTimeout):
			b.t.Fatal("no frame came")
		}
		b.bytes += len(raw)
		b.frames++
		if len(raw) > api.MaxFrame {
			b.t.Fatalf("a frame of %d bytes", len(raw))
		}
		var f api.ServerFrame
		must(b.t, json.Unmarshal(raw, &f))
		switch f.Type {
		case api.FramePart:
			b.parts[f.Stream] = append(b.parts[f.Stream], f.Text...)
			if !f.Last {
				continue
			}
			f.Type, f.Value, f.Text = api.FrameItem, b.parts[f.Stream], ""
			delete(b.parts, f.Stream)
		case api.FrameItem:
			if b.parts[f.Stream] != nil {
				b.t.Fatal("an item came between the parts of another")
			}
		}
		return f
	}
}

// item takes frames until there is an item of the stream, and decodes it.
func (b *browser) item(stream uint32, v any) {
	b.t.Helper()
	for {
		f := b.next()
		if f.Stream != stream {
			continue
		}
		if f.Type != api.FrameItem {
			b.t.Fatalf("stream %d has a frame %s: %v", stream, f.Type, f.Error)
		}
		must(b.t, json.Unmarshal(f.Value, v))
		return
	}
}

// finished takes frames until the stream ends, and returns its error.
func (b *browser) finished(stream uint32) *api.Error {
	b.t.Helper()
	for {
		f := b.next()
		if f.Stream == stream && f.Type != api.FrameItem {
			return f.Error
		}
	}
}

// ended waits for the end of the session and returns why.
func (b *browser) ended() closing {
	b.t.Helper()
	receive(b.t, b.done)
	return b.why
}
