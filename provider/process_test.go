package provider

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"garcon/proto/exec"
)

func TestProcessRuns(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `read line; echo "got $line"; echo oops >&2; exit 7`)
	io.WriteString(p.Stdin(), "hello\n")
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != "got hello\n" {
		t.Errorf("stdout %q, %v", out, err)
	}
	waitDone(t, p, 5*time.Second)
	if got := p.Exit(); got.Code != 7 || got.Signal != 0 || got.Err != nil {
		t.Errorf("exit %+v", got)
	}
	if got := p.StderrTail(); got != "oops" {
		t.Errorf("stderr %q", got)
	}
	failure := p.Failure()
	if failure.Code != exec.CodeAgentCrashed || failure.Detail != "oops" || !strings.Contains(failure.Message, "exit status 7") {
		t.Errorf("failure %+v", failure)
	}
}

func TestProcessKilled(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `kill -9 $$`)
	waitDone(t, p, 5*time.Second)
	if got := p.Exit(); got.Signal != syscall.SIGKILL || got.Code != -1 {
		t.Errorf("exit %+v", got)
	}
	if got := p.Failure().Code; got != exec.CodeAgentKilled {
		t.Errorf("code %s", got)
	}
}

func TestEnvironmentOfProcess(t *testing.T) {
	t.Setenv("GARCON_WORKSPACE", "main")
	t.Setenv("GARCON_WORKSPACE_URL", "http://127.0.0.1:1/secret")
	t.Setenv("GARCON_CONTROLLER_URL", "wss://secret")
	t.Setenv("GARCON_TOKEN", "secret")
	t.Setenv("GARCON_CONFIG_DIR", "/elsewhere")
	t.Setenv("KEPT", "yes")
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `env | grep -E '^(GARCON|KEPT)' | sort`)
	out, _ := io.ReadAll(p.Stdout())
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	want := []string{"GARCON_CONFIG_DIR=/config", "GARCON_PROCESS=" + p.cookie, "GARCON_RUNTIME=executor", "KEPT=yes"}
	if !slices.Equal(got, want) {
		t.Errorf("environment\n got %q\nwant %q", got, want)
	}
}

func TestStartFailures(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	badInterpreter := filepath.Join(dir, "script")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(badInterpreter, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		cmd  Command
		want exec.Code
	}{
		{"not in PATH", t.Context(), Command{Path: "no-such-agent", Dir: dir}, exec.CodeAgentMissing},
		{"no such file", t.Context(), Command{Path: "/no/such/agent", Dir: dir}, exec.CodeAgentMissing},
		{"not executable", t.Context(), Command{Path: plain, Dir: dir}, exec.CodeAgentMissing},
		{"bad interpreter", t.Context(), Command{Path: badInterpreter, Dir: dir}, exec.CodeAgentMissing},
		{"no directory", t.Context(), Command{Path: "/bin/sh", Dir: dir + "/none"}, exec.CodeProjectPath},
		{"directory is a file", t.Context(), Command{Path: "/bin/sh", Dir: plain}, exec.CodeProjectPath},
		{"cancelled", cancelled, Command{Path: "/bin/sh", Dir: dir}, exec.CodeCancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// The starter may win against a context that has ended.
			p, err := ps.Start(tc.ctx, tc.cmd)
			if p != nil {
				p.Stop(t.Context(), 0)
				if tc.want == exec.CodeCancelled {
					return
				}
			}
			if got := exec.CodeOf(err); got != tc.want {
				t.Fatalf("code %q, want %q (%v)", got, tc.want, err)
			}
			if got := exec.AsError(err).Dispatched; got != exec.NotDispatched {
				t.Errorf("dispatched %q", got)
			}
		})
	}
	if data, err := os.ReadFile(ps.record.path); err != nil || string(data) != "[]" {
		t.Errorf("record after failed starts: %s, %v", data, err)
	}
}

func TestStartAfterClose(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `sleep 1000`)
	if err := ps.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("Close returned before the process was gone")
	}
	_, err := ps.Start(t.Context(), Command{Path: "/bin/sh", Dir: t.TempDir()})
	if exec.CodeOf(err) != exec.CodeUnavailable {
		t.Errorf("start after close: %v", err)
	}
}

func TestStateDirIsLocked(t *testing.T) {
	dir := t.TempDir()
	newTestProcesses(t, dir)
	if ps, err := NewProcesses(ProcessesOptions{StateDir: dir}); err == nil {
		ps.Close(t.Context())
		t.Error("two runtimes share a state directory")
	}
}

// grandchild scripts print a line once everything they start is running.
const (
	// doubleFork leaves the group of nobody: its parent is gone, and TERM is
	// ignored by all.
	doubleFork = `trap "" TERM; (sleep 1000 &); echo ready; sleep 1000`
	// ownSession leaves the group and the session, as agents do with shell
	// commands.
	ownSession = `setsid sh -c 'trap "" TERM; echo ready; sleep 1000' & wait`
	// noCookie also drops the environment; only its descent gives it away.
	noCookie = `env -i /usr/bin/setsid /bin/sh -c 'trap "" TERM; echo ready; /bin/sleep 1000' & wait`
	// leaver exits at once and leaves a child that holds its output.
	leaver = `setsid sh -c 'trap "" TERM; sleep 1000' & echo ready`
)

