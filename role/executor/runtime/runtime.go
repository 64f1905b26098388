package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/provider"
	"garcon/role/executor/project"
)

// stuckGrace is how long after the end of its context a call that ends
// something is still waited for, so that adapters can kill what they run.
const stuckGrace = 3 * time.Second

// Options says what a runtime consists of.
type Options struct {
	// ID is the executor's; empty means [exec.LocalID].
	ID      string
	Version string
	// StateDir is the runtime's own directory; it is locked.
	StateDir string
	// ConfigDir is passed to native processes.
	ConfigDir string
	// ProjectBase is the directory that projects are expected in; empty means
	// the home directory.
	ProjectBase string
	// Env is the environment of the runtime; nil means that of the process.
	Env []string
	// Adapters makes the adapters, in the order in which they are listed. Each
	// should take [provider.Host.For] its own id.
	Adapters func(provider.Host) ([]provider.Adapter, error)
	// Credentials is what adapters may ask of the controller; nil without one.
	Credentials exec.Credentials
	Log         *slog.Logger
}

// Runtime implements [exec.Runtime] in process.
type Runtime struct {
	info    exec.Info
	log     *slog.Logger
	project exec.Project
	// endProcesses ends every native process and the guard.
	endProcesses func(context.Context) error
	// order and byID are constant after New.
	order []*integration
	byID  map[string]*integration

	// life ends when the runtime closes; calls end with it.
	life   context.Context
	end    context.CancelFunc
	closed chan struct{} // closed when Close has done its work
	// closeErr is written before closed is closed.
	closeErr error

	mu       sync.Mutex
	closing  bool
	watchers map[*watcher]bool
	readers  map[*reader]bool
	// calls counts the calls into adapters that Close waits for.
	calls sync.WaitGroup
}

var _ exec.Runtime = (*Runtime)(nil)

// New starts a runtime. The caller must Close it.
func New(ctx context.Context, opts Options) (*Runtime, error) {
	if opts.ID == "" {
		opts.ID = exec.LocalID
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Env == nil {
		opts.Env = os.Environ()
	}
	files, err := project.New(opts.ProjectBase)
	if err != nil {
		return nil, err
	}
	role := "executor"
	if opts.ID == exec.LocalID {
		role = "controller"
	}
	processes, err := provider.NewProcesses(provider.ProcessesOptions{
		StateDir: opts.StateDir, ConfigDir: opts.ConfigDir, RuntimeRole: role, Env: opts.Env, Log: opts.Log,
	})
	if err != nil {
		return nil, err
	}
	hostname, err := os.Hostname()
	if err != nil {
		opts.Log.Warn("the machine has no name", "err", err)
	}
	rt := newRuntime(ctx, exec.Info{
		ExecutorID: opts.ID, InstanceID: uuid.NewString(), Version: opts.Version,
		Hostname: hostname, OS: goruntime.GOOS, Arch: goruntime.GOARCH,
		ProjectBase: files.Base(), Swept: processes.Swept(),
	}, opts.Log)
	rt.project = files
	rt.endProcesses = processes.Close
	host := provider.Host{
		Log: opts.Log, Processes: processes, Credentials: opts.Credentials,
		StateDir: filepath.Join(opts.StateDir, "agents"), Env: opts.Env,
	}
	if err := rt.addAdapters(opts.Adapters, host); err != nil {
		return nil, errors.Join(err, rt.Close(ctx))
	}
	return rt, nil
}

// newRuntime returns a runtime without adapters.
func newRuntime(ctx context.Context, info exec.Info, log *slog.Logger) *Runtime {
	rt := &Runtime{
		info: info, log: log, byID: map[string]*integration{},
		closed: make(chan struct{}), watchers: map[*watcher]bool{}, readers: map[*reader]bool{},
	}
	rt.life, rt.end = context.WithCancel(context.WithoutCancel(ctx))
	return rt
}

func (rt *Runtime) addAdapters(make func(provider.Host) ([]provider.Adapter, error), host provider.Host) error {
	if make == nil {
		return nil
	}
	adapters, err := make(host)
	for _, a := range adapters {
		in := newIntegration(rt, a)
		rt.order = append(rt.order, in)
		rt.info.Integrations = append(rt.info.Integrations, in.value.Manifest)
		if in.execution == nil {
			return fmt.Errorf("adapter %q has no execution", in.id)
		}
		if rt.byID[in.id] != nil {
			return fmt.Errorf("two adapters are called %q", in.id)
		}
		rt.byID[in.id] = in
	}
	return err
}

// ID implements [exec.Runtime].
func (rt *Runtime) ID() string { return rt.info.ExecutorID }

// Availability implements [exec.Runtime]: ready until Close.
func (rt *Runtime) Availability() exec.Availability {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closing {
		return exec.Disposed
	}
	return exec.Ready
}

type watcher struct {
	mu      sync.Mutex
	stopped bool
	f       func(exec.Availability)
}

func (w *watcher) tell(a exec.Availability) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.f(a)
	}
}

