package direct

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// testKey is the credential of every test; it must never come back in anything
// but a request header.
const testKey = "sk-test-0123456789abcdef"

// waitTimeout is how long a test waits for what must come. In a bubble it
// passes at once.
const waitTimeout = time.Hour

type keys map[string]string

func (k keys) Resolve(_ context.Context, endpointID, _ string) (exec.Credential, error) {
	key, ok := k[endpointID]
	if !ok {
		return exec.Credential{}, exec.Errorf(exec.CodeInvalid, "The endpoint %s is not assigned.", endpointID)
	}
	return exec.NewCredential(key), nil
}

// rig is an adapter with one conversation.
type rig struct {
	t        *testing.T
	adapter  *adapter
	chat     provider.Conversation
	endpoint exec.Endpoint
	runs     int
}

func newRig(t *testing.T, p Protocol, baseURL string, dial dialer) *rig {
	t.Helper()
	a := newAdapter(provider.Host{Credentials: keys{"ep": testKey, "open": ""}}, p, dial)
	c, err := a.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, adapter: a, chat: c, endpoint: exec.Endpoint{ID: "ep", Label: "Lab", Protocol: string(p), BaseURL: baseURL}}
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	if err := r.chat.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	if err := r.adapter.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
}

// baseOf is the base URL that users of the protocol set.
func baseOf(p Protocol, server string) string {
	if p == Anthropic {
		return server
	}
	return server + "/v1"
}

// scripted returns a rig against a scripted model server.
func scripted(t *testing.T, p Protocol, steps ...model.Step) (*rig, *model.Server) {
	t.Helper()
	srv := model.Start(t, model.Script{Steps: steps, Key: testKey})
	return newRig(t, p, baseOf(p, srv.URL()), nil), srv
}

func (r *rig) launch(text string) exec.Launch {
	return exec.Launch{
		ChatID: "c1", TurnID: "t1", RunID: "r1", Model: "m1", Prompt: exec.Prompt{Text: text}, Endpoint: &r.endpoint,
	}
}

// start launches a run and returns its recorder.
func (r *rig) start(l exec.Launch) (*recorder, provider.Active) {
	r.t.Helper()
	r.runs++
	rec := newRecorder()
	active, err := r.chat.Launch(r.t.Context(), l, rec)
	if err != nil {
		r.t.Fatalf("launch: %v", err)
	}
	return rec, active
}

// run makes a whole run.
func (r *rig) run(l exec.Launch) *recorder {
	r.t.Helper()
	rec, _ := r.start(l)
	rec.wait(r.t)
	return rec
}

func (r *rig) ask(text string) *recorder {
	r.t.Helper()
	return r.run(r.launch(text))
}

// recorder implements [provider.Run] and keeps what is published.
type recorder struct {
	mu       sync.Mutex
	rows     []row.Row
	live     []row.Live
	terminal *exec.Terminal
	faults   []string
	done     chan struct{}
	// moved is closed and replaced with every live part.
	moved chan struct{}
}

func newRecorder() *recorder {
	return &recorder{done: make(chan struct{}), moved: make(chan struct{})}
}

func (r *recorder) ID() string                    { return "r1" }
func (r *recorder) TurnID() string                { return "t1" }
func (r *recorder) Session(exec.Session)          {}
func (r *recorder) Ask(row.Row, provider.Respond) { r.fault("a question was asked") }
func (r *recorder) Withdraw(string)               { r.fault("a question was withdrawn") }
func (r *recorder) fault(s string)                { r.mu.Lock(); defer r.mu.Unlock(); r.faultLocked(s) }
func (r *recorder) faultLocked(s string)          { r.faults = append(r.faults, s) }
func (r *recorder) after(what string) {
	if r.terminal != nil {
		r.faultLocked(what + " after the terminal")
	}
}

func (r *recorder) Rows(rows ...row.Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after("a row")
	for _, one := range rows {
		r.rows = append(r.rows, one.Clean())
	}
}

func (r *recorder) Live(l row.Live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after("a live part")
	r.live = append(r.live, l)
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *recorder) Finish(t exec.Terminal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal != nil {
		r.faultLocked("a second terminal")
		return
	}
	r.terminal = &t
	close(r.done)
}