func TestStopEndsDescendants(t *testing.T) {
	for name, script := range map[string]string{"double fork": doubleFork, "own session": ownSession, "no cookie": noCookie} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ps := newTestProcesses(t, t.TempDir())
			p := startScript(t, ps, script)
			if _, err := NewLineReader(p.Stdout(), 0).Next(); err != nil {
				t.Fatal(err)
			}
			f := family{group: p.PID(), ours: func(c string, _ procStat) bool { return c == p.cookie }}
			before := f.scan()
			if len(before) < 2 {
				t.Fatalf("family of %d", len(before))
			}
			const grace = 300 * time.Millisecond
			begun := time.Now()
			if err := p.Stop(t.Context(), grace); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > grace+time.Second {
				t.Errorf("stop took %v", took)
			}
			for _, st := range before {
				if st.running() {
					t.Errorf("%d (%s) still runs", st.pid, st.name)
				}
			}
			if left := carriers(t, p.cookie); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if st, ok := statProcess(p.PID()); ok && st.ppid == os.Getpid() {
				t.Errorf("the root was not reaped: %+v", st)
			}
		})
	}
}

func TestStopIsPolite(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done`)
	lines := NewLineReader(p.Stdout(), 0)
	lines.Next()
	if err := p.Stop(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if line, _ := lines.Next(); string(line) != "bye" {
		t.Errorf("last line %q", line)
	}
	if got := p.Exit().Code; got != 3 {
		t.Errorf("exit status %d", got)
	}
}

func TestSecondStopHurries(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, doubleFork)
	NewLineReader(p.Stdout(), 0).Next()
	patient := make(chan error)
	go func() { patient <- p.Stop(context.Background(), time.Hour) }()
	<-p.stopping
	if err := p.Stop(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := <-patient; err != nil {
		t.Error(err)
	}
}

func TestStopReachesSuspended(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `echo ready; sleep 1000`)
	NewLineReader(p.Stdout(), 0).Next()
	syscall.Kill(p.PID(), syscall.SIGSTOP)
	if err := p.Stop(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	if got := p.Exit().Signal; got != syscall.SIGTERM {
		t.Errorf("ended by %v", got)
	}
}

func TestExitEndsWhatIsLeft(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, leaver)
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != "ready\n" {
		t.Errorf("stdout %q, %v", out, err)
	}
	waitDone(t, p, leftoverGrace+5*time.Second)
	if left := carriers(t, p.cookie); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestHundredMegabytes(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `head -c 104857600 /dev/zero; head -c 1000000 /dev/zero | tr '\0' e >&2; echo end >&2`)
	n, err := io.Copy(io.Discard, p.Stdout())
	if err != nil || n != 100<<20 {
		t.Errorf("read %d, %v", n, err)
	}
	waitDone(t, p, 10*time.Second)
	stderr := p.StderrTail()
	if len(stderr) > maxStderrTail || !strings.HasSuffix(stderr, "eend") {
		t.Errorf("stderr of %d bytes ends in %q", len(stderr), stderr[len(stderr)-10:])
	}
}

func TestOutputIsNotLost(t *testing.T) {
	// The reader comes after the exit, and somebody else still holds the
	// pipe: a process that this runtime does not know of.
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `read go; head -c 60000 /dev/zero; exit 0`)
	held, err := os.OpenFile("/proc/"+itoa(p.PID())+"/fd/1", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /proc to take the pipe from")
	}
	defer held.Close()
	io.WriteString(p.Stdin(), "go\n")
	waitDone(t, p, outputGrace+5*time.Second)
	// The time for the output is over before the reader begins.
	p.stdout.cut(-time.Second)
	out, err := io.ReadAll(p.Stdout())
	if err != nil || len(out) != 60000 {
		t.Errorf("read %d bytes, %v", len(out), err)
	}
}

// TestSignalChecksIdentity has the pid of a process and the start of another,
// as after the reuse of a pid.
func TestSignalChecksIdentity(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	p := startScript(t, ps, `echo ready; exec sleep 1000`)
	NewLineReader(p.Stdout(), 0).Next()
	st, ok := statProcess(p.PID())
	if !ok {
		t.Fatal("no such process")
	}
	other := st
	other.start--
	if err := other.signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to a process that is gone: %v", err)
	}
	if !st.running() {
		t.Fatal("the process that has its pid was signalled")
	}
	if err := st.signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	waitDone(t, p, 5*time.Second)
	if got := p.Exit().Signal; got != syscall.SIGKILL {
		t.Errorf("ended by %v", got)
	}
}

func TestTail(t *testing.T) {
	var tl tail
	for range 1000 {
		tl.Write(bytes.Repeat([]byte("x"), 99))
		tl.Write([]byte("\n"))
	}
	tl.Write([]byte("bad \xff\x00 end\n"))
	got := tl.String()
	if len(got) > maxStderrTail || !strings.HasPrefix(got, "xxx") || !strings.HasSuffix(got, "bad \uFFFD\uFFFD end") {
		t.Errorf("tail of %d bytes: %.20q … %q", len(got), got, got[len(got)-20:])
	}
	if first, _, _ := strings.Cut(got, "\n"); len(first) != 99 {
		t.Errorf("first line has %d bytes", len(first))
	}
}

// A process can be over before its input is closed; that is not a failure of
// whoever closes it.
func TestClosingTheInputOfAnEndedProcess(t *testing.T) {
	p := startScript(t, newTestProcesses(t, t.TempDir()), `exit 3`)
	<-p.Done()
	for range 2 {
		if err := p.Stdin().Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := p.Stdin().Write([]byte("x")); err == nil {
		t.Error("an ended process took input")
	}
}
