package runtime

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

func TestClosedBindingPublishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		ref, err := in.Execution.Start(t.Context(), launchOn(b, "r1"))
		if err != nil {
			t.Fatal(err)
		}
		r := a.conversation().run()
		r.Session(exec.Session{ID: "native"})
		r.Ask(permission("p"), func(context.Context, exec.Answer) error { return nil })
		ask := lastAsk(t, rec)
		r.Rows(text("before"))
		// The conversation has things to say while it ends; nobody hears them.
		a.close = func(context.Context, *fakeConversation) error {
			r.Rows(text("during"))
			r.Live(row.Live{PartID: "p", Text: "x"})
			return nil
		}
		if err := in.Execution.CloseBinding(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		r.Finish(completed())
		c := a.conversation()
		c.binding.Rows(text("after"))
		c.binding.Jobs(nil)
		c.binding.Session(exec.Session{Title: "x"})
		c.binding.Begin("no", &fakeActive{}).Rows(text("after"))
		wantKinds(t, rec, "launched", "session", "ask", "rows")

		code(t, in.Execution.CloseBinding(t.Context(), b), exec.CodeStaleResource)
		code(t, in.Execution.Abort(t.Context(), ref), exec.CodeStaleResource)
		code(t, in.Permissions.Answer(t.Context(), ask, exec.Answer{OptionID: "yes"}), exec.CodeAlreadyResolved)
		_, err = in.Execution.Start(t.Context(), launchOn(b, "r2"))
		code(t, err, exec.CodeStaleResource)

		// The session is free for another binding.
		l := launchOn(openBinding(t, in, newRecorder()), "r3")
		l.NativeSession = "native"
		if _, err := in.Execution.Resume(t.Context(), l); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseBindingRefusesStartInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		closedEarly := false
		inLaunch := true
		a.launch = func(ctx context.Context, c *fakeConversation, _ exec.Launch, _ provider.Run) (provider.Active, error) {
			<-ctx.Done()
			<-time.After(time.Second) // takes its time to clean up
			closedEarly = c.closed
			inLaunch = false
			return nil, ctx.Err()
		}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		reply := make(chan error, 1)
		go func() {
			_, err := in.Execution.Start(t.Context(), launchOn(b, "r1"))
			reply <- err
		}()
		synctest.Wait()
		if err := in.Execution.CloseBinding(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if inLaunch || closedEarly {
			t.Errorf("in launch %v, conversation closed under it %v", inLaunch, closedEarly)
		}
		code(t, <-reply, exec.CodeStaleResource)
		wantKinds(t, rec)
	})
}

// TestCloseBindingWaitsForTheSink has a sink that is in the middle of a call.
func TestCloseBindingWaitsForTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		rec.hold()
		if _, err := in.Execution.Start(t.Context(), launchOn(b, "r1")); err != nil {
			t.Fatal(err)
		}
		a.conversation().run().Rows(text("queued"))
		a.conversation().run().Finish(completed())
		done := make(chan error, 1)
		go func() { done <- in.Execution.CloseBinding(t.Context(), b) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("CloseBinding did not wait for the sink")
		default:
		}
		rec.release()
		if err := <-done; err != nil {
			t.Error(err)
		}
		wantKinds(t, rec, "launched", "rows", "completed")

		// A sink that never returns is given up at the end of the context.
		b = openBinding(t, in, rec)
		rec.hold()
		a.conversation().binding.Rows(text("x"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		code(t, in.Execution.CloseBinding(ctx, b), exec.CodeCancelled)
		rec.release()
		synctest.Wait()
	})
}

func TestRuntimeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		rt, in := newTestRuntime(t, a)
		var states []exec.Availability
		stop := rt.Watch(func(s exec.Availability) { states = append(states, s) })
		rt.Watch(func(s exec.Availability) { t.Errorf("a stopped watcher was told %s", s) })()
		defer stop()
		rec := newRecorder()
		b := openBinding(t, in, rec)
		if _, err := in.Execution.Start(t.Context(), launchOn(b, "r1")); err != nil {
			t.Fatal(err)
		}
		if rt.Availability() != exec.Ready {
			t.Error("not ready before Close")
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(states, []exec.Availability{exec.Disposed}) || rt.Availability() != exec.Disposed {
			t.Errorf("availability %v, then %s", states, rt.Availability())
		}
		if !a.conversation().closed || a.closed != 1 {
			t.Errorf("conversation closed %v, adapter closed %d times", a.conversation().closed, a.closed)
		}
		wantKinds(t, rec, "launched")
		_, err := rt.Integration(t.Context(), "fake")
		code(t, err, exec.CodeUnavailable)
		_, err = rt.Info(t.Context())
		code(t, err, exec.CodeUnavailable)
		_, err = in.Execution.Start(t.Context(), launchOn(b, "r2"))
		code(t, err, exec.CodeUnavailable)
		_, err = in.Execution.OpenBinding(t.Context(), exec.BindingSpec{ChatID: "chat"}, rec)
		code(t, err, exec.CodeUnavailable)
	})
}

