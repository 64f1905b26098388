package runtime

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// fakeAdapter is an adapter whose conversations do what the test says.
type fakeAdapter struct {
	manifest exec.Manifest
	facets   provider.Facets
	// launch and compact play the agent; the defaults take everything.
	launch func(ctx context.Context, c *fakeConversation, l exec.Launch, r provider.Run) (provider.Active, error)
	close  func(ctx context.Context, c *fakeConversation) error
	open   func(provider.Binding) error

	mu            sync.Mutex
	conversations []*fakeConversation
	closed        int
}

func (a *fakeAdapter) Manifest() exec.Manifest {
	m := a.manifest
	if m.ID == "" {
		m.ID, m.Label, m.Conversation = "fake", "Fake", exec.ConversationNative
	}
	return m
}

func (a *fakeAdapter) Facets() provider.Facets {
	f := a.facets
	f.Execution, f.Permissions, f.Steering, f.Compaction = a, true, true, true
	return f
}

func (a *fakeAdapter) Close(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed++
	return nil
}

func (a *fakeAdapter) Open(b provider.Binding) (provider.Conversation, error) {
	if a.open != nil {
		if err := a.open(b); err != nil {
			return nil, err
		}
	}
	c := &fakeConversation{adapter: a, binding: b}
	a.mu.Lock()
	a.conversations = append(a.conversations, c)
	a.mu.Unlock()
	return c, nil
}

// conversation returns the newest conversation.
func (a *fakeAdapter) conversation() *fakeConversation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conversations[len(a.conversations)-1]
}

type fakeConversation struct {
	adapter *fakeAdapter
	binding provider.Binding

	mu     sync.Mutex
	runs   []provider.Run
	closed bool
}

func (c *fakeConversation) Launch(ctx context.Context, l exec.Launch, r provider.Run) (provider.Active, error) {
	c.mu.Lock()
	c.runs = append(c.runs, r)
	c.mu.Unlock()
	if c.adapter.launch != nil {
		return c.adapter.launch(ctx, c, l, r)
	}
	return &fakeActive{}, nil
}

func (c *fakeConversation) Compact(ctx context.Context, l exec.Launch, r provider.Run) (provider.Active, error) {
	return c.Launch(ctx, l, r)
}

func (c *fakeConversation) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if c.adapter.close != nil {
		return c.adapter.close(ctx, c)
	}
	return nil
}

// run returns the newest run.
func (c *fakeConversation) run() provider.Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[len(c.runs)-1]
}

type fakeActive struct {
	abort func(context.Context) error
	steer func(context.Context, exec.Steer) error
}

func (a *fakeActive) Abort(ctx context.Context) error {
	if a.abort != nil {
		return a.abort(ctx)
	}
	return nil
}

func (a *fakeActive) Steer(ctx context.Context, s exec.Steer) error {
	if a.steer != nil {
		return a.steer(ctx, s)
	}
	return nil
}

// recorder is a sink that keeps what it gets. While it is held, Publish blocks.
type recorder struct {
	mu     sync.Mutex
	gate   sync.Cond
	events []exec.Event
	held   bool
}

func newRecorder() *recorder {
	r := &recorder{}
	r.gate.L = &r.mu
	return r
}

func (r *recorder) Publish(e exec.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.held {
		r.gate.Wait()
	}
	r.events = append(r.events, e)
}

func (r *recorder) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
}

func (r *recorder) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	r.gate.Broadcast()
}

func (r *recorder) all() []exec.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// kinds names the events in order.
func (r *recorder) kinds() []string {
	var list []string
	for _, e := range r.all() {
		list = append(list, kindOf(e))
	}
	return list
}

func kindOf(e exec.Event) string {
	switch {
	case e.Rows != nil:
		return "rows"
	case e.Live != nil:
		return "live"
	case e.Launched != nil:
		return "launched"
	case e.Session != nil:
		return "session"
	case e.Ask != nil:
		return "ask"
	case e.Withdrawn != "":
		return "withdrawn"
	case e.Jobs != nil:
		return "jobs"
	case e.Terminal != nil:
		return string(e.Terminal.Phase)
	}
	return "nothing"
}

// numbered fails unless the events are numbered as the contract says.
func numbered(t *testing.T, events []exec.Event) {
	t.Helper()
	var seq uint64
	for i, e := range events {
		if e.Live == nil {
			seq++
		}
		if e.Seq != seq {
			t.Fatalf("event %d (%s) has number %d, want %d", i, kindOf(e), e.Seq, seq)
		}
	}
}

// newTestRuntime returns a runtime without native processes.
func newTestRuntime(t *testing.T, a provider.Adapter) (*Runtime, *exec.Integration) {
	t.Helper()
	rt := newRuntime(t.Context(), exec.Info{ExecutorID: exec.LocalID, InstanceID: "instance"}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	rt.endProcesses = func(context.Context) error { return nil }
	if err := rt.addAdapters(func(provider.Host) ([]provider.Adapter, error) { return []provider.Adapter{a}, nil }, provider.Host{}); err != nil {
		t.Fatal(err)
	}
	in, err := rt.Integration(t.Context(), a.Manifest().ID)
	if err != nil {
		t.Fatal(err)
	}
	return rt, in
}

func openBinding(t *testing.T, in *exec.Integration, sink exec.Sink) exec.Ref {
	t.Helper()
	ref, err := in.Execution.OpenBinding(t.Context(), exec.BindingSpec{ChatID: "chat", View: "view"}, sink)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func launchOn(binding exec.Ref, run string) exec.Launch {
	return exec.Launch{Binding: binding, ChatID: "chat", TurnID: "turn-" + run, RunID: run, Prompt: exec.Prompt{Text: "go"}}
}

func text(s string) row.Row { return row.Row{Body: &row.Assistant{Text: s}} }

func completed() exec.Terminal { return exec.Terminal{Phase: row.RunCompleted} }
