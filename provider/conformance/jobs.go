package conformance

import (
	"slices"
	"strings"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// testBackground follows work that outlives its turn.
func testBackground(t *testing.T, s Subject) {
	if s.Background == "" {
		t.Skip("the agent does nothing in the background")
	}
	c := openChat(t, s)
	r := c.start(s.Background)
	if end := r.allowing(0); end.Phase != row.RunCompleted {
		t.Fatalf("ended as %s (%v)", end.Phase, end.Error)
	}
	begun := c.sink.wait(t, "a list of jobs", func(e exec.Event) bool { return e.Jobs != nil && len(e.Jobs.Jobs) > 0 })
	if j := begun.Jobs.Jobs[0]; j.ID == "" || strings.TrimSpace(j.Title) == "" {
		t.Errorf("job %+v has no id or title", j)
	}
	over := c.sink.wait(t, "an empty list of jobs", func(e exec.Event) bool { return e.Jobs != nil && e.Seq > begun.Seq && len(e.Jobs.Jobs) == 0 })
	// What the agent makes of the end is a run of its own.
	own := c.sink.wait(t, "a run the agent begins itself", func(e exec.Event) bool { return e.Launched != nil && e.Launched.Unsolicited })
	l := own.Launched
	if own.RunID == r.id || own.RunID != l.Run.ID || l.TurnID == "" || strings.TrimSpace(l.Reason) == "" || own.Seq < over.Seq {
		t.Errorf("the run began as %+v after the jobs ended with event %d", own, over.Seq)
	}
	c.sink.wait(t, "its end", func(e exec.Event) bool { return e.RunID == own.RunID && e.Terminal != nil })
	// It does not stand in the way of the user.
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after the background work it answered %q", got)
	}

	// Background work ends with the binding.
	r = c.start(s.Background)
	r.allowing(0)
	c.close()
	c.sink.staysQuiet(t)
	if slices.ContainsFunc(c.sink.all(), func(e exec.Event) bool { return e.RunID == "" && e.Terminal != nil }) {
		t.Error("a terminal of no run")
	}
}
