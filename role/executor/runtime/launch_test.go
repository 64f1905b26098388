package runtime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

func code(t *testing.T, err error, want exec.Code) *exec.Error {
	t.Helper()
	if got := exec.CodeOf(err); got != want {
		t.Fatalf("code %q, want %q (%v)", got, want, err)
	}
	return exec.AsError(err)
}

func wantKinds(t *testing.T, rec *recorder, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, rec.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	numbered(t, rec.all())
}

func TestRunFromLaunchToTerminal(t *testing.T) {
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
		r.Live(row.Live{PartID: "p", Kind: row.KindAssistant, Text: "hel"})
		r.Rows(row.Row{Head: row.Head{PartID: "p"}, Body: &row.Assistant{Text: "hello\x00"}})
		r.Finish(completed())
		r.Finish(exec.Terminal{Phase: row.RunFailed})
		r.Rows(text("late"))
		r.Live(row.Live{PartID: "q", Text: "late"})
		wantKinds(t, rec, "launched", "session", "live", "rows", "completed")
		events := rec.all()
		if events[0].Launched.Run != ref || events[0].Launched.TurnID != "turn-r1" {
			t.Errorf("launched %+v", events[0].Launched)
		}
		got := events[3].Rows[0]
		if got.RunID != "r1" || got.TurnID != "turn-r1" || got.Body.(*row.Assistant).Text != "hello\uFFFD" {
			t.Errorf("row %+v %+v", got.Head, got.Body)
		}
		for _, e := range events {
			if e.RunID != "r1" {
				t.Errorf("%s carries run %q", kindOf(e), e.RunID)
			}
		}
		code(t, in.Execution.Abort(t.Context(), ref), exec.CodeStaleResource)
		code(t, in.Steering.Steer(t.Context(), exec.Steer{Run: ref}), exec.CodeNotSteerable)
	})
}

func TestRowsDuringLaunchFollowLaunched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		fail := false
		a.launch = func(_ context.Context, _ *fakeConversation, _ exec.Launch, r provider.Run) (provider.Active, error) {
			r.Rows(text("early"))
			if fail {
				return nil, exec.Errorf(exec.CodeNotSignedIn, "sign in first")
			}
			r.Finish(completed())
			return &fakeActive{}, nil
		}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		if _, err := in.Execution.Start(t.Context(), launchOn(b, "r1")); err != nil {
			t.Fatal(err)
		}
		fail = true
		_, err := in.Execution.Start(t.Context(), launchOn(b, "r2"))
		code(t, err, exec.CodeNotSignedIn)
		wantKinds(t, rec, "launched", "rows", "completed", "launched", "rows", "failed")
	})
}

func TestFailedLaunchIsPublishedOnce(t *testing.T) {
	refused := exec.Errorf(exec.CodeAgentMissing, "not installed")
	for name, tc := range map[string]struct {
		launch func() (provider.Active, error)
		code   exec.Code
		phase  string
	}{
		"typed":     {func() (provider.Active, error) { return nil, refused }, exec.CodeAgentMissing, "failed"},
		"untyped":   {func() (provider.Active, error) { return nil, errors.New("odd") }, exec.CodeInternal, "failed"},
		"panic":     {func() (provider.Active, error) { panic("secret prompt") }, exec.CodeInternal, "failed"},
		"nothing":   {func() (provider.Active, error) { return nil, nil }, exec.CodeInternal, "failed"},
		"cancelled": {func() (provider.Active, error) { return nil, context.Canceled }, exec.CodeCancelled, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &fakeAdapter{launch: func(context.Context, *fakeConversation, exec.Launch, provider.Run) (provider.Active, error) {
					return tc.launch()
				}}
				rt, in := newTestRuntime(t, a)
				defer rt.Close(t.Context())
				rec := newRecorder()
				l := launchOn(openBinding(t, in, rec), "r1")
				l.NativeSession = "native"
				_, err := in.Execution.Resume(t.Context(), l)
				want := code(t, err, tc.code)
				wantKinds(t, rec, tc.phase)
				e := rec.all()[0]
				if e.RunID != "r1" || e.Terminal.Error.Code != want.Code || e.Terminal.Error.Message != want.Message {
					t.Errorf("terminal %+v of run %s, reply %+v", e.Terminal.Error, e.RunID, want)
				}
				// The session and the id are free again.
				a.launch = nil
				if _, err := in.Execution.Resume(t.Context(), l); err != nil {
					t.Errorf("again: %v", err)
				}
			})
		})
	}
}

func TestLaunchChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{manifest: exec.Manifest{
			ID: "fake", Label: "Fake", Conversation: exec.ConversationNative,
			Modes:       []exec.Mode{{ID: "ask"}},
			Attachments: exec.Attachments{MediaTypes: []string{"image/"}, MaxCount: 1, MaxBytes: 4},
		}}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		image := func(data string) exec.AttachmentData {
			return exec.AttachmentData{Attachment: row.Attachment{Name: "a", MediaType: "image/png"}, Data: []byte(data)}
		}
		for name, tc := range map[string]struct {
			change func(*exec.Launch)
			want   exec.Code
		}{
			"no run id":      {func(l *exec.Launch) { l.RunID = "" }, exec.CodeInvalid},
			"no turn id":     {func(l *exec.Launch) { l.TurnID = "" }, exec.CodeInvalid},
			"other chat":     {func(l *exec.Launch) { l.ChatID = "other" }, exec.CodeInvalid},
			"unknown mode":   {func(l *exec.Launch) { l.Mode = "yolo" }, exec.CodeInvalid},
			"start session":  {func(l *exec.Launch) { l.NativeSession = "n" }, exec.CodeInvalid},
			"conversation":   {func(l *exec.Launch) { l.Conversation = []exec.Message{{Text: "x"}} }, exec.CodeInvalid},
			"too many files": {func(l *exec.Launch) { l.Prompt.Attachments = []exec.AttachmentData{image("1"), image("2")} }, exec.CodeTooLarge},
			"file too large": {func(l *exec.Launch) { l.Prompt.Attachments = []exec.AttachmentData{image("12345")} }, exec.CodeTooLarge},
			"wrong type": {func(l *exec.Launch) {
				l.Prompt.Attachments = []exec.AttachmentData{{Attachment: row.Attachment{MediaType: "text/plain"}}}
			}, exec.CodeInvalid},
			"binding kind":     {func(l *exec.Launch) { l.Binding.Kind = exec.RefRun }, exec.CodeInvalid},
			"other instance":   {func(l *exec.Launch) { l.Binding.InstanceID = "before" }, exec.CodeStaleResource},
			"other executor":   {func(l *exec.Launch) { l.Binding.ExecutorID = "x" }, exec.CodeStaleResource},
			"other agent":      {func(l *exec.Launch) { l.Binding.IntegrationID = "x" }, exec.CodeStaleResource},
			"unknown binding":  {func(l *exec.Launch) { l.Binding.ID = "x" }, exec.CodeStaleResource},
			"image that fits":  {func(l *exec.Launch) { l.Prompt.Attachments = []exec.AttachmentData{image("1234")} }, ""},
			"mode that exists": {func(l *exec.Launch) { l.Mode = "ask" }, ""},
		} {
			l := launchOn(b, "run "+name)
			tc.change(&l)
			_, err := in.Execution.Start(t.Context(), l)
			e := code(t, err, tc.want)
			if err != nil && e.Dispatched != exec.NotDispatched {
				t.Errorf("%s: dispatched %q", name, e.Dispatched)
			}
			if err == nil {
				a.conversation().run().Finish(completed())
			}
		}
		if n := len(a.conversation().runs); n != 2 {
			t.Errorf("%d launches reached the adapter, want 2", n)
		}
		_, err := in.Execution.Resume(t.Context(), launchOn(b, "resume"))
		code(t, err, exec.CodeInvalid)
	})
}

func TestNativeSessionIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec, other := newRecorder(), newRecorder()
		b1, b2 := openBinding(t, in, rec), openBinding(t, in, other)
		resume := func(b exec.Ref, run, session string) error {
			l := launchOn(b, run)
			l.NativeSession = session
			_, err := in.Execution.Resume(t.Context(), l)
			return err
		}
		if _, err := in.Execution.Start(t.Context(), launchOn(b1, "r1")); err != nil {
			t.Fatal(err)
		}
		first := a.conversations[0].run()
		first.Session(exec.Session{ID: "native"})
		// One run of a chat at a time, also without a session in common.
		_, err := in.Execution.Start(t.Context(), launchOn(b1, "x0"))
		code(t, err, exec.CodeSessionBusy)
		// Another chat, the same chat, and a compaction are all refused.
		for i, b := range []exec.Ref{b2, b1} {
			if e := code(t, resume(b, []string{"x1", "x2"}[i], "native"), exec.CodeSessionBusy); e.Dispatched != exec.NotDispatched {
				t.Errorf("dispatched %q", e.Dispatched)
			}
		}
		l := launchOn(b2, "x3")
		l.NativeSession = "native"
		_, err = in.Compaction.Compact(t.Context(), l)
		code(t, err, exec.CodeSessionBusy)
		// The refusal of a run with the id of a live one is not its terminal.
		code(t, resume(b1, "r1", "elsewhere"), exec.CodeInvalid)

		first.Finish(completed())
		if err := resume(b2, "r2", "native"); err != nil {
			t.Errorf("after the end: %v", err)
		}
		wantKinds(t, rec, "launched", "session", "failed", "failed", "completed")
		wantKinds(t, other, "failed", "failed", "launched")
	})
}

func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		a.launch = func(_ context.Context, _ *fakeConversation, _ exec.Launch, r provider.Run) (provider.Active, error) {
			return &fakeActive{abort: func(context.Context) error {
				go r.Finish(exec.Terminal{Phase: row.RunInterrupted})
				return nil
			}}, nil
		}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		ref, err := in.Execution.Start(t.Context(), launchOn(openBinding(t, in, rec), "r1"))
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Execution.Abort(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		wantKinds(t, rec, "launched", "interrupted")
	})
}

func TestAbortDuringLaunch(t *testing.T) {
	for _, takes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := &fakeAdapter{}
			aborted := 0
			a.launch = func(ctx context.Context, _ *fakeConversation, _ exec.Launch, r provider.Run) (provider.Active, error) {
				r.Session(exec.Session{ID: "n"}) // publishes the launch with its reference
				<-ctx.Done()
				if !takes {
					return nil, ctx.Err()
				}
				return &fakeActive{abort: func(ctx context.Context) error {
					aborted++
					r.Finish(exec.Terminal{Phase: row.RunInterrupted})
					return ctx.Err()
				}}, nil
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
			if err := in.Execution.Abort(t.Context(), rec.all()[0].Launched.Run); err != nil {
				t.Fatal(err)
			}
			err := <-reply
			if takes {
				code(t, err, "")
			} else {
				code(t, err, exec.CodeCancelled)
			}
			if takes != (aborted == 1) {
				t.Errorf("the agent was told to stop %d times", aborted)
			}
			wantKinds(t, rec, "launched", "session", "interrupted")
		})
	}
}

func TestSteerWaitsForTheLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		taken := make(chan struct{})
		var got []string
		a.launch = func(_ context.Context, _ *fakeConversation, _ exec.Launch, r provider.Run) (provider.Active, error) {
			r.Rows(text("x"))
			<-taken
			return &fakeActive{steer: func(_ context.Context, s exec.Steer) error {
				got = append(got, s.Prompt.Text)
				return nil
			}}, nil
		}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		go in.Execution.Start(t.Context(), launchOn(b, "r1"))
		synctest.Wait()
		steered := make(chan error, 1)
		go func() {
			steered <- in.Steering.Steer(t.Context(), exec.Steer{Run: rec.all()[0].Launched.Run, Prompt: exec.Prompt{Text: "left"}})
		}()
		synctest.Wait()
		close(taken)
		if err := <-steered; err != nil || !slices.Equal(got, []string{"left"}) {
			t.Errorf("steered %q, %v", got, err)
		}
	})
}

func TestPanicInSteerFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		a.launch = func(context.Context, *fakeConversation, exec.Launch, provider.Run) (provider.Active, error) {
			return &fakeActive{
				steer: func(context.Context, exec.Steer) error { panic("steer") },
				abort: func(context.Context) error { return errors.New("untyped") },
			}, nil
		}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		ref, err := in.Execution.Start(t.Context(), launchOn(openBinding(t, in, rec), "r1"))
		if err != nil {
			t.Fatal(err)
		}
		// An error alone does not end the run.
		code(t, in.Execution.Abort(t.Context(), ref), exec.CodeInternal)
		wantKinds(t, rec, "launched")
		code(t, in.Steering.Steer(t.Context(), exec.Steer{Run: ref}), exec.CodeInternal)
		wantKinds(t, rec, "launched", "failed")
	})
}

func TestUnsolicitedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fakeAdapter{}
		rt, in := newTestRuntime(t, a)
		defer rt.Close(t.Context())
		rec := newRecorder()
		b := openBinding(t, in, rec)
		c := a.conversation()
		c.binding.Session(exec.Session{ID: "native"})
		r := c.binding.Begin("a background task ended", &fakeActive{})
		r.Rows(text("news"))
		// The session is the agent's until it is done.
		l := launchOn(b, "r1")
		l.NativeSession = "native"
		_, err := in.Execution.Resume(t.Context(), l)
		code(t, err, exec.CodeSessionBusy)
		r.Finish(completed())
		if _, err := in.Execution.Resume(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		c.binding.Jobs([]exec.Job{{ID: "j"}})
		c.binding.Rows(text("of no run"))
		c.binding.Rows()
		wantKinds(t, rec, "session", "launched", "rows", "failed", "completed", "launched", "jobs", "rows")
		events := rec.all()
		launched := events[1].Launched
		if !launched.Unsolicited || launched.Reason != "a background task ended" || launched.TurnID == "" || launched.TurnID == r.ID() {
			t.Errorf("launched %+v", launched)
		}
		if got := events[2]; got.RunID != launched.Run.ID || got.Rows[0].TurnID != launched.TurnID {
			t.Errorf("rows of run %q, turn %q", got.RunID, got.Rows[0].TurnID)
		}
		if last := events[7]; last.RunID != "" || last.Rows[0].RunID != "" {
			t.Errorf("rows of no run carry %q", last.RunID)
		}
	})
}

func TestTerminalIsWellFormed(t *testing.T) {
	odd := exec.Errorf(exec.CodeModelError, "odd")
	for _, tc := range []struct {
		in    exec.Terminal
		phase row.Phase
		code  exec.Code
	}{
		{exec.Terminal{}, row.RunFailed, exec.CodeInternal},
		{exec.Terminal{Error: odd}, row.RunFailed, exec.CodeModelError},
		{exec.Terminal{Phase: row.RunStarted}, row.RunFailed, exec.CodeInternal},
		{exec.Terminal{Phase: row.RunFailed, Error: odd}, row.RunFailed, exec.CodeModelError},
		{exec.Terminal{Phase: row.RunCompleted, Error: odd}, row.RunCompleted, ""},
		{exec.Terminal{Phase: row.RunInterrupted}, row.RunInterrupted, ""},
	} {
		got := wellFormed(tc.in)
		var c exec.Code
		if got.Error != nil {
			c = got.Error.Code
		}
		if got.Phase != tc.phase || c != tc.code {
			t.Errorf("%+v became %s %s", tc.in, got.Phase, c)
		}
	}
}