// TestRuntimeCloseIsBounded has a conversation and a call that do not end.
func TestRuntimeCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forever := make(chan struct{})
		a := &fakeAdapter{facets: provider.Facets{Auth: authFunc(func(context.Context) (exec.AuthStatus, error) {
			<-forever
			return exec.AuthStatus{}, nil
		})}}
		a.close = func(context.Context, *fakeConversation) error {
			<-forever
			return nil
		}
		rt, in := newTestRuntime(t, a)
		openBinding(t, in, newRecorder())
		go in.Auth.Status(t.Context())
		synctest.Wait()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		code(t, rt.Close(ctx), exec.CodeAgentTimeout)
		if took := time.Since(begun); took > 5*time.Second+3*stuckGrace {
			t.Errorf("Close took %v", took)
		}
		close(forever)
	})
}

// TestRuntimeCloseCancelsCalls has calls that end with their context.
func TestRuntimeCloseCancelsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{facets: provider.Facets{Auth: authFunc(func(ctx context.Context) (exec.AuthStatus, error) {
			<-ctx.Done()
			return exec.AuthStatus{}, ctx.Err()
		})}}
		rt, in := newTestRuntime(t, a)
		reply := make(chan error, 1)
		go func() {
			_, err := in.Auth.Status(t.Context())
			reply <- err
		}()
		synctest.Wait()
		begun := time.Now()
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("Close took %v", took)
		}
		code(t, <-reply, exec.CodeCancelled)
	})
}

type authFunc func(context.Context) (exec.AuthStatus, error)

func (f authFunc) Status(ctx context.Context) (exec.AuthStatus, error) { return f(ctx) }

func TestCallsAreProtected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next func(context.Context) error
		a := &fakeAdapter{facets: provider.Facets{Auth: authFunc(func(ctx context.Context) (exec.AuthStatus, error) {
			return exec.AuthStatus{}, next(ctx)
		})}}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		status := func(f func(context.Context) error) error {
			next = f
			_, err := in.Auth.Status(t.Context())
			return err
		}
		code(t, status(func(context.Context) error { panic("x") }), exec.CodeInternal)
		code(t, status(func(context.Context) error { return io.ErrUnexpectedEOF }), exec.CodeInternal)
		begun := time.Now()
		code(t, status(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), exec.CodeCancelled)
		if took := time.Since(begun); took != exec.DefaultCallTimeout {
			t.Errorf("the call ended after %v", took)
		}
	})
}

func TestOpenFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{open: func(provider.Binding) error { return errors.New("no") }}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		_, err := in.Execution.OpenBinding(t.Context(), exec.BindingSpec{ChatID: "chat"}, newRecorder())
		code(t, err, exec.CodeInternal)
		_, err = in.Execution.OpenBinding(t.Context(), exec.BindingSpec{}, newRecorder())
		code(t, err, exec.CodeInvalid)
	})
}

func TestManifestNamesFacets(t *testing.T) {
	a := &fakeAdapter{facets: provider.Facets{Auth: authFunc(nil)}}
	rt, in := newTestRuntime(t, a)
	defer rt.Close(t.Context())
	want := []string{exec.FacetAuth, exec.FacetExecution, exec.FacetPermissions, exec.FacetSteering, exec.FacetCompaction}
	if !slices.Equal(in.Manifest.Facets, want) {
		t.Errorf("facets %q, want %q", in.Manifest.Facets, want)
	}
	if in.Catalog != nil || in.History != nil || in.Forking != nil || in.Commands != nil || in.SingleQuery != nil || in.Auth == nil {
		t.Error("the facets do not agree with the manifest")
	}
}
