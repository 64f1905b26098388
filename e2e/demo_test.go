package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// What a newcomer types first: two commands, and what the first one says to do.
func TestFirstMinute(t *testing.T) {
	w := New(t)
	c := w.Controller()
	greeting := c.stdout.String()
	m := regexp.MustCompile(`garcon (chats.* start --agent demo "Say hello")`).FindStringSubmatch(greeting)
	if m == nil {
		t.Fatalf("the controller does not say how to start a chat:\n%s", greeting)
	}
	// A shell reads the line as a user would have it read.
	r, err := w.RunShell("garcon " + m[1])
	if err != nil || r.Code != 0 || !regexp.MustCompile(`(?s)^chat id: \d{16}\nturn id: [0-9a-f-]{36}\n.*[Hh]ello`).MatchString(r.Stdout) {
		t.Errorf("the first chat says: %v\n%s%s", err, r.Stdout, r.Stderr)
	}
	if list := w.Must("chats"); !strings.Contains(list, "\tidle\tdemo\t") {
		t.Errorf("the list says:\n%s", list)
	}
	w.Must("doctor")
	if code := c.Stop(); code != 0 {
		t.Errorf("the controller ended with %d\n%s", code, c.Logs())
	}
	w.NothingLeft()
}

// A turn that is going when the controller is asked to end is ended with it,
// and said to be.
func TestStopEndsTurns(t *testing.T) {
	w := New(t)
	c := w.Controller()
	out := w.Must("chats", "start-async", "--agent", "demo", "--title", "Long work", "hang")
	chat := regexp.MustCompile(`chat id: (\d+)`).FindStringSubmatch(out)[1]
	Until(t, goneTimeout, "the turn is running", func() bool {
		return strings.Contains(w.Must("chats", "list"), chat+"\trunning\t")
	})
	if code := c.Stop(); code != 0 {
		t.Errorf("the controller ended with %d\n%s", code, c.Logs())
	}
	if !strings.Contains(c.stdout.String(), chat) || !strings.Contains(c.stdout.String(), "Long work") {
		t.Errorf("the controller does not say which turn it ended:\n%s", c.stdout)
	}
	w.NothingLeft()
	w.Controller()
	if read := w.Must("chats", "read", chat); !strings.Contains(read, "[run] interrupted") {
		t.Errorf("the transcript does not say that the turn was interrupted:\n%s", read)
	}
}
