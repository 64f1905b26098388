package conformance

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// failsToLaunch launches and checks that the reply and the stream say the same
// of the failure. Some agents only find out after they have taken the prompt.
func failsToLaunch(t testing.TB, c *chat, l exec.Launch) *exec.Error {
	t.Helper()
	r, err := c.launch(l)
	end := r.end()
	if end.Phase != row.RunFailed || end.Error == nil {
		t.Fatalf("the launch ended as %s (%v)", end.Phase, end.Error)
	}
	if err != nil && exec.CodeOf(err) != end.Error.Code {
		t.Errorf("the reply says %s, the stream %s", exec.CodeOf(err), end.Error.Code)
	}
	return end.Error
}

func testRefusedLaunches(t *testing.T, s Subject) {
	c := openChat(t, s)
	if native(c.in) {
		l := c.prepare(s.Say)
		l.NativeSession = uuid.NewString()
		if e := failsToLaunch(t, c, l); e.Code != exec.CodeSessionMissing {
			t.Errorf("a session that does not exist: %s, want %s", e.Code, exec.CodeSessionMissing)
		}
		c.session = ""
	}
	if s.Shell != nil {
		l := c.prepare(s.Say)
		l.ProjectPath = filepath.Join(s.ProjectPath, "no", "such", "directory")
		if e := failsToLaunch(t, c, l); e.Code != exec.CodeProjectPath {
			t.Errorf("a project that does not exist: %s, want %s", e.Code, exec.CodeProjectPath)
		}
		c.session = ""
	}
	l := c.prepare(s.Say)
	l.Mode = "no such mode"
	if e := failsToLaunch(t, c, l); e.Code != exec.CodeInvalid || e.Dispatched != exec.NotDispatched {
		t.Errorf("a mode that does not exist: %s, dispatched %s", e.Code, e.Dispatched)
	}
	l = c.prepare(s.Say)
	l.ChatID = "another chat"
	_, err := c.launch(l)
	wantRefused(t, err, exec.CodeInvalid)
	// None of this harmed the conversation.
	c.session = ""
	c.turn(s.Say)
}

func testFailure(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.Fail)
	end := r.end()
	if end.Phase != row.RunFailed || end.Error == nil || end.Error.Code != s.FailCode {
		t.Fatalf("ended as %s with %+v, want %s", end.Phase, end.Error, s.FailCode)
	}
	if strings.TrimSpace(end.Error.Message) == "" || len(end.Error.Detail) > exec.MaxErrorDetail {
		t.Errorf("the error says %q with %d bytes of detail", end.Error.Message, len(end.Error.Detail))
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after a failure it answered %q", got)
	}
}

func testAbort(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.Hang)
	r.busy()
	r.stops()
	if err := c.in.Execution.Abort(limited(t), r.ref); exec.CodeOf(err) != exec.CodeStaleResource {
		t.Errorf("abort of a run that is over: %v", err)
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after a stop it answered %q", got)
	}
	// At once, and by two at a time.
	r = c.start(s.Hang)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := c.in.Execution.Abort(limited(t), r.ref); err != nil && exec.CodeOf(err) != exec.CodeStaleResource {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if end := r.end(); end.Phase != row.RunInterrupted {
		t.Errorf("the run stopped at once ended as %s (%v)", end.Phase, end.Error)
	}
	c.turn(s.Say)
}

func testBusySession(t *testing.T, s Subject) {
	c := openChat(t, s)
	c.turn(s.Say)
	r := c.start(s.Hang)
	r.busy()
	_, err := c.launch(c.prepare(s.Say))
	wantRefused(t, err, exec.CodeSessionBusy)
	other := openChat(t, s)
	if native(c.in) {
		other.session = c.session
		_, err := other.launch(other.prepare(s.Say))
		wantRefused(t, err, exec.CodeSessionBusy)
		if other.in.Compaction != nil {
			_, err := other.in.Compaction.Compact(limited(t), other.prepare(""))
			wantRefused(t, err, exec.CodeSessionBusy)
		}
	}
	r.stops()
	// Whoever comes next may have it.
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("the freed session answered %q", got)
	}
}

