package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"garcon/store/runtimefile"
)

// Role is a running role of a world.
type Role struct {
	w *World
	// Descriptor is the one it wrote when it was ready.
	Descriptor runtimefile.Descriptor
	cmd        *exec.Cmd
	stdout     *logBuffer
	stderr     *logBuffer
	done       chan struct{} // closed when the process has ended
	code       int           // set before done is closed
}

// Controller starts a controller with the demo agent on a free port and waits
// until it is ready.
func (w *World) Controller(args ...string) *Role {
	w.t.Helper()
	r := w.StartController(args...)
	r.waitReady()
	return r
}

// StartController starts a controller and does not wait for it.
func (w *World) StartController(args ...string) *Role {
	w.t.Helper()
	all := append([]string{"controller", "--port", "0", "--demo", "--project-base-dir", w.Dir, "--log-level", "debug"}, args...)
	r := &Role{w: w, cmd: exec.Command(w.binary, all...), stdout: &logBuffer{}, stderr: &logBuffer{}, done: make(chan struct{})}
	r.cmd.Env, r.cmd.Dir = w.Env(), w.Home
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	// A group of its own: a signal to the test's group is not meant for it.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // the exit code says it
		r.code = r.cmd.ProcessState.ExitCode()
		close(r.done)
	}()
	w.roles = append(w.roles, r)
	return r
}

// waitReady waits for the descriptor of this very process.
func (r *Role) waitReady() {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	ready := until(ctx, func() bool {
		select {
		case <-r.done:
			return true
		default:
		}
		d, err := runtimefile.Read(runtimefile.Path(r.w.Root, runtimefile.RoleController))
		if err != nil || d.PID != r.cmd.Process.Pid {
			return false
		}
		r.Descriptor = d
		return true
	})
	if !ready || r.Descriptor.InstanceID == "" {
		r.w.t.Fatalf("the controller did not get ready\n%s", r.Logs())
	}
}

// Logs returns what the role has printed.
func (r *Role) Logs() string { return r.stdout.String() + r.stderr.String() }

// PID returns the process id.
func (r *Role) PID() int { return r.cmd.Process.Pid }

// Kill kills the process as nothing can prevent, and waits for its end.
func (r *Role) Kill() {
	_ = r.cmd.Process.Kill()
	<-r.done
	r.checkRaces()
}

// Signal sends a signal.
func (r *Role) Signal(s os.Signal) {
	if err := r.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.w.t.Fatal(err)
	}
}

// Stop asks the role to end, waits for it and returns its exit code.
func (r *Role) Stop() int {
	r.w.t.Helper()
	r.Signal(syscall.SIGTERM)
	return r.Wait()
}

// Wait waits until the role has ended and returns its exit code.
func (r *Role) Wait() int {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		// Its goroutines say where it hangs.
		r.Signal(syscall.SIGQUIT)
		<-r.done
		r.w.t.Fatalf("the role did not end in %s\n%s", stopTimeout, r.Logs())
	}
	r.checkRaces()
	return r.code
}

func (r *Role) checkRaces() {
	if strings.Contains(r.stderr.String(), "WARNING: DATA RACE") {
		r.w.t.Errorf("a role had a data race\n%s", r.stderr.String())
	}
}

// logBuffer keeps what a role prints. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
