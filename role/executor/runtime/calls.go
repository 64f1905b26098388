package runtime

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"garcon/proto/exec"
)

func errClosed() *exec.Error {
	return exec.Errorf(exec.CodeUnavailable, "the executor is shutting down")
}

// errPanic is the cause of the error that a panic was turned into.
var errPanic = errors.New("the log has the details")

// protect calls into an adapter and turns a panic into an error. The panic
// value goes to the log only.
func protect[T any](log *slog.Logger, what string, f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("adapter panicked", "call", what, "panic", p, "stack", string(debug.Stack()))
			err = exec.Errorf(exec.CodeInternal, "the integration failed inside (%s): %w", what, errPanic).
				WithDispatched(exec.MaybeDispatched)
		}
	}()
	return f()
}

// enter counts a call that Close waits for. Its context ends with the runtime,
// and after the default timeout when bounded is set.
func (rt *Runtime) enter(ctx context.Context, bounded bool) (context.Context, func(), error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closing {
		return nil, nil, errClosed()
	}
	rt.calls.Add(1)
	var cancel context.CancelFunc
	if bounded {
		ctx, cancel = context.WithTimeout(ctx, exec.DefaultCallTimeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	stop := context.AfterFunc(rt.life, cancel)
	return ctx, func() {
		stop()
		cancel()
		rt.calls.Done()
	}, nil
}

// call makes one bounded call into an adapter. Every error comes out typed.
func call[T any](rt *Runtime, ctx context.Context, what string, f func(context.Context) (T, error)) (T, error) {
	var zero T
	ctx, leave, err := rt.enter(ctx, true)
	if err != nil {
		return zero, err
	}
	defer leave()
	v, err := protect(rt.log, what, func() (T, error) { return f(ctx) })
	if err != nil {
		return zero, exec.AsError(err)
	}
	return v, nil
}
