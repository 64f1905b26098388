package runtime

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

func permission(occurrence string) row.Row {
	return row.Row{Body: &row.Permission{Occurrence: occurrence, Tool: row.ToolBash, Options: []row.PermissionOption{
		{ID: "yes", Decision: row.AllowOnce}, {ID: "no", Decision: row.Deny},
	}}}
}

// asking starts a run on a fresh runtime and returns what is needed to ask.
func asking(t *testing.T) (in *exec.Integration, run provider.Run, rec *recorder, binding exec.Ref) {
	t.Helper()
	a := &fakeAdapter{}
	rt, in := newTestRuntime(t, a)
	t.Cleanup(func() { rt.Close(context.Background()) })
	rec = newRecorder()
	binding = openBinding(t, in, rec)
	if _, err := in.Execution.Start(t.Context(), launchOn(binding, "r1")); err != nil {
		t.Fatal(err)
	}
	return in, a.conversation().run(), rec, binding
}

// lastAsk returns the reference of the newest request.
func lastAsk(t *testing.T, rec *recorder) exec.Ref {
	t.Helper()
	synctest.Wait()
	events := rec.all()
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Ask != nil {
			return events[i].Ask.Request
		}
	}
	t.Fatal("nothing was asked")
	return exec.Ref{}
}

func TestFirstAnswerWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, r, rec, _ := asking(t)
		for range 1000 {
			var delivered atomic.Int32
			r.Ask(permission("p"), func(context.Context, exec.Answer) error {
				delivered.Add(1)
				return nil
			})
			ref := lastAsk(t, rec)
			var won, lost atomic.Int32
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					switch err := in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "yes"}); exec.CodeOf(err) {
					case "":
						won.Add(1)
					case exec.CodeAlreadyResolved:
						lost.Add(1)
					default:
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if delivered.Load() != 1 || won.Load() != 1 || lost.Load() != 3 {
				t.Fatalf("delivered %d, won %d, lost %d", delivered.Load(), won.Load(), lost.Load())
			}
		}
	})
}

func TestAnswerOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		err error
		// again is what a second answer gets.
		first, again exec.Code
	}{
		"delivered":     {nil, "", exec.CodeAlreadyResolved},
		"not delivered": {exec.Errorf(exec.CodeUnavailable, "no"), exec.CodeUnavailable, exec.CodeUnavailable},
		"unknown":       {exec.Errorf(exec.CodeAgentTimeout, "?").WithDispatched(exec.MaybeDispatched), exec.CodeAgentTimeout, exec.CodeAlreadyResolved},
		"refused":       {exec.Errorf(exec.CodeInvalid, "bad").WithDispatched(exec.WasDispatched), exec.CodeInvalid, exec.CodeAlreadyResolved},
		"untyped":       {errors.New("odd"), exec.CodeInternal, exec.CodeAlreadyResolved},
		"cancelled":     {context.Canceled, exec.CodeCancelled, exec.CodeAlreadyResolved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, r, rec, _ := asking(t)
				r.Ask(permission("p"), func(context.Context, exec.Answer) error { return tc.err })
				ref := lastAsk(t, rec)
				code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "yes"}), tc.first)
				code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "yes"}), tc.again)
				r.Finish(completed())
				// What was given back is still open and therefore withdrawn.
				if name == "not delivered" {
					wantKinds(t, rec, "launched", "ask", "withdrawn", "completed")
				} else {
					wantKinds(t, rec, "launched", "ask", "completed")
				}
				code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "yes"}), exec.CodeAlreadyResolved)
			})
		})
	}
}

func TestPanicInAnswerFailsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, r, rec, _ := asking(t)
		r.Ask(permission("p"), func(context.Context, exec.Answer) error { panic("answer") })
		code(t, in.Permissions.Answer(t.Context(), lastAsk(t, rec), exec.Answer{OptionID: "yes"}), exec.CodeInternal)
		wantKinds(t, rec, "launched", "ask", "failed")
	})
}

func TestWithdrawnWhileBeingAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, r, rec, _ := asking(t)
		hold := make(chan error)
		r.Ask(permission("p"), func(context.Context, exec.Answer) error { return <-hold })
		ref := lastAsk(t, rec)
		reply := make(chan error, 1)
		go func() { reply <- in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "no"}) }()
		synctest.Wait()
		r.Finish(completed())
		hold <- exec.Errorf(exec.CodeUnavailable, "not delivered")
		code(t, <-reply, exec.CodeUnavailable)
		// It went back to a run that is over: nobody can answer it any more.
		code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "no"}), exec.CodeAlreadyResolved)
		wantKinds(t, rec, "launched", "ask", "completed")
	})
}

// TestRetiredRequestIsNotTaken is about an answer that found the request just
// before it was retired.
func TestRetiredRequestIsNotTaken(t *testing.T) {
	q := &request{run: testRun(), id: "q"}
	q.offer()
	if !q.retire() || q.retire() {
		t.Error("a request is open once, until it is retired")
	}
	if q.take() {
		t.Error("a retired request was taken")
	}
}

func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, r, rec, _ := asking(t)
		r.Ask(permission("p"), func(context.Context, exec.Answer) error { return nil })
		ref := lastAsk(t, rec)
		r.Withdraw("p")
		r.Withdraw("p")
		r.Withdraw("unknown")
		code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "yes"}), exec.CodeAlreadyResolved)
		r.Finish(completed())
		r.Ask(permission("late"), func(context.Context, exec.Answer) error { return nil })
		wantKinds(t, rec, "launched", "ask", "withdrawn", "completed")
	})
}

func TestAnswerChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, r, rec, _ := asking(t)
		delivered := 0
		respond := func(context.Context, exec.Answer) error {
			delivered++
			return nil
		}
		question := row.Row{Body: &row.Question{Occurrence: "q", Questions: []row.QuestionItem{
			{ID: "one", Options: []row.QuestionOption{{Label: "a"}, {Label: "b"}}},
			{ID: "many", Multi: true, FreeText: true},
		}}}
		r.Ask(permission("p"), respond)
		ref := lastAsk(t, rec)
		other := ref
		other.InstanceID = "before"
		code(t, in.Permissions.Answer(t.Context(), other, exec.Answer{OptionID: "yes"}), exec.CodeStaleResource)
		code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{OptionID: "maybe"}), exec.CodeInvalid)
		code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{}), exec.CodeInvalid)
		r.Ask(question, respond)
		ref = lastAsk(t, rec)
		for _, answers := range []map[string][]string{
			nil, {"three": {"a"}}, {"one": {"c"}}, {"one": {"a", "b"}},
		} {
			code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{Answers: answers}), exec.CodeInvalid)
		}
		if delivered != 0 {
			t.Errorf("%d bad answers were delivered", delivered)
		}
		code(t, in.Permissions.Answer(t.Context(), ref, exec.Answer{Answers: map[string][]string{"one": {"b"}, "many": {"x", "y"}}}), "")
		if delivered != 1 {
			t.Error("a good answer was not delivered")
		}
	})
}