// wait waits for the terminal and checks what holds for every run.
func (r *recorder) wait(t *testing.T) {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(waitTimeout):
		t.Fatal("the run does not end")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.faults {
		t.Error(f)
	}
	if r.terminal.Error != nil && strings.Contains(r.terminal.Error.Message+r.terminal.Error.Detail+r.terminal.Error.Hint, testKey) {
		t.Errorf("the key is in the error %q", r.terminal.Error.Message)
	}
	parts := map[string]string{}
	for _, l := range r.live {
		if l.RunID != "r1" || l.Offset != len(parts[l.PartID]) || l.Text == "" || len(l.Text) > maxLive {
			t.Errorf("live part %q has offset %d and %d bytes, want offset %d", l.PartID, l.Offset, len(l.Text), len(parts[l.PartID]))
		}
		parts[l.PartID] += l.Text
	}
	for _, one := range r.rows {
		if one.PartID == "" {
			continue
		}
		text, ok := parts[one.PartID]
		delete(parts, one.PartID)
		if got := textOfRow(one); !ok || len(text) < row.MaxBytes && text != got {
			t.Errorf("row of part %s is %.100q, its live text %.100q", one.PartID, got, text)
		}
	}
	for id := range parts {
		t.Errorf("live part %s has no row", id)
	}
}

// waitLive waits until the live text of the run holds a text.
func (r *recorder) waitLive(t *testing.T, text string) {
	t.Helper()
	for {
		r.mu.Lock()
		var all strings.Builder
		for _, l := range r.live {
			all.WriteString(l.Text)
		}
		moved := r.moved
		r.mu.Unlock()
		if strings.Contains(all.String(), text) {
			return
		}
		select {
		case <-moved:
		case <-r.done:
			t.Fatalf("the run ended without %q: %+v", text, r.terminal)
		case <-time.After(waitTimeout):
			t.Fatalf("no %q in the live text", text)
		}
	}
}

func textOfRow(r row.Row) string {
	switch b := r.Body.(type) {
	case *row.Assistant:
		return b.Text
	case *row.Reasoning:
		return b.Text
	}
	return ""
}

// brief is a row in a few words: "reasoning(hmm)", "assistant(hi) final",
// "notice(retrying)".
func brief(r row.Row) string {
	switch b := r.Body.(type) {
	case *row.Assistant:
		s := "assistant(" + b.Text + ")"
		if b.Final {
			s += " final"
		}
		if b.Partial {
			s += " partial"
		}
		return s
	case *row.Reasoning:
		s := "reasoning(" + b.Text + ")"
		if b.Partial {
			s += " partial"
		}
		return s
	case *row.Notice:
		return "notice(" + b.Code + ")"
	case *row.Compaction:
		return "compaction(" + b.Summary + ")"
	}
	return string(r.Kind())
}

func (r *recorder) briefs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for _, one := range r.rows {
		out = append(out, brief(one))
	}
	return out
}

// notices returns the notices with a code.
func (r *recorder) notices(code string) []*row.Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*row.Notice
	for _, one := range r.rows {
		if n, ok := one.Body.(*row.Notice); ok && n.Code == code {
			out = append(out, n)
		}
	}
	return out
}

// expect checks the rows and that the run completed.
func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if r.terminal.Phase != row.RunCompleted || r.terminal.Error != nil {
		t.Errorf("the run ended as %s: %+v", r.terminal.Phase, r.terminal.Error)
	}
	r.expectRows(t, want...)
}

func (r *recorder) expectRows(t *testing.T, want ...string) {
	t.Helper()
	if got := r.briefs(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("rows are\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// failed checks the code of a failed run and that the error tells what to do.
func (r *recorder) failed(t *testing.T, code exec.Code, words ...string) *exec.Error {
	t.Helper()
	err := r.terminal.Error
	if r.terminal.Phase != row.RunFailed || err == nil {
		t.Fatalf("the run ended as %s, want a failure %s", r.terminal.Phase, code)
	}
	if err.Code != code || err.Hint == "" {
		t.Errorf("failure %s %q with hint %q, want code %s", err.Code, err.Message, err.Hint, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Message+" "+err.Hint, w) {
			t.Errorf("no %q in %q, %q", w, err.Message, err.Hint)
		}
	}
	return err
}

// pipeNet connects a client and a server without sockets, for bubbles.
type pipeNet struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// memoryServer runs a handler in memory and returns how to reach it.
func memoryServer(t *testing.T, h http.Handler) dialer {
	t.Helper()
	n := &pipeNet{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(n)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	return n.dial
}

func (n *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *pipeNet) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *pipeNet) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// memoryBase is an address for memory servers; loopback keeps a proxy in the
// environment out.
const memoryBase = "http://127.0.0.1:1/v1"

func each(t *testing.T, f func(t *testing.T, p Protocol)) {
	t.Helper()
	for _, p := range Protocols() {
		t.Run(string(p), func(t *testing.T) { f(t, p) })
	}
}
