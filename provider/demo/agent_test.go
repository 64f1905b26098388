package demo

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// talk is a conversation with the agent without a runtime between. It runs in
// a synctest bubble: nothing here waits for real time or for processes.
type talk struct {
	t       *testing.T
	a       *Adapter
	c       provider.Conversation
	project string
	session string
	mode    string
	model   string
	runs    int

	mu   sync.Mutex
	jobs [][]exec.Job
	own  []*fakeRun // begun by the agent
	rows []row.Row  // of no run
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	a, err := New(provider.Host{StateDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	k := &talk{t: t, a: a, project: t.TempDir()}
	k.reopen()
	return k
}

// reopen begins a new conversation on the same state.
func (k *talk) reopen() {
	k.t.Helper()
	c, err := k.a.Open(k)
	if err != nil {
		k.t.Fatal(err)
	}
	k.c = c
}

// The methods of [provider.Binding].

func (k *talk) Spec() exec.BindingSpec { return exec.BindingSpec{ProjectPath: k.project} }
func (k *talk) Session(exec.Session)   {}
func (k *talk) Begin(reason string, active provider.Active) provider.Run {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := &fakeRun{id: fmt.Sprint("own", len(k.own)), active: active}
	k.own = append(k.own, r)
	return r
}

func (k *talk) Jobs(list []exec.Job) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.jobs = append(k.jobs, list)
}

func (k *talk) Rows(rows ...row.Row) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = append(k.rows, rows...)
}

// launch starts a turn and lets it go on until it waits for something.
func (k *talk) launch(prompt string, change ...func(*exec.Launch)) *fakeRun {
	k.t.Helper()
	r := k.launchRacing(prompt, change...)
	synctest.Wait()
	return r
}

// launchRacing starts a turn.
func (k *talk) launchRacing(prompt string, change ...func(*exec.Launch)) *fakeRun {
	k.t.Helper()
	k.runs++
	r := &fakeRun{id: fmt.Sprint("run", k.runs)}
	l := exec.Launch{
		RunID: r.id, ProjectPath: k.project, NativeSession: k.session, Mode: k.mode, Model: k.model,
		Prompt: exec.Prompt{Text: prompt},
	}
	for _, f := range change {
		f(&l)
	}
	active, err := k.c.Launch(context.Background(), l, r)
	if err != nil {
		k.t.Fatal(err)
	}
	r.active = active
	r.mu.Lock()
	defer r.mu.Unlock()
	k.session = r.session.ID
	return r
}

// turn runs a prompt to its end, which must be a good one.
func (k *talk) turn(prompt string, change ...func(*exec.Launch)) *fakeRun {
	k.t.Helper()
	r := k.launch(prompt, change...)
	<-r.over()
	if r.terminal.Phase != row.RunCompleted {
		k.t.Fatalf("%q ended as %s (%v)", prompt, r.terminal.Phase, r.terminal.Error)
	}
	return r
}

func (k *talk) close() {
	k.t.Helper()
	if err := k.c.Close(context.Background()); err != nil {
		k.t.Error(err)
	}
}

func (k *talk) file(name string) string {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.project, name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (k *talk) put(name, text string) {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.project, name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

// fakeRun keeps what a turn publishes.
type fakeRun struct {
	id     string
	active provider.Active

	mu       sync.Mutex
	rows     []row.Row
	lives    []row.Live
	session  exec.Session
	asks     []fakeAsk
	done     chan struct{}
	terminal *exec.Terminal
	// finishing is called when the turn publishes its terminal, before that
	// can be seen.
	finishing func()
}

type fakeAsk struct {
	row     row.Row
	respond provider.Respond
}

func (r *fakeRun) ID() string     { return r.id }
func (r *fakeRun) TurnID() string { return "turn-" + r.id }

func (r *fakeRun) Rows(rows ...row.Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, rows...)
}

func (r *fakeRun) Live(l row.Live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives = append(r.lives, l)
}

func (r *fakeRun) Session(s exec.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.ID == "" {
		s.ID = r.session.ID
	}
	r.session = s
}

func (r *fakeRun) Ask(one row.Row, respond provider.Respond) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks = append(r.asks, fakeAsk{one, respond})
}

func (r *fakeRun) Withdraw(string) {}

func (r *fakeRun) Finish(t exec.Terminal) {
	if r.finishing != nil {
		r.finishing()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal == nil {
		r.terminal = &t
		if r.done == nil {
			r.done = make(chan struct{})
		}
		close(r.done)
	}
}

// over is closed with the terminal.
func (r *fakeRun) over() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
	}
	return r.done
}

// answer answers the newest request and lets the turn go on.
func (r *fakeRun) answer(t *testing.T, a exec.Answer) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	asks := r.asks
	r.mu.Unlock()
	if len(asks) == 0 {
		t.Fatal("nothing was asked")
	}
	if err := asks[len(asks)-1].respond(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func (r *fakeRun) asked() int {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asks)
}

// outline names the rows: kind, and for tools which.
func (r *fakeRun) outline() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return outlineOf(r.rows)
}

func outlineOf(rows []row.Row) string {
	var list []string
	for _, one := range rows {
		s := string(one.Kind())
		switch b := one.Body.(type) {
		case *row.Tool:
			s = string(b.Tool)
		case *row.ToolResult:
			s = "=" + string(b.Status)
		case *row.Assistant:
			switch {
			case b.Final:
				s = "final"
			case b.Partial:
				s = "partial"
			}
		case *row.Subagent:
			s = "subagent:" + string(b.Status)
		}
		if one.Child != "" {
			s = "(" + s + ")"
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

func (r *fakeRun) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, one := range r.rows {
		if a, ok := one.Body.(*row.Assistant); ok && one.Child == "" {
			list = append(list, a.Text)
		}
	}
	return strings.Join(list, "\n")
}

func wantOutline(t *testing.T, r *fakeRun, want string) {
	t.Helper()
	if got := r.outline(); got != want {
		t.Errorf("rows\n got %s\nwant %s", got, want)
	}
}

func bubble(t *testing.T, f func(t *testing.T, k *talk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := newTalk(t)
		defer k.close()
		f(t, k)
	})
}

func option(id string) exec.Answer { return exec.Answer{OptionID: id} }
