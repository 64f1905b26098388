package conformance

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// successions is how many turns follow each other at once.
const successions = 25

// testSuccession launches the next run the moment the terminal of the one
// before it is seen.
func testSuccession(t *testing.T, s Subject) {
	c := openChat(t, s)
	for range successions {
		if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
			t.Fatalf("answered %q", got)
		}
	}
}

// testResumeRace has many chats ask for one native session at once.
func testResumeRace(t *testing.T, s Subject) {
	c := openChat(t, s)
	if !native(c.in) {
		return
	}
	c.turn(s.Say)
	c.close()
	var chats []*chat
	for range concurrentChats {
		other := openChat(t, s)
		other.session = c.session
		chats = append(chats, other)
	}
	runs := make([]*run, len(chats))
	errs := make([]error, len(chats))
	var wg sync.WaitGroup
	for i, other := range chats {
		l := other.prepare(s.Hang)
		wg.Go(func() { runs[i], errs[i] = other.launch(l) })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			runs[i].busy()
			runs[i].stops()
			continue
		}
		wantRefused(t, err, exec.CodeSessionBusy)
		if end := runs[i].end(); end.Phase != row.RunFailed || end.Error == nil || end.Error.Code != exec.CodeSessionBusy {
			t.Errorf("the stream of a refused chat says %+v", end)
		}
	}
	if won != 1 {
		t.Errorf("%d chats got the session", won)
	}
}

// testGiveUpLaunch gives up launches at whatever point they happen to be.
func testGiveUpLaunch(t *testing.T, s Subject) {
	c := openChat(t, s)
	for _, yields := range []int{0, 1, 10, 100, 1_000, 10_000} {
		l := c.prepare(s.Hang)
		start := c.in.Execution.Start
		if l.NativeSession != "" {
			start = c.in.Execution.Resume
		}
		ctx, cancel := context.WithCancel(limited(t))
		var running atomic.Bool
		reply := make(chan error, 1)
		var ref exec.Ref
		go func() {
			running.Store(true)
			var err error
			ref, err = start(ctx, l)
			reply <- err
		}()
		for !running.Load() {
			runtime.Gosched()
		}
		for range yields {
			runtime.Gosched()
		}
		cancel()
		err := <-reply
		r := &run{chat: c, id: l.RunID, prompt: s.Hang, ref: ref, sink: c.sink}
		if err == nil {
			r.busy()
			r.stops()
			continue
		}
		if end := r.end(); end.Phase != row.RunInterrupted || end.Error == nil || end.Error.Code != exec.CodeCancelled {
			t.Errorf("a launch that was given up (%v) ended as %s (%v)", err, end.Phase, end.Error)
		}
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after launches that were given up it answered %q", got)
	}
}

// testRunID launches with the id of a run that is going on.
func testRunID(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.Hang)
	r.busy()
	other := openChat(t, s)
	l := other.prepare(s.Say)
	l.RunID = r.id
	_, err := other.launch(l)
	wantRefused(t, err, exec.CodeInvalid)
	for name, change := range map[string]func(*exec.Launch){
		"run":  func(l *exec.Launch) { l.RunID = "" },
		"turn": func(l *exec.Launch) { l.TurnID = "" },
	} {
		l := other.prepare(s.Say)
		change(&l)
		if _, err := other.launch(l); exec.CodeOf(err) != exec.CodeInvalid {
			t.Errorf("a launch without the id of its %s: %v", name, err)
		}
	}
	// The run that has the id goes on.
	r.stops()
}

// testAbortInTool stops the agent while it runs a command.
func testAbortInTool(t *testing.T, s Subject) {
	if s.Shell == nil {
		t.Skip("the agent runs no commands")
	}
	c := openChat(t, s)
	r := c.start(s.Shell("echo $$ > pid3.new; mv pid3.new pid3; exec sleep 1000"))
	if c.in.Permissions != nil {
		ask := r.asked(0)
		if err := c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: optionOf(t, ask, row.AllowOnce)}); err != nil {
			t.Fatal(err)
		}
	}
	waitFile(t, filepath.Join(s.ProjectPath, "pid3"))
	pid := readPID(t, s, "pid3")
	r.stops()
	waitGone(t, "abort", []int{pid})
	results := r.results(row.ToolBash)
	if len(results) != 1 || !results[0].IsError {
		t.Errorf("results of the stopped command: %+v", results)
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after a stop it answered %q", got)
	}
}

// testCloseWhileAsking closes the binding of a chat that waits for the user.
func testCloseWhileAsking(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.shell(t, "touch "+marker))
	ask := r.asked(0)
	c.close()
	c.sink.staysQuiet(t)
	wantCode(t, c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: optionOf(t, ask, row.AllowOnce)}), exec.CodeAlreadyResolved)
	if s.exists(marker) {
		t.Error("the command ran although nobody had allowed it")
	}
	c.learn(r)
	c.open()
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("a new binding of the chat was answered %q", got)
	}
}

// testKilled kills the agent's process from outside.
func testKilled(t *testing.T, s Subject) {
	if s.Kill == nil {
		t.Skip("the agent has no process of its own")
	}
	c := openChat(t, s)
	c.turn(s.Say)
	r := c.start(s.Hang)
	r.busy()
	s.Kill(t)
	end := r.end()
	if end.Phase != row.RunFailed || end.Error == nil || end.Error.Code != exec.CodeAgentKilled || end.Error.Hint == "" {
		t.Fatalf("ended as %s with %+v", end.Phase, end.Error)
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after the kill it answered %q", got)
	}
}
