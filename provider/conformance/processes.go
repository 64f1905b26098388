package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func testCrash(t *testing.T, s Subject) {
	if s.Crash == "" {
		t.Skip("the agent has no process of its own")
	}
	c := openChat(t, s)
	c.turn(s.Say)
	r := c.start(s.Crash)
	end := r.allowing(0)
	if end.Phase != row.RunFailed || end.Error == nil || end.Error.Code != exec.CodeAgentCrashed && end.Error.Code != exec.CodeAgentKilled {
		t.Fatalf("ended as %s with %+v", end.Phase, end.Error)
	}
	if end.Error.Message == "" || end.Error.Hint == "" {
		t.Errorf("the error does not say what happened and what to do: %+v", end.Error)
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after the crash it answered %q", got)
	}
}

// secretEnv are variables of garcon that no native process may see.
var secretEnv = map[string]string{
	"GARCON_WORKSPACE":      "canary-workspace",
	"GARCON_WORKSPACE_URL":  "canary-url",
	"GARCON_CONTROLLER_URL": "canary-controller",
	"GARCON_TOKEN":          "canary-token",
}

// SetSecrets puts variables of garcon into the environment that no native
// process may see; the environment scenario looks for them. A maker calls it
// before it makes the runtime.
func SetSecrets(t testing.TB) {
	for name, value := range secretEnv {
		t.Setenv(name, value)
	}
}

func testEnvironment(t *testing.T, s Subject) {
	if s.Shell == nil {
		t.Skip("the agent runs no commands")
	}
	if os.Getenv("GARCON_TOKEN") != secretEnv["GARCON_TOKEN"] {
		t.Fatal("the maker of the subject does not call conformance.SetSecrets")
	}
	c := openChat(t, s)
	r := c.start(s.Shell("env > environment"))
	if end := r.allowing(0); end.Phase != row.RunCompleted {
		t.Fatalf("ended as %s (%v)", end.Phase, end.Error)
	}
	data, err := os.ReadFile(filepath.Join(s.ProjectPath, "environment"))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range secretEnv {
		if strings.Contains(string(data), value) {
			t.Errorf("%s is in the environment of a native process", value)
		}
	}
	for _, name := range []string{"GARCON_CONFIG_DIR=", "GARCON_RUNTIME=", "PATH="} {
		if !strings.Contains("\n"+string(data), "\n"+name) {
			t.Errorf("%s is not in the environment of a native process", name)
		}
	}
}

// testDescendants has the agent leave processes behind that do not want to end.
func testDescendants(t *testing.T, s Subject) {
	if s.Shell == nil {
		t.Skip("the agent runs no commands")
	}
	// One that left its parent, and one that left its session as well. Both
	// ignore the polite signal and hold no pipe of the agent.
	const leave = `trap "" TERM; ` +
		`(sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > pid1); ` +
		`setsid sh -c 'echo $$ > pid2; exec sleep 1000' </dev/null >/dev/null 2>&1 & ` +
		`while ! test -s pid2; do sleep 0.05; done`
	bystander := startBystander(t)
	for name, end := range map[string]func(c *chat){
		"close binding": func(c *chat) { c.close() },
		"close runtime": func(c *chat) {
			ctx, cancel := context.WithTimeout(t.Context(), endGrace)
			defer cancel()
			if err := s.Runtime.Close(ctx); err != nil {
				t.Fatal(err)
			}
		},
	} {
		c := openChat(t, s)
		r := c.start(s.Shell(leave))
		if end := r.allowing(0); end.Phase != row.RunCompleted {
			t.Fatalf("ended as %s (%v)", end.Phase, end.Error)
		}
		pids := []int{readPID(t, s, "pid1"), readPID(t, s, "pid2")}
		end(c)
		waitGone(t, name, pids)
		if !alive(bystander) {
			t.Fatalf("%s: a process of somebody else was ended", name)
		}
		if name == "close runtime" {
			s.Runtime = s.Restart(t)
		}
	}
}

// startBystander starts a process that is none of the agent's business.
func startBystander(t testing.TB) int {
	t.Helper()
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
	})
	return p.Pid
}

func readPID(t testing.TB, s Subject, name string) int {
	t.Helper()
	path := filepath.Join(s.ProjectPath, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// alive reports whether a process runs; a zombie that nobody reaps does not.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, state, ok := strings.Cut(string(data), ") ")
		return ok && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
	}
	if _, err := os.Stat("/proc/self"); err == nil {
		return false
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// pollInterval is how often the end of processes is looked for.
const pollInterval = 10 * time.Millisecond

// waitFile waits for the agent to make a file.
func waitFile(t testing.TB, path string) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	deadline := time.After(waitLimit)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not come within %v", path, waitLimit)
		}
	}
}

func waitGone(t testing.TB, what string, pids []int) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	deadline := time.After(endGrace)
	for slices.ContainsFunc(pids, alive) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: processes %v are still there after %v", what, pids, endGrace)
		}
	}
}
