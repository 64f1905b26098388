package provider

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary also plays the programs around the code under test.
const (
	// playRuntime names the state directory of a runtime that runs the
	// script in playScript and waits to be killed.
	playRuntime = "PROVIDER_TEST_RUNTIME"
	playScript  = "PROVIDER_TEST_SCRIPT"
)

func TestMain(m *testing.M) {
	if IsGuard(os.Args) {
		os.Exit(RunGuard(context.Background(), os.Stdin))
	}
	if dir := os.Getenv(playRuntime); dir != "" {
		if err := actAsRuntime(dir); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// actAsRuntime starts a script and prints its cookie and the guard's pid when
// the script has printed a line.
func actAsRuntime(dir string) error {
	ps, err := NewProcesses(ProcessesOptions{StateDir: dir})
	if err != nil {
		return err
	}
	p, err := ps.Start(context.Background(), Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", os.Getenv(playScript)}, Dir: dir})
	if err != nil {
		return err
	}
	if _, err := NewLineReader(p.Stdout(), 0).Next(); err != nil {
		return err
	}
	ps.guard.mu.Lock()
	fmt.Println(p.cookie, ps.guard.pid)
	ps.guard.mu.Unlock()
	io.Copy(io.Discard, os.Stdin)
	return nil
}

type outerRuntime struct {
	cmd    *osexec.Cmd
	cookie string
	guard  int
}

// startOuterRuntime runs the test binary as a runtime in a group of its own.
func startOuterRuntime(t *testing.T, dir, script string) outerRuntime {
	t.Helper()
	cmd := osexec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playRuntime+"="+dir, playScript+"="+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	r := outerRuntime{cmd: cmd}
	if n, _ := fmt.Sscan(line, &r.cookie, &r.guard); err != nil || n != 2 {
		t.Fatalf("runtime said %q (%v)", line, err)
	}
	return r
}

func newTestProcesses(t *testing.T, dir string) *Processes {
	t.Helper()
	ps, err := NewProcesses(ProcessesOptions{
		StateDir: dir, ConfigDir: "/config", RuntimeRole: "executor",
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := ps.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return ps
}

func startScript(t *testing.T, ps *Processes, script string) *Process {
	t.Helper()
	p, err := ps.Start(t.Context(), Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// waitFor polls for things that other processes do and nobody reports.
func waitFor(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %v: not %s", limit, what)
		}
	}
}

func waitDone(t *testing.T, p *Process, limit time.Duration) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(limit):
		t.Fatalf("process still there after %v", limit)
	}
}

// carriers lists the processes that run and carry the cookie.
func carriers(t *testing.T, cookie string) []string {
	t.Helper()
	list, err := listProcesses()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, st := range list {
		if c, _ := cookieOf(st.pid); c == cookie && !st.zombie {
			found = append(found, strings.TrimSpace(fmt.Sprint(st.pid, " ", commandOf(st.pid))))
		}
	}
	return found
}
