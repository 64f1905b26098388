package runtime

import (
	"context"
	"errors"
	"io"
	"sync"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// The wrappers in this file give the facets that adapters implement themselves
// what every call has: a deadline, an end with the runtime, typed errors, and
// no panic.

type catalog struct {
	in *integration
	to exec.Catalog
}

func (c catalog) Models(ctx context.Context, projectPath string, endpoint *exec.Endpoint) ([]exec.Model, error) {
	if c.in.value.Manifest.NeedsEndpoint && endpoint == nil {
		return nil, exec.Errorf(exec.CodeInvalid, "%s needs an API endpoint to list models", c.in.value.Manifest.Label)
	}
	return call(c.in.rt, ctx, c.in.id+" models", func(ctx context.Context) ([]exec.Model, error) {
		return c.to.Models(ctx, projectPath, endpoint)
	})
}

type endpoints struct {
	in *integration
	to exec.Endpoints
}

func (e endpoints) Check(ctx context.Context, endpoint *exec.Endpoint) error {
	_, err := call(e.in.rt, ctx, e.in.id+" check endpoint", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.to.Check(ctx, endpoint)
	})
	return err
}

type auth struct {
	in *integration
	to exec.Auth
}

func (a auth) Status(ctx context.Context) (exec.AuthStatus, error) {
	return call(a.in.rt, ctx, a.in.id+" status", a.to.Status)
}

type forking struct {
	in *integration
	to exec.Forking
}

func (f forking) Fork(ctx context.Context, fork exec.Fork) (string, error) {
	if fork.NativeSession == "" {
		return "", exec.Errorf(exec.CodeInvalid, "a fork needs a native session")
	}
	return call(f.in.rt, ctx, f.in.id+" fork", func(ctx context.Context) (string, error) { return f.to.Fork(ctx, fork) })
}

func (f forking) Discard(ctx context.Context, projectPath, nativeSession string) error {
	if f.in.busy(nativeSession) {
		return errBusy()
	}
	_, err := call(f.in.rt, ctx, f.in.id+" discard", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.to.Discard(ctx, projectPath, nativeSession)
	})
	return err
}

type history struct {
	in *integration
	to exec.History
}

func (h history) Sessions(ctx context.Context, projectPath string, max int) ([]exec.NativeSession, error) {
	if max <= 0 {
		return nil, exec.Errorf(exec.CodeInvalid, "a list of at most %d sessions cannot be made", max)
	}
	list, err := call(h.in.rt, ctx, h.in.id+" sessions", func(ctx context.Context) ([]exec.NativeSession, error) {
		return h.to.Sessions(ctx, projectPath, max)
	})
	return list[:min(len(list), max)], err
}

func (h history) Open(ctx context.Context, projectPath, nativeSession string) (exec.HistoryReader, error) {
	inner, err := call(h.in.rt, ctx, h.in.id+" open history", func(ctx context.Context) (exec.HistoryReader, error) {
		return h.to.Open(ctx, projectPath, nativeSession)
	})
	if err != nil {
		return nil, err
	}
	r := &reader{in: h.in, to: inner}
	rt := h.in.rt
	rt.mu.Lock()
	closing := rt.closing
	if !closing {
		rt.readers[r] = true
	}
	rt.mu.Unlock()
	if closing {
		return nil, errors.Join(errClosed(), r.Close())
	}
	return r, nil
}

func (h history) Revision(ctx context.Context, projectPath, nativeSession string) (string, error) {
	return call(h.in.rt, ctx, h.in.id+" revision", func(ctx context.Context) (string, error) {
		return h.to.Revision(ctx, projectPath, nativeSession)
	})
}

// reader is an open history. The runtime closes the ones its users forgot.
type reader struct {
	in *integration
	to exec.HistoryReader

	mu     sync.Mutex
	closed bool
}

// Next implements [exec.HistoryReader]; rows come out cleaned and marked as
// imported. A prompt is what the user wrote, without the files that garcon had
// added to it.
func (r *reader) Next(ctx context.Context) ([]row.Row, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, exec.Errorf(exec.CodeStaleResource, "this history is closed")
	}
	ctx, leave, err := r.in.rt.enter(ctx, true)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := protect(r.in.rt.log, r.in.id+" read history", func() ([]row.Row, error) { return r.to.Next(ctx) })
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, exec.AsError(err)
	}
	for i := range rows {
		rows[i].Imported = true
		if u, ok := rows[i].Body.(*row.User); ok {
			authored := *u
			authored.Text = exec.StripMentions(u.Text)
			rows[i].Body = &authored
		}
		rows[i] = rows[i].Clean()
	}
	return rows, nil
}

// Close implements [io.Closer].
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.in.rt.mu.Lock()
	delete(r.in.rt.readers, r)
	r.in.rt.mu.Unlock()
	return r.to.Close()
}

type commands struct {
	in *integration
	to exec.Commands
}

func (c commands) Commands(ctx context.Context, projectPath string) ([]exec.Command, error) {
	return call(c.in.rt, ctx, c.in.id+" commands", func(ctx context.Context) ([]exec.Command, error) {
		return c.to.Commands(ctx, projectPath)
	})
}

type singleQuery struct {
	in *integration
	to exec.SingleQuery
}

// Query has the deadline of its context instead of the default one.
func (s singleQuery) Query(ctx context.Context, q exec.Query) (string, error) {
	if s.in.value.Manifest.NeedsEndpoint && q.Endpoint == nil {
		return "", exec.Errorf(exec.CodeInvalid, "%s needs an API endpoint", s.in.value.Manifest.Label)
	}
	_, own := ctx.Deadline()
	ctx, leave, err := s.in.rt.enter(ctx, !own)
	if err != nil {
		return "", err
	}
	defer leave()
	answer, err := protect(s.in.rt.log, s.in.id+" query", func() (string, error) { return s.to.Query(ctx, q) })
	if err != nil {
		return "", exec.AsError(err)
	}
	return row.Text(answer), nil
}
