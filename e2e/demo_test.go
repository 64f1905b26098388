package e2e

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
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
	chat := chatID(t, w.Must("chats", "start-async", "--agent", "demo", "--title", "Long work", "hang"))
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

// stubborn is a command that does not end when it is asked to.
const stubborn = "run: trap '' TERM INT HUP; touch started; while :; do sleep 0.1; done"

// The second signal does not wait for what will not end, and leaves nothing
// either.
func TestSecondSignalHurries(t *testing.T) {
	w := New(t)
	c := w.Controller()
	w.Must("chats", "start-async", "--agent", "demo", "--permissions", "bypass", stubborn)
	Until(t, readyTimeout, "the command is running", func() bool {
		_, err := os.Stat(w.Project + "/started")
		return err == nil
	})
	begin := time.Now()
	// Two different signals, as two of the same may arrive as one.
	c.Signal(syscall.SIGINT)
	c.Signal(syscall.SIGTERM)
	c.Wait()
	if took := time.Since(begin); took > hurryTimeout {
		t.Errorf("ending took %s", took)
	}
	w.NothingLeft()
}

// hurryTimeout is far below the time that agents get to end politely.
const hurryTimeout = 10 * time.Second

// One signal ends what does not want to end, too, after a while.
func TestStubbornCommandIsEnded(t *testing.T) {
	w := New(t)
	w.Controller()
	chat := chatID(t, w.Must("chats", "start-async", "--agent", "demo", "--permissions", "bypass", stubborn))
	Until(t, readyTimeout, "the command is running", func() bool {
		_, err := os.Stat(w.Project + "/started")
		return err == nil
	})
	w.Must("chats", "stop", chat)
	if r := w.Garcon("chats", "wait", chat); r.Code != 4 {
		t.Errorf("the turn ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	Until(t, goneTimeout, "the command is gone", func() bool {
		for _, p := range w.Census() {
			if strings.Contains(p.Command, "touch started") {
				return false
			}
		}
		return true
	})
	if out := w.Must("chats", "resume", chat, "say next"); !strings.HasSuffix(out, "next\n") {
		t.Errorf("the next turn says %s", out)
	}
}

// chatID returns the chat id that a command printed.
func chatID(t testing.TB, out string) string {
	t.Helper()
	m := regexp.MustCompile(`chat id: (\d{16})`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no chat id in %s", out)
	}
	return m[1]
}