func testStaleReferences(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.Hang)
	r.busy()
	for name, change := range map[string]func(*exec.Ref){
		"instance": func(ref *exec.Ref) { ref.InstanceID = uuid.NewString() },
		"executor": func(ref *exec.Ref) { ref.ExecutorID = uuid.NewString() },
		"agent":    func(ref *exec.Ref) { ref.IntegrationID = "another" },
		"id":       func(ref *exec.Ref) { ref.ID = uuid.NewString() },
	} {
		binding, run := c.binding, r.ref
		change(&binding)
		change(&run)
		l := c.prepare(s.Say)
		l.Binding = binding
		_, err := c.in.Execution.Start(limited(t), l)
		wantRefused(t, err, exec.CodeStaleResource)
		wantRefused(t, c.in.Execution.CloseBinding(limited(t), binding), exec.CodeStaleResource)
		wantRefused(t, c.in.Execution.Abort(limited(t), run), exec.CodeStaleResource)
		if t.Failed() {
			t.Fatalf("with another %s", name)
		}
	}
	wantRefused(t, c.in.Execution.Abort(limited(t), c.binding), exec.CodeInvalid)
	wantRefused(t, c.in.Execution.CloseBinding(limited(t), r.ref), exec.CodeInvalid)
	r.stops()
}

func testCloseBinding(t *testing.T, s Subject) {
	// In the middle of a run: nothing more comes, not even a terminal.
	c := openChat(t, s)
	r := c.start(s.Hang)
	r.busy()
	c.close()
	c.sink.staysQuiet(t)
	if slices.ContainsFunc(c.sink.all(), func(e exec.Event) bool { return e.Terminal != nil }) {
		t.Error("closing the binding published a terminal")
	}
	wantCode(t, c.in.Execution.CloseBinding(limited(t), c.binding), exec.CodeStaleResource)
	wantCode(t, c.in.Execution.Abort(limited(t), r.ref), exec.CodeStaleResource)
	_, err := c.launch(c.prepare(s.Say))
	wantRefused(t, err, exec.CodeStaleResource)
	c.learn(r)
	c.open()
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("a new binding of the chat was answered %q", got)
	}

	// After a run: it stays completed.
	c.close()
	c.sink.staysQuiet(t)
}

// testCloseAtLaunch closes while a start is in progress, at whatever point it
// happens to be.
func testCloseAtLaunch(t *testing.T, s Subject) {
	c := openChat(t, s)
	l := c.prepare(s.Say)
	reply := make(chan error, 1)
	go func() {
		_, err := c.launch(l)
		reply <- err
	}()
	c.close()
	after := len(c.sink.all())
	if err := <-reply; err != nil {
		wantCode(t, err, exec.CodeStaleResource)
	}
	c.sink.staysQuiet(t)
	if len(c.sink.all()) != after {
		t.Error("the closed binding went on")
	}
}

func testCloseRuntime(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.Hang)
	r.busy()
	var mu sync.Mutex
	var states []exec.Availability
	stop := s.Runtime.Watch(func(a exec.Availability) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, a)
	})
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), endGrace)
	defer cancel()
	if err := s.Runtime.Close(ctx); err != nil {
		t.Fatal(err)
	}
	c.sink.staysQuiet(t)
	if err := s.Runtime.Close(ctx); err != nil {
		t.Errorf("second Close: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := s.Runtime.Availability(); got != exec.Disposed || len(states) == 0 || states[len(states)-1] != exec.Disposed {
		t.Errorf("availability %s after %v", got, states)
	}
	_, err := c.launch(c.prepare(s.Say))
	wantRefused(t, err, exec.CodeUnavailable)
	_, err = s.Runtime.Integration(t.Context(), s.IntegrationID)
	wantRefused(t, err, exec.CodeUnavailable)
}

// testRestart has the executor come back as a new process.
func testRestart(t *testing.T, s Subject) {
	c := openChat(t, s)
	c.turn(s.Say)
	old := c.binding
	s.Runtime = s.Restart(t)
	after := &chat{t: t, s: s, in: s.integration(t), id: c.id, session: c.session, said: c.said, runs: c.runs}
	after.open()
	if old.InstanceID == after.binding.InstanceID {
		t.Error("the new runtime has the instance id of the old one")
	}
	l := after.prepare(s.Say)
	l.Binding = old
	_, err := after.launch(l)
	wantRefused(t, err, exec.CodeStaleResource)
	if got := after.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after the restart it answered %q", got)
	}
}
