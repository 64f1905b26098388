package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// marker is what the commands of the suite leave behind.
const marker = "garcon-was-here"

// shell returns a prompt that runs a command; an agent that asks must be able
// to.
func (s Subject) shell(t testing.TB, command string) string {
	t.Helper()
	if s.Shell == nil {
		t.Fatal("the agent asks for permission but the subject has no Shell")
	}
	return s.Shell(command)
}

func (s Subject) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.ProjectPath, name))
	return err == nil
}

// results returns the results of the run's own calls of a tool.
func (r *run) results(tool row.ToolName) []*row.ToolResult {
	calls := map[string]bool{}
	var list []*row.ToolResult
	for _, one := range r.rows() {
		switch b := one.Body.(type) {
		case *row.Tool:
			calls[b.CallID] = b.Tool == tool
		case *row.ToolResult:
			if calls[b.CallID] {
				list = append(list, b)
			}
		}
	}
	return list
}

func testPermission(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.shell(t, "touch "+marker+"; echo out-$((40+2))"))
	ask := r.asked(0)
	p, ok := ask.Row.Body.(*row.Permission)
	if !ok || p.Tool != row.ToolBash || !strings.Contains(p.Input.Command, marker) {
		t.Fatalf("the request is %+v", ask.Row.Body)
	}
	if s.exists(marker) {
		t.Fatal("the command ran before it was allowed")
	}
	// What was not offered is refused and leaves the request open.
	wantRefused(t, c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: "no such option"}), exec.CodeInvalid)
	stale := ask.Request
	stale.InstanceID = "an earlier one"
	wantRefused(t, c.in.Permissions.Answer(limited(t), stale, exec.Answer{OptionID: p.Options[0].ID}), exec.CodeStaleResource)
	wantRefused(t, c.in.Permissions.Answer(limited(t), r.ref, exec.Answer{OptionID: p.Options[0].ID}), exec.CodeInvalid)
	if s.exists(marker) {
		t.Fatal("a bad answer allowed the command")
	}
	if err := c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: optionOf(t, ask, row.AllowOnce)}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: p.Options[0].ID}), exec.CodeAlreadyResolved)
	if end := r.allowing(1); end.Phase != row.RunCompleted {
		t.Fatalf("ended as %s (%v)", end.Phase, end.Error)
	}
	if !s.exists(marker) {
		t.Error("the allowed command did not run")
	}
	results := r.results(row.ToolBash)
	if len(results) == 0 || !strings.Contains(results[0].Output, "out-42") || results[0].IsError {
		t.Errorf("results of the command: %+v", results)
	}
}

func testPermissionRefused(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.shell(t, "touch "+marker))
	ask := r.asked(0)
	answer := exec.Answer{OptionID: optionOf(t, ask, row.Deny), Message: "not today"}
	if err := c.in.Permissions.Answer(limited(t), ask.Request, answer); err != nil {
		t.Fatal(err)
	}
	// The agent is told and the turn goes on to an ordinary end.
	r.completes()
	if s.exists(marker) {
		t.Error("the refused command ran")
	}
	results := r.results(row.ToolBash)
	if len(results) != 1 || !results[0].IsError {
		t.Errorf("results of the refused command: %+v", results)
	}
	if len(results) > 0 && !strings.Contains(results[0].Output, "not today") {
		t.Errorf("the agent was not told why, only %q", results[0].Output)
	}
}

const (
	// answerers is how many answers race for one request.
	answerers = 16
	// races is how many requests they race for: the moment in which two could
	// both win is short.
	races = 5
)

