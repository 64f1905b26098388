package conformance

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// chatNumbers makes ids that no two scenarios share.
var chatNumbers atomic.Int64

// chat is a conversation as the controller would hold it.
type chat struct {
	t       testing.TB
	s       Subject
	in      *exec.Integration
	id      string
	binding exec.Ref
	sink    *sink
	// session is the native session, "" before the first run.
	session string
	// said is the conversation for integrations that are given it.
	said []exec.Message
	runs int
}

// openChat opens a binding, which is closed and checked when the test ends.
func openChat(t testing.TB, s Subject) *chat {
	t.Helper()
	c := &chat{t: t, s: s, in: s.integration(t), id: fmt.Sprintf("chat%d", chatNumbers.Add(1))}
	c.open()
	return c
}

// open opens a binding with a stream of its own.
func (c *chat) open() {
	c.t.Helper()
	c.sink = newSink()
	spec := exec.BindingSpec{ChatID: c.id, View: "view", OwnerEpoch: 1, ProjectPath: c.s.ProjectPath}
	ref, err := c.in.Execution.OpenBinding(limited(c.t), spec, c.sink)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := ref.Check(exec.Ref{Kind: exec.RefBinding, ExecutorID: c.s.Runtime.ID(), InstanceID: ref.InstanceID, IntegrationID: c.s.IntegrationID}); err != nil || ref.ID == "" {
		c.t.Fatalf("reference %+v: %v", ref, err)
	}
	c.binding = ref
	sink := c.sink
	c.t.Cleanup(func() {
		sink.release()
		if !c.t.Failed() {
			checkStream(c.t, sink.all())
		}
	})
}

// close closes the binding.
func (c *chat) close() {
	c.t.Helper()
	if err := c.in.Execution.CloseBinding(limited(c.t), c.binding); err != nil {
		c.t.Fatal(err)
	}
}

// prepare returns a launch of the next run of the chat.
func (c *chat) prepare(prompt string) exec.Launch {
	c.runs++
	run := fmt.Sprintf("%s-run%d", c.id, c.runs)
	l := exec.Launch{
		Binding: c.binding, ChatID: c.id, TurnID: "turn-of-" + run, RunID: run, NativeSession: c.session,
		ProjectPath: c.s.ProjectPath, Prompt: exec.Prompt{Text: prompt}, Conversation: c.said,
	}
	if c.s.Configure != nil {
		c.s.Configure(&l)
	}
	return l
}

// launch starts a run and returns it with the error of the call.
func (c *chat) launch(l exec.Launch) (*run, error) {
	c.t.Helper()
	start := c.in.Execution.Start
	if l.NativeSession != "" {
		start = c.in.Execution.Resume
	}
	ref, err := start(limited(c.t), l)
	return &run{chat: c, id: l.RunID, prompt: l.Prompt.Text, ref: ref, sink: c.sink}, err
}

// start launches a prompt.
func (c *chat) start(prompt string) *run {
	c.t.Helper()
	return c.begin(c.prepare(prompt))
}

// begin launches and checks what the reply and the stream say of it.
func (c *chat) begin(l exec.Launch) *run {
	c.t.Helper()
	r, err := c.launch(l)
	if err != nil {
		c.t.Fatalf("launch of %q: %v", l.Prompt.Text, err)
	}
	launched := r.wait("the launch", func(e exec.Event) bool { return e.Launched != nil }).Launched
	if launched.Run != r.ref || launched.TurnID != l.TurnID || launched.Unsolicited {
		c.t.Fatalf("the stream says %+v of run %s, turn %s", launched, r.ref, l.TurnID)
	}
	return r
}

// turn runs a prompt to its end, which must be a good one.
func (c *chat) turn(prompt string) *run {
	c.t.Helper()
	r := c.start(prompt)
	r.completes()
	return r
}

// run is one run of a chat.
type run struct {
	*chat
	id     string
	prompt string
	ref    exec.Ref
	sink   *sink
}

// wait returns the first event of the run that fits.
func (r *run) wait(what string, fits func(exec.Event) bool) exec.Event {
	r.t.Helper()
	return r.sink.wait(r.t, what, func(e exec.Event) bool { return e.RunID == r.id && fits(e) })
}

// end waits for the terminal and takes over the session.
func (r *run) end() exec.Terminal {
	r.t.Helper()
	terminal := *r.wait("the terminal", func(e exec.Event) bool { return e.Terminal != nil }).Terminal
	r.chat.learn(r)
	return terminal
}

// learn keeps what the chat needs for its next run.
func (c *chat) learn(r *run) {
	if !native(c.in) {
		c.said = append(c.said, exec.Message{Role: "user", Text: r.prompt}, exec.Message{Role: "assistant", Text: r.text()})
		return
	}
	for _, e := range r.sink.all() {
		if e.Session != nil && e.Session.ID != "" {
			c.session = e.Session.ID
		}
	}
}

// completes waits for a good end.
func (r *run) completes() {
	r.t.Helper()
	if end := r.end(); end.Phase != row.RunCompleted {
		r.t.Fatalf("run of %q ended as %s (%v)", r.prompt, end.Phase, end.Error)
	}
}

// stops aborts the run and waits for its end.
func (r *run) stops() {
	r.t.Helper()
	if err := r.in.Execution.Abort(limited(r.t), r.ref); err != nil {
		r.t.Fatal(err)
	}
	if end := r.end(); end.Phase != row.RunInterrupted {
		r.t.Fatalf("the stopped run ended as %s (%v)", end.Phase, end.Error)
	}
}

