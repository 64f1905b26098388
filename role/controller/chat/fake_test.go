package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/role/controller/fleet"
	"garcon/role/controller/permission"
	"garcon/store"
)

// fakeRuntime is an executor with one agent that does what a test says.
type fakeRuntime struct {
	agent *fakeAgent
}

func (f *fakeRuntime) ID() string                           { return exec.LocalID }
func (f *fakeRuntime) Availability() exec.Availability      { return exec.Ready }
func (f *fakeRuntime) Watch(func(exec.Availability)) func() { return func() {} }
func (f *fakeRuntime) Project() exec.Project                { return f }
func (f *fakeRuntime) Close(context.Context) error          { return nil }
func (f *fakeRuntime) Info(context.Context) (exec.Info, error) {
	return exec.Info{ExecutorID: exec.LocalID, Integrations: []exec.Manifest{f.agent.integration.Manifest}}, nil
}

func (f *fakeRuntime) Integration(_ context.Context, id string) (*exec.Integration, error) {
	if id != f.agent.integration.Manifest.ID {
		return nil, exec.Errorf(exec.CodeUnknownAgent, "there is no agent %q", id)
	}
	return f.agent.integration, nil
}

func (f *fakeRuntime) Inspect(_ context.Context, path string) (exec.ProjectInfo, error) {
	f.agent.mu.Lock()
	defer f.agent.mu.Unlock()
	return exec.ProjectInfo{Path: path, Exists: !f.agent.projectGone, IsDir: true, InsideBase: true}, nil
}

func (f *fakeRuntime) ExpandMentions(_ context.Context, _, prompt string) ([]exec.Mention, error) {
	return []exec.Mention{{Path: "a.txt", Text: "content"}}, nil
}

// fakeAgent records what it is asked for.
type fakeAgent struct {
	integration *exec.Integration
	// launches and steers are what came, in order. Each must be taken by the
	// test.
	launches chan *fakeRun
	steers   chan *fakeSteer
	aborts   chan exec.Ref

	mu          sync.Mutex
	sinks       map[string]exec.Sink
	bindings    int
	closed      int
	projectGone bool
	seq         uint64
	query       func(exec.Query) (string, error)
}

// fakeRun is one launch. The agent takes it with take or refuses it.
type fakeRun struct {
	agent  *fakeAgent
	launch exec.Launch
	ctx    context.Context
	answer chan error
}

type fakeSteer struct {
	exec.Steer
	answer chan error
}

func newFakeAgent() *fakeAgent {
	a := &fakeAgent{
		launches: make(chan *fakeRun, 16), steers: make(chan *fakeSteer, 16), aborts: make(chan exec.Ref, 16),
		sinks: map[string]exec.Sink{},
	}
	a.integration = &exec.Integration{
		Manifest: exec.Manifest{
			ID: "fake", Label: "Fake", Conversation: exec.ConversationNative, DefaultMode: "ask",
			Modes: []exec.Mode{{ID: "ask"}, {ID: "all", Bypass: true}}, Efforts: []string{"low"},
			Attachments: exec.Attachments{MediaTypes: []string{"image/"}, MaxCount: 2, MaxBytes: 100},
		},
		Execution: a, Permissions: a, Steering: a, Compaction: a,
	}
	return a
}

func (a *fakeAgent) OpenBinding(_ context.Context, _ exec.BindingSpec, sink exec.Sink) (exec.Ref, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bindings++
	ref := exec.Ref{Kind: exec.RefBinding, ID: fmt.Sprint(a.bindings)}
	a.sinks[ref.ID] = sink
	return ref, nil
}

func (a *fakeAgent) CloseBinding(_ context.Context, ref exec.Ref) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sinks, ref.ID)
	a.closed++
	return nil
}

func (a *fakeAgent) launchRun(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	r := &fakeRun{agent: a, launch: l, ctx: ctx, answer: make(chan error)}
	a.launches <- r
	select {
	case err := <-r.answer:
		if err != nil {
			return exec.Ref{}, err
		}
		return r.ref(), nil
	case <-ctx.Done():
		return exec.Ref{}, exec.Errorf(exec.CodeCancelled, "given up")
	}
}

func (a *fakeAgent) Start(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	return a.launchRun(ctx, l)
}

func (a *fakeAgent) Resume(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	return a.launchRun(ctx, l)
}

func (a *fakeAgent) Compact(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	return a.launchRun(ctx, l)
}

func (a *fakeAgent) Abort(_ context.Context, run exec.Ref) error {
	a.aborts <- run
	return nil
}

func (a *fakeAgent) Steer(ctx context.Context, s exec.Steer) error {
	f := &fakeSteer{s, make(chan error)}
	a.steers <- f
	select {
	case err := <-f.answer:
		return err
	case <-ctx.Done():
		return exec.Errorf(exec.CodeOutcomeUnknown, "no answer").WithDispatched(exec.MaybeDispatched)
	}
}

func (a *fakeAgent) Answer(context.Context, exec.Ref, exec.Answer) error { return nil }

func (a *fakeAgent) Query(_ context.Context, q exec.Query) (string, error) { return a.query(q) }

// publish sends an event on the run's binding, if it is still open.
func (r *fakeRun) publish(e exec.Event) {
	r.agent.mu.Lock()
	sink := r.agent.sinks[r.launch.Binding.ID]
	r.agent.seq++
	e.Seq = r.agent.seq
	r.agent.mu.Unlock()
	e.RunID = r.launch.RunID
	if sink != nil {
		sink.Publish(e)
	}
}