func testPermissionRace(t *testing.T, s Subject) {
	c := openChat(t, s)
	for n := range races {
		r := c.start(s.shell(t, "echo x >> "+marker))
		ask := r.asked(0)
		option := optionOf(t, ask, row.AllowOnce)
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for range answerers {
			wg.Go(func() {
				<-ready
				switch err := c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: option}); exec.CodeOf(err) {
				case "":
					won.Add(1)
				case exec.CodeAlreadyResolved:
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		close(ready)
		wg.Wait()
		if won.Load() != 1 || lost.Load() != answerers-1 {
			t.Errorf("%d answers won, %d lost", won.Load(), lost.Load())
		}
		r.completes()
		if data, err := os.ReadFile(filepath.Join(s.ProjectPath, marker)); err != nil || string(data) != strings.Repeat("x\n", n+1) {
			t.Errorf("after %d commands the file holds %q, %v", n+1, data, err)
		}
	}
}

func testPermissionWithdrawn(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.shell(t, "touch "+marker))
	ask := r.asked(0)
	r.stops()
	events := c.sink.all()
	withdrawn := slices.IndexFunc(events, func(e exec.Event) bool { return e.Withdrawn == ask.Occurrence() })
	terminal := slices.IndexFunc(events, func(e exec.Event) bool { return e.Terminal != nil })
	if withdrawn < 0 || withdrawn > terminal {
		t.Errorf("the request of the stopped run was not withdrawn before its end:\n%s", outline(events))
	}
	wantCode(t, c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: optionOf(t, ask, row.AllowOnce)}), exec.CodeAlreadyResolved)
	if s.exists(marker) {
		t.Error("the command of the stopped run ran")
	}
	c.turn(s.Say)
}

func testBypass(t *testing.T, s Subject) {
	c := openChat(t, s)
	i := slices.IndexFunc(c.in.Manifest.Modes, func(m exec.Mode) bool { return m.Bypass })
	if i < 0 {
		return
	}
	l := c.prepare(s.shell(t, "touch "+marker))
	l.Mode = c.in.Manifest.Modes[i].ID
	r := c.begin(l)
	r.completes()
	if !s.exists(marker) {
		t.Error("the command did not run")
	}
	if slices.ContainsFunc(c.sink.all(), func(e exec.Event) bool { return e.Ask != nil }) {
		t.Error("the bypass mode asks")
	}
}

func testQuestion(t *testing.T, s Subject) {
	if s.Ask == "" {
		// Not every agent that asks for permission can ask questions.
		t.Skip("the agent asks no questions")
	}
	c := openChat(t, s)
	r := c.start(s.Ask)
	ask := r.asked(0)
	q, ok := ask.Row.Body.(*row.Question)
	if !ok || len(q.Questions) == 0 || len(q.Questions[0].Options) == 0 {
		t.Fatalf("the request is %+v", ask.Row.Body)
	}
	wantRefused(t, c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{Answers: map[string][]string{"no such question": {"x"}}}), exec.CodeInvalid)
	answers := map[string][]string{}
	for _, item := range q.Questions {
		answers[item.ID] = []string{item.Options[0].Label}
	}
	if err := c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{Answers: answers}); err != nil {
		t.Fatal(err)
	}
	r.completes()
	chosen := q.Questions[0].Options[0].Label
	if results := r.results(row.ToolQuestion); len(results) != 1 || !strings.Contains(results[0].Output, chosen) {
		t.Errorf("the agent was not told %q: %+v", chosen, results)
	}

	// A question that was declined does not hang the turn.
	r = c.start(s.Ask)
	if err := c.in.Permissions.Answer(limited(t), r.asked(0).Request, exec.Answer{Decline: true}); err != nil {
		t.Fatal(err)
	}
	r.end()
}

func testSteering(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.start(s.Hang)
	r.busy()
	steer := exec.Steer{Run: r.ref, ID: "steer-1", Prompt: exec.Prompt{Text: s.Steer}}
	if err := c.in.Steering.Steer(limited(t), steer); err != nil {
		t.Fatal(err)
	}
	r.completes()
	if !strings.Contains(r.text(), s.SteerReply) {
		t.Errorf("after steering it answered %q", r.text())
	}
	steer.ID = "steer-2"
	kind := steer
	kind.Run = c.binding
	wantRefused(t, c.in.Steering.Steer(limited(t), kind), exec.CodeInvalid)
	wantRefused(t, c.in.Steering.Steer(limited(t), steer), exec.CodeNotSteerable)
	stale := steer
	stale.Run.InstanceID = "an earlier one"
	wantRefused(t, c.in.Steering.Steer(limited(t), stale), exec.CodeStaleResource)
}
