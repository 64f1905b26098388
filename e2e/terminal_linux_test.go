package e2e

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// onTerminal is a command on a terminal of its own.
type onTerminal struct {
	cmd    *exec.Cmd
	master *os.File
	shown  logBuffer
	copied chan struct{}
}

// onTerminal starts garcon on a terminal.
func (w *World) onTerminal(args ...string) *onTerminal {
	w.t.Helper()
	o := &onTerminal{cmd: exec.Command(w.binary, args...), copied: make(chan struct{})}
	o.cmd.Env, o.cmd.Dir = w.Env(), w.Home
	var err error
	if o.master, err = pty.Start(o.cmd); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(&o.shown, o.master) // a terminal ends with an error
		close(o.copied)
	}()
	return o
}

// echoes reports whether the terminal shows what is typed.
func (o *onTerminal) echoes(t testing.TB) bool {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(o.master.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return mode.Lflag&unix.ECHO != 0
}

func (o *onTerminal) typeText(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(o.master, text); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the command's end and returns its exit code.
func (o *onTerminal) wait() int {
	_ = o.cmd.Wait() // the exit code says it
	<-o.copied
	_ = o.master.Close()
	return o.cmd.ProcessState.ExitCode()
}

var addProvider = []string{"providers", "add", "--protocol", "anthropic", "--base-url", "http://127.0.0.1:1"}

// A key that is typed does not appear on the terminal, nor in what the
// controller prints and keeps for others to read.
func TestTypedKeyIsHidden(t *testing.T) {
	const key = "sk-canary-typed-5150"
	w := New(t)
	c := w.Controller()
	o := w.onTerminal(addProvider...)
	Until(t, readyTimeout, "the key is asked for without echo", func() bool {
		return !o.echoes(t) && strings.Contains(o.shown.String(), "Key")
	})
	o.typeText(t, key+"\n")
	if code := o.wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, o.shown.String())
	}
	if shown := o.shown.String(); strings.Contains(shown, key) || !strings.Contains(shown, "yes") {
		t.Errorf("the terminal shows\n%s", shown)
	}
	if out := w.Must("providers", "list", "--json"); strings.Contains(out, key) || !strings.Contains(out, `"hasKey": true`) {
		t.Errorf("the list shows\n%s", out)
	}
	if strings.Contains(c.Logs(), key) {
		t.Error("the controller prints the key")
	}
	for _, p := range w.Census() {
		if strings.Contains(p.Command, key) {
			t.Errorf("the key is an argument of %v", p)
		}
	}
}

// An interrupt at the question changes nothing, and the terminal shows again
// what is typed.
func TestInterruptedKey(t *testing.T) {
	w := New(t)
	w.Controller()
	o := w.onTerminal(addProvider...)
	Until(t, readyTimeout, "the key is asked for without echo", func() bool {
		return !o.echoes(t) && strings.Contains(o.shown.String(), "Key")
	})
	o.typeText(t, "\x03")
	Until(t, readyTimeout, "the terminal echoes again", func() bool { return o.echoes(t) })
	if code := o.wait(); code != 130 {
		t.Errorf("exit code %d, want 130\n%s", code, o.shown.String())
	}
	if out := w.Must("providers"); out != "" {
		t.Errorf("there is a provider: %s", out)
	}
}

// Interrupting a wait on a terminal leaves the turn running.
func TestInterruptOnATerminal(t *testing.T) {
	w := New(t)
	w.Controller()
	o := w.onTerminal("chats", "start", "--agent", "demo", "--cwd", w.Project, "hang")
	Until(t, readyTimeout, "the turn is accepted", func() bool { return strings.Contains(o.shown.String(), "turn id:") })
	o.typeText(t, "\x03")
	if code := o.wait(); code != 130 || !strings.Contains(o.shown.String(), "the turn goes on") {
		t.Errorf("exit code %d, want 130\n%s", code, o.shown.String())
	}
	if list := w.Must("chats"); !strings.Contains(list, "\trunning\t") {
		t.Errorf("the list says %s", list)
	}
}
