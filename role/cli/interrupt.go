package cli

import (
	"context"

	"golang.org/x/term"
)

// interruptible returns what f returns, or the error of ctx when that ends
// first. Reading a terminal cannot be called off, so f may go on until the
// process ends, which follows.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// readHidden reads a line from the terminal without showing it. An interrupted
// read leaves the terminal as it was.
func (e *Env) readHidden(ctx context.Context) (string, error) {
	state, err := term.GetState(e.StdinFD)
	if err != nil {
		return "", err
	}
	text, err := interruptible(ctx, func() ([]byte, error) { return term.ReadPassword(e.StdinFD) })
	if ctx.Err() != nil {
		_ = term.Restore(e.StdinFD, state)
	}
	e.note("")
	return string(text), err
}
