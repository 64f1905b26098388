package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"garcon/proto/exec"
)

// cookieLength is the length of [rand.Text]: 26 characters of 5 bits.
const cookieLength = 26

// closeGrace is how long processes may take to end by themselves when the
// runtime closes and its context sets no earlier end.
const closeGrace = 5 * time.Second

// ProcessesOptions says how a runtime starts native processes.
type ProcessesOptions struct {
	// StateDir is a private directory of the runtime. It is made if it does
	// not exist, holds the record of live processes, and is locked: two
	// runtimes with one directory would sweep each other's agents away.
	StateDir string
	// ConfigDir and RuntimeRole are passed on as GARCON_CONFIG_DIR and
	// GARCON_RUNTIME ("controller" or "executor"); empty ones are not.
	ConfigDir   string
	RuntimeRole string
	// Env is what native processes start from; nil means the environment of
	// this process.
	Env []string
	Log *slog.Logger
	// GuardPath is the program to start as guard; empty means the running
	// executable. See [IsGuard].
	GuardPath string
}

// Processes starts the native processes of one runtime and sees to it that they
// end with it. Its methods are safe for concurrent use.
type Processes struct {
	opts   ProcessesOptions
	lock   *flock.Flock
	record *record
	guard  *guardClient
	swept  []exec.SweptProcess
	starts chan startRequest
	quit   chan struct{} // closed when nothing is started any more

	// starter waits for serveStarts.
	starter sync.WaitGroup

	// mu guards the members below.
	mu     sync.Mutex
	live   map[*Process]bool
	closed bool
}

type startRequest struct {
	cmd    *osexec.Cmd
	answer chan<- error
}