func (r *fakeRun) ref() exec.Ref { return exec.Ref{Kind: exec.RefRun, ID: r.launch.RunID} }

// take says that the agent has taken the prompt.
func (r *fakeRun) take(t testing.TB) {
	t.Helper()
	r.publish(exec.Event{Launched: &exec.Launched{Run: r.ref(), TurnID: r.launch.TurnID}})
	send(t, r.answer, nil)
}

func (r *fakeRun) say(text string) {
	r.publish(exec.Event{Rows: []row.Row{row.New(r.launch.TurnID, r.launch.RunID, &row.Assistant{Text: text})}})
}

func (r *fakeRun) end(phase row.Phase, err *exec.Error) {
	r.publish(exec.Event{Terminal: &exec.Terminal{Phase: phase, Error: err}})
}

// world is a service over an empty workspace with the fake agent.
type world struct {
	*Service
	agent *fakeAgent
}

func newWorld(t testing.TB) *world {
	t.Helper()
	agent := newFakeAgent()
	return newWorldIn(t, t.TempDir(), agent)
}

func newWorldIn(t testing.TB, dir string, agent *fakeAgent) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	root, err := store.OpenRoot(dir, store.RoleController)
	must(t, err)
	ws, err := root.OpenWorkspace(context.Background(), "default", store.Options{Log: log})
	must(t, err)
	s := New(Options{
		Workspace: ws, Runtimes: fleet.New("", &fakeRuntime{agent}), Desk: permission.New(log), Instance: "test", Log: log,
	})
	var once sync.Once
	stop := func() {
		once.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			s.Close(ctx)
			must(t, ws.Close())
			must(t, root.Close())
		})
	}
	t.Cleanup(stop)
	return &world{s, agent}
}

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

func send[T any](t testing.TB, c chan<- T, v T) {
	t.Helper()
	select {
	case c <- v:
	case <-time.After(testTimeout):
		t.Fatal("nobody took it")
	}
}

var human = Principal{Name: "test", Origin: row.OriginCLI}

// request returns a start request with a fresh id.
func request(prompt string) api.StartRequest {
	return api.StartRequest{RequestID: newID(), Agent: "fake", ProjectPath: "/project", Prompt: prompt}
}

func (w *world) mustStart(t testing.TB, prompt string) (api.Accepted, *fakeRun) {
	t.Helper()
	a, err := w.Start(t.Context(), request(prompt), human)
	must(t, err)
	r := receive(t, w.agent.launches)
	r.take(t)
	return a, r
}

func (w *world) mustSubmit(t testing.TB, chat, prompt string, busy api.BusyPolicy) api.Accepted {
	t.Helper()
	a, err := w.Submit(t.Context(), chat, api.SubmitRequest{RequestID: newID(), Prompt: prompt, Busy: busy}, human)
	must(t, err)
	return a
}

// receipt waits for the end of a turn.
func (w *world) receipt(t testing.TB, a api.Accepted) api.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	r, err := w.Receipt(ctx, a.ChatID, a.TurnID)
	must(t, err)
	if r.State != api.TurnEnded {
		t.Fatalf("the turn is still %s", r.State)
	}
	return r
}

// until waits until the chat's state satisfies ok.
func (w *world) until(t testing.TB, chat string, ok func(api.Control) bool) api.Control {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	var rev uint64
	for {
		c, err := w.Changes(ctx, ctx, chat, Seen{After: 1 << 40, Control: rev, NoLive: true})
		must(t, err)
		if c.Control != nil {
			if ok(*c.Control) {
				return *c.Control
			}
			rev = c.Control.Revision
		}
		if ctx.Err() != nil {
			t.Fatal("the chat did not come to the state")
		}
	}
}

func idle(c api.Control) bool { return c.Phase == api.PhaseIdle }

// rows returns a chat's transcript in short form.
func (w *world) rows(t testing.TB, chat string) []string {
	t.Helper()
	page, err := w.Page(t.Context(), chat, PageQuery{Through: -1, Before: -1, Max: api.MaxPageMessages})
	must(t, err)
	var out []string
	for _, raw := range page.Rows {
		var r row.Row
		must(t, r.UnmarshalJSON(raw))
		out = append(out, short(r))
	}
	return out
}

func short(r row.Row) string {
	switch b := r.Body.(type) {
	case *row.User:
		if b.Steered {
			return "steer " + b.Text
		}
		return "user " + b.Text
	case *row.Assistant:
		return "assistant " + b.Text
	case *row.Run:
		if b.Code != "" {
			return "run " + string(b.Phase) + " " + b.Code
		}
		return "run " + string(b.Phase)
	case *row.PermissionResolved:
		return "resolved " + string(b.Outcome)
	case *row.Notice:
		return "notice " + b.Code
	}
	return string(r.Kind())
}

func wantCode(t testing.TB, err error, code api.Code) {
	t.Helper()
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == code {
		return
	}
	if e, ok := errors.AsType[*exec.Error](err); ok && api.Code(e.Code) == code {
		return
	}
	t.Errorf("error is %v, want %s", err, code)
}

func permissionFence(chat string, p api.Pending) permission.Fence {
	return permission.Fence{Chat: chat, Occurrence: p.Occurrence, RunID: p.RunID, ControlID: p.ControlID}
}