// Watch implements [exec.Runtime]. f must not call stop.
func (rt *Runtime) Watch(f func(exec.Availability)) (stop func()) {
	w := &watcher{f: f}
	rt.mu.Lock()
	rt.watchers[w] = true
	rt.mu.Unlock()
	return func() {
		rt.mu.Lock()
		delete(rt.watchers, w)
		rt.mu.Unlock()
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
	}
}

// Info implements [exec.Runtime].
func (rt *Runtime) Info(context.Context) (exec.Info, error) {
	if rt.Availability() != exec.Ready {
		return exec.Info{}, errClosed()
	}
	info := rt.info
	info.Integrations = slices.Clone(info.Integrations)
	return info, nil
}

// Integration implements [exec.Runtime].
func (rt *Runtime) Integration(_ context.Context, id string) (*exec.Integration, error) {
	if rt.Availability() != exec.Ready {
		return nil, errClosed()
	}
	in := rt.byID[id]
	if in == nil {
		return nil, exec.Errorf(exec.CodeUnknownAgent, "this executor has no agent %q", id)
	}
	return &in.value, nil
}

// Project implements [exec.Runtime].
func (rt *Runtime) Project() exec.Project { return rt.project }

// Close implements [exec.Runtime].
func (rt *Runtime) Close(ctx context.Context) error {
	rt.mu.Lock()
	again := rt.closing
	rt.closing = true
	watchers := slices.Collect(maps.Keys(rt.watchers))
	readers := slices.Collect(maps.Keys(rt.readers))
	rt.mu.Unlock()
	if again {
		select {
		case <-rt.closed:
			return rt.closeErr
		case <-ctx.Done():
			return exec.AsError(ctx.Err())
		}
	}
	for _, w := range watchers {
		w.tell(exec.Disposed)
	}
	rt.end()
	var errs []error
	for _, r := range readers {
		errs = append(errs, rt.settle(ctx, "close history", func(context.Context) error { return r.Close() }))
	}
	errs = append(errs, rt.closeBindings(ctx), rt.waitCalls(ctx))
	for _, in := range rt.order {
		errs = append(errs, rt.settle(ctx, in.id+" close", in.adapter.Close))
	}
	errs = append(errs, rt.endProcesses(ctx))
	rt.closeErr = errors.Join(errs...)
	close(rt.closed)
	return rt.closeErr
}

func (rt *Runtime) closeBindings(ctx context.Context) error {
	var all []*binding
	for _, in := range rt.order {
		all = append(all, in.takeBindings()...)
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, b := range all {
		wg.Go(func() { errs[i] = b.close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// waitCalls waits for calls into adapters, which have been cancelled.
func (rt *Runtime) waitCalls(ctx context.Context) error {
	return rt.settle(ctx, "calls in progress", func(context.Context) error {
		rt.calls.Wait()
		return nil
	})
}

// settle runs a call that ends something and waits for it until a little after
// ctx ends.
func (rt *Runtime) settle(ctx context.Context, what string, f func(context.Context) error) error {
	result := make(chan error, 1)
	go func() {
		_, err := protect(rt.log, what, func() (struct{}, error) { return struct{}{}, f(ctx) })
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(stuckGrace)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		return exec.Errorf(exec.CodeAgentTimeout, "%s: it did not end in time", what).WithDispatched(exec.MaybeDispatched)
	}
}