// NewProcesses ends what an earlier runtime with the same StateDir left behind,
// starts the guard, and returns when it answers. The caller must Close the
// result.
func NewProcesses(opts ProcessesOptions) (*Processes, error) {
	if os.Getenv(envGuard) != "" {
		return nil, errors.New("start processes: this is a guard process; the program must call provider.RunGuard when provider.IsGuard says so")
	}
	if opts.Env == nil {
		opts.Env = os.Environ()
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.GuardPath == "" {
		self, err := selfPath()
		if err != nil {
			return nil, fmt.Errorf("start processes: %w", err)
		}
		opts.GuardPath = self
	}
	if err := os.MkdirAll(opts.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("start processes: %w", err)
	}
	lock := flock.New(filepath.Join(opts.StateDir, recordLock), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Path(), err)
	}
	if !locked {
		return nil, fmt.Errorf("another runtime uses %s", opts.StateDir)
	}
	ps := &Processes{
		opts: opts, lock: lock, record: newRecord(opts.StateDir),
		starts: make(chan startRequest), quit: make(chan struct{}), live: map[*Process]bool{},
	}
	ps.swept, err = ps.record.sweep()
	if err != nil {
		opts.Log.Error("processes of an earlier runtime", "err", err)
	}
	for _, p := range ps.swept {
		opts.Log.Warn("ended a process of an earlier runtime", "pid", p.PID, "command", p.Command)
	}
	if err := ps.record.clear(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	if ps.guard, err = startGuard(opts.GuardPath, opts.Log); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	ps.starter.Go(ps.serveStarts)
	return ps, nil
}

// serveStarts makes every child on one thread that lives as long as they do:
// the parent-death signal is sent when the thread that made the child ends.
func (ps *Processes) serveStarts() {
	// Never unlocked: the thread ends with this goroutine.
	runtime.LockOSThread()
	for {
		select {
		case req := <-ps.starts:
			req.answer <- req.cmd.Start()
		case <-ps.quit:
			return
		}
	}
}

// Swept lists the processes of an earlier runtime that this one ended.
func (ps *Processes) Swept() []exec.SweptProcess { return ps.swept }

// Command says what to start.
type Command struct {
	// Name is for messages and logs, such as "Claude Code".
	Name string
	// Path is the program; without a slash it is looked for in the PATH of
	// Env.
	Path string
	// Args does not hold the program's own name.
	Args []string
	// Dir is the working directory; it is required and must exist.
	Dir string
	// Env is the whole environment, see [BuildEnv]; nil means the runtime's.
	// Variables of garcon are taken out of it in any case.
	Env []string
}

// Start starts a process in its own group. ctx bounds the start only; the
// process runs until it ends, [Process.Stop] or [Processes.Close]. It fails
// with an [*exec.Error] that had no effect.
func (ps *Processes) Start(ctx context.Context, c Command) (*Process, error) {
	env := c.Env
	if env == nil {
		env = ps.opts.Env
	}
	path, err := LookPath(env, c.Path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(c.Dir); err != nil {
		return nil, exec.Errorf(exec.CodeProjectPath, "the directory cannot be used: %w", err)
	} else if !info.IsDir() {
		return nil, exec.Errorf(exec.CodeProjectPath, "%s is not a directory", c.Dir)
	}
	cookie := rand.Text()
	env = append(BuildEnv(env, nil), envCookie+"="+cookie)
	if ps.opts.ConfigDir != "" {
		env = append(env, envConfigDir+"="+ps.opts.ConfigDir)
	}
	if ps.opts.RuntimeRole != "" {
		env = append(env, envRuntime+"="+ps.opts.RuntimeRole)
	}
	cmd := &osexec.Cmd{
		Path: path, Args: append([]string{path}, c.Args...), Dir: c.Dir,
		Env: env, SysProcAttr: childAttr(),
	}
	p, childEnds, err := newProcess(ps, c.Name, cookie, cmd)
	if err != nil {
		return nil, exec.Errorf(exec.CodeInternal, "start %s: %w", c.Name, err)
	}
	defer closeAll(childEnds)
	if err := ps.launch(ctx, p); err != nil {
		closeAll(p.ownEnds())
		return nil, err
	}
	return p, nil
}

// launch registers the process everywhere and then makes it.
func (ps *Processes) launch(ctx context.Context, p *Process) error {
	ps.mu.Lock()
	if ps.closed {
		ps.mu.Unlock()
		return errClosed()
	}
	// Once it is in live, Close waits for it.
	ps.live[p] = true
	ps.mu.Unlock()

	// Guard and record know the cookie before anything carries it.
	ps.guard.add(p.cookie)
	entry := recordEntry{Cookie: p.cookie, Name: p.name}
	err := ps.record.put(entry)
	if err == nil {
		answer := make(chan error, 1)
		select {
		case ps.starts <- startRequest{p.cmd, answer}:
			err = <-answer
		case <-ps.quit:
			err = errClosed()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		ps.forget(p)
		close(p.done)
		return startError(p.name, err)
	}
	entry.PID = p.cmd.Process.Pid
	if st, ok := statProcess(entry.PID); ok {
		entry.Start = st.start
	}
	if err := ps.record.put(entry); err != nil {
		ps.opts.Log.Warn("record of a process is incomplete", "pid", entry.PID, "err", err)
	}
	p.begin()
	return nil
}

func errClosed() *exec.Error {
	return exec.Errorf(exec.CodeUnavailable, "the runtime is shutting down")
}

func startError(name string, err error) *exec.Error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exec.Errorf(exec.CodeAgentMissing, "%s is not installed, or the interpreter it names is missing: %w", name, err)
	case errors.Is(err, fs.ErrPermission):
		return exec.Errorf(exec.CodeAgentMissing, "%s cannot be started: %w", name, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return exec.Errorf(exec.CodeCancelled, "start of %s: %w", name, err)
	}
	return exec.Errorf(exec.CodeInternal, "start %s: %w", name, err)
}

// forget drops a process that is gone.
func (ps *Processes) forget(p *Process) {
	ps.guard.remove(p.cookie)
	if err := ps.record.remove(p.cookie); err != nil {
		ps.opts.Log.Warn("record of a process remains", "err", err)
	}
	ps.mu.Lock()
	delete(ps.live, p)
	ps.mu.Unlock()
}

// Close ends every process, asking politely until ctx ends, then the guard, and
// waits for both. It fails when something could not be ended. It is idempotent.
func (ps *Processes) Close(ctx context.Context) error {
	ps.mu.Lock()
	again := ps.closed
	ps.closed = true
	live := make([]*Process, 0, len(ps.live))
	for p := range ps.live {
		live = append(live, p)
	}
	ps.mu.Unlock()

	errs := make([]error, len(live))
	var wg sync.WaitGroup
	for i, p := range live {
		wg.Go(func() { errs[i] = p.Stop(ctx, closeGrace) })
	}
	wg.Wait()
	if again {
		return errors.Join(errs...)
	}
	close(ps.quit)
	ps.starter.Wait()
	// The guard has nothing left to do, so a context that has ended meanwhile
	// only means that this must not take long.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killWait)
	defer cancel()
	errs = append(errs, ps.guard.close(ctx), ps.lock.Unlock())
	return errors.Join(errs...)
}
