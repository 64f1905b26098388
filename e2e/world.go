package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Bounds of what a World waits for. All are far beyond what a loaded machine
// with the race detector needs: a test that gets there has found a fault.
const (
	readyTimeout   = 60 * time.Second
	commandTimeout = 2 * time.Minute
	stopTimeout    = 60 * time.Second
	goneTimeout    = 30 * time.Second
	// lookInterval is how often a condition that has no event is looked at.
	lookInterval = 10 * time.Millisecond
)

// World is one user's machine in a temporary directory. Its methods fail the
// test; they are to be called from the test's goroutine unless they say
// otherwise.
type World struct {
	t testing.TB
	// Dir holds everything below.
	Dir string
	// Home is the home directory, Root the configuration root (not the default
	// one), Project a directory that a chat can run in.
	Home, Root, Project string
	binary              string
	env                 []string
	roles               []*Role
}

// New returns a fresh world. When the test ends its roles are ended, and a
// process that is left over fails the test.
func New(t testing.TB) *World {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &World{
		t: t, Dir: dir, binary: Binary(t),
		Home: filepath.Join(dir, "home"), Root: filepath.Join(dir, "root"), Project: filepath.Join(dir, "home", "project"),
	}
	for _, d := range []string{w.Home, w.Project, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = []string{
		"HOME=" + w.Home, "TMPDIR=" + filepath.Join(dir, "tmp"), "LANG=C.UTF-8", "TERM=dumb",
		"PATH=" + filepath.Dir(w.binary) + ":/usr/local/bin:/usr/bin:/bin",
		"GARCON_CONFIG_DIR=" + w.Root,
		// A data race of any process of this world ends it loudly; without one
		// no process lingers at its end, which is a second otherwise.
		"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0",
	}
	t.Cleanup(w.close)
	return w
}

func (w *World) close() {
	for _, r := range w.roles {
		r.Kill()
	}
	w.NothingLeft()
}

// Setenv sets a variable for what is started from now on; an empty value
// unsets it.
func (w *World) Setenv(name, value string) {
	w.env = slices.DeleteFunc(w.env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	if value != "" {
		w.env = append(w.env, name+"="+value)
	}
}

// Env returns a copy of the environment of what this world starts.
func (w *World) Env() []string { return slices.Clone(w.env) }

// UseAgents puts the pinned agent programs into PATH, or skips the test; see
// [Agents].
func (w *World) UseAgents() {
	w.t.Helper()
	bin := filepath.Join(Agents(w.t), "node_modules", ".bin")
	node, err := exec.LookPath("node")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			w.Setenv("PATH", bin+":"+filepath.Dir(node)+":"+path)
			return
		}
	}
}

// Command is a command to run.
type Command struct {
	Args  []string
	Stdin string
	// Dir is the current directory, default the project.
	Dir string
	// Timeout bounds the command, default two minutes.
	Timeout time.Duration
}

// Result is what a command left behind.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Garcon runs garcon with the arguments.
func (w *World) Garcon(args ...string) Result {
	w.t.Helper()
	r, err := w.Run(Command{Args: args})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// Must runs garcon and returns its standard output; any exit code but 0 fails
// the test.
func (w *World) Must(args ...string) string {
	w.t.Helper()
	r := w.Garcon(args...)
	if r.Code != 0 {
		w.t.Fatalf("garcon %q: exit code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Run runs garcon. It may be called from any goroutine. A command that does not
// end in time is killed and an error.
func (w *World) Run(c Command) (Result, error) { return w.run(w.binary, c) }

// RunShell runs a line with sh.
func (w *World) RunShell(line string) (Result, error) {
	return w.run("/bin/sh", Command{Args: []string{"-c", line}})
}

func (w *World) run(program string, c Command) (Result, error) {
	if c.Timeout == 0 {
		c.Timeout = commandTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, c.Args...)
	cmd.Env = w.env
	cmd.Dir = c.Dir
	if cmd.Dir == "" {
		cmd.Dir = w.Project
	}
	cmd.Stdin = strings.NewReader(c.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if ctx.Err() != nil {
		return r, errors.Join(ctx.Err(), errors.New(r.Stdout+r.Stderr))
	}
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		return r, err
	}
	return r, nil
}

// Until looks at a condition until it holds. It fails the test with what, when
// that takes longer than timeout.
func Until(t testing.TB, timeout time.Duration, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if !until(ctx, holds) {
		t.Fatalf("after %s still not: %s", timeout, what)
	}
}

// until returns whether the condition came to hold before ctx ended.
func until(ctx context.Context, holds func() bool) bool {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// NothingLeft fails the test unless every process of this world ends soon. Call
// it when no role is running.
func (w *World) NothingLeft() {
	w.t.Helper()
	left := w.WaitNothingLeft()
	if len(left) == 0 {
		return
	}
	w.t.Errorf("processes are left over: %v", left)
	for _, p := range left {
		_ = kill(p.PID)
	}
}

// WaitNothingLeft waits a while for every process of this world to end and
// returns those that have not.
func (w *World) WaitNothingLeft() []Process {
	var left []Process
	// The test's own context has ended when this is called as a cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), goneTimeout)
	defer cancel()
	until(ctx, func() bool { left = w.Census(); return len(left) == 0 })
	return left
}

// Census returns the live processes of this world: those that have its home or
// its configuration root in their environment or their current directory in
// it. Zombies are not alive.
func (w *World) Census() []Process {
	all, err := census(w.Dir, []string{"HOME=" + w.Home, "GARCON_CONFIG_DIR=" + w.Root})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// Process is a process of a world.
type Process struct {
	PID     int
	Command string
}