// busy waits until the agent is at work.
func (r *run) busy() {
	r.t.Helper()
	r.wait("a sign of work", func(e exec.Event) bool { return e.Rows != nil || e.Live != nil })
}

// rows returns the rows of the run so far.
func (r *run) rows() []row.Row {
	var list []row.Row
	for _, e := range r.sink.all() {
		if e.RunID == r.id {
			list = append(list, e.Rows...)
		}
	}
	return list
}

// text joins what the agent answered so far.
func (r *run) text() string {
	var b strings.Builder
	for _, one := range r.rows() {
		if a, ok := one.Body.(*row.Assistant); ok && one.Child == "" {
			b.WriteString(a.Text + "\n")
		}
	}
	return b.String()
}

// asked waits for the n-th request of the run, counted from 0.
func (r *run) asked(n int) *exec.Ask {
	r.t.Helper()
	return r.wait("a request to the user", func(e exec.Event) bool {
		if e.Ask != nil {
			n--
		}
		return e.Ask != nil && n < 0
	}).Ask
}

// allowing allows every permission request of the run from the n-th on until it
// ends.
func (r *run) allowing(n int) exec.Terminal {
	r.t.Helper()
	for ; ; n++ {
		next := n
		e := r.wait("a request or the terminal", func(e exec.Event) bool {
			if e.Ask != nil {
				next--
			}
			return e.Terminal != nil || e.Ask != nil && next < 0
		})
		if e.Terminal != nil {
			return r.end()
		}
		option := optionOf(r.t, e.Ask, row.AllowOnce)
		if err := r.in.Permissions.Answer(limited(r.t), e.Ask.Request, exec.Answer{OptionID: option}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// optionOf returns the option of a permission request that does what is wanted.
func optionOf(t testing.TB, a *exec.Ask, want row.Decision) string {
	t.Helper()
	p, ok := a.Row.Body.(*row.Permission)
	if !ok {
		t.Fatalf("the request is a %s row", a.Row.Kind())
	}
	for _, o := range p.Options {
		if o.Decision == want {
			return o.ID
		}
	}
	t.Fatalf("the request offers no %s: %+v", want, p.Options)
	return ""
}

// sink keeps the events of a binding. While it is held, Publish blocks.
type sink struct {
	mu     sync.Mutex
	events []exec.Event
	// changed is closed and replaced at every event.
	changed chan struct{}
	held    chan struct{} // nil when not held
	// publishing tells concurrent calls, which the contract forbids.
	publishing atomic.Bool
	overlap    atomic.Bool
}

func newSink() *sink { return &sink{changed: make(chan struct{})} }

// Publish implements [exec.Sink].
func (s *sink) Publish(e exec.Event) {
	if !s.publishing.CompareAndSwap(false, true) {
		s.overlap.Store(true)
	}
	defer s.publishing.Store(false)
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		<-held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	close(s.changed)
	s.changed = make(chan struct{})
}

// hold makes the sink slow until release.
func (s *sink) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = make(chan struct{})
}

func (s *sink) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		close(s.held)
		s.held = nil
	}
}

func (s *sink) all() []exec.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[:len(s.events):len(s.events)]
}

// wait returns the first event that fits, which is asked about each once.
func (s *sink) wait(t testing.TB, what string, fits func(exec.Event) bool) exec.Event {
	t.Helper()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	for seen := 0; ; {
		s.mu.Lock()
		events, changed := s.events, s.changed
		s.mu.Unlock()
		for ; seen < len(events); seen++ {
			if fits(events[seen]) {
				return events[seen]
			}
		}
		select {
		case <-changed:
		case <-timer.C:
			t.Fatalf("%s did not come within %v; the stream so far:\n%s", what, waitLimit, outline(events))
		}
	}
}

// staysQuiet fails when another event comes.
func (s *sink) staysQuiet(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	events, changed := s.events, s.changed
	s.mu.Unlock()
	select {
	case <-changed:
		t.Fatalf("the closed binding went on:\n%s", outline(s.all()[len(events):]))
	case <-time.After(quiet):
	}
}

// outlined is how many events a failure shows.
const outlined = 60

// outline describes events for a failure.
func outline(events []exec.Event) string {
	var b strings.Builder
	if skip := len(events) - outlined; skip > 0 {
		fmt.Fprintf(&b, "  … %d events\n", skip)
		events = events[skip:]
	}
	for _, e := range events {
		fmt.Fprintf(&b, "  %d %s %s\n", e.Seq, e.RunID, describe(e))
	}
	return b.String()
}

func describe(e exec.Event) string {
	switch {
	case e.Rows != nil:
		var kinds []string
		for _, r := range e.Rows {
			kinds = append(kinds, string(r.Kind()))
		}
		return "rows " + strings.Join(kinds, " ")
	case e.Live != nil:
		return fmt.Sprintf("live %s %s @%d +%d", e.Live.Kind, e.Live.PartID, e.Live.Offset, len(e.Live.Text))
	case e.Launched != nil:
		return "launched"
	case e.Session != nil:
		return fmt.Sprintf("session %+v", *e.Session)
	case e.Ask != nil:
		return "ask " + e.Ask.Occurrence()
	case e.Withdrawn != "":
		return "withdrawn " + e.Withdrawn
	case e.Jobs != nil:
		return fmt.Sprintf("%d jobs", len(e.Jobs.Jobs))
	case e.Terminal != nil:
		return fmt.Sprintf("terminal %s %v", e.Terminal.Phase, e.Terminal.Error)
	}
	return "nothing"
}
