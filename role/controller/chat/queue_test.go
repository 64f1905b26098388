package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestBusyPolicies(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "first")
	_, err := w.Submit(t.Context(), a.ChatID, api.SubmitRequest{RequestID: newID(), Prompt: "x", Busy: api.BusyReject}, human)
	wantCode(t, err, api.CodeChatBusy)
	_, err = w.Submit(t.Context(), a.ChatID, api.SubmitRequest{RequestID: newID(), Prompt: " ", Busy: api.BusyQueue}, human)
	wantCode(t, err, api.CodeInvalid)

	queued := w.mustSubmit(t, a.ChatID, "later", api.BusyQueue)
	interrupted := w.mustSubmit(t, a.ChatID, "now", api.BusyInterrupt)
	if interrupted.Disposition != api.Started || queued.Disposition != api.Queued {
		t.Errorf("dispositions %s and %s", interrupted.Disposition, queued.Disposition)
	}
	receive(t, w.agent.aborts)
	r.end(row.RunInterrupted, nil)
	r2 := receive(t, w.agent.launches)
	r2.take(t)
	r2.end(row.RunCompleted, nil)
	r3 := receive(t, w.agent.launches)
	r3.take(t)
	r3.end(row.RunCompleted, nil)
	w.receipt(t, queued)
	w.until(t, a.ChatID, idle)
	wantRows(t, w, a.ChatID, "user first", "run started", "run interrupted", "user now", "run started", "run completed",
		"user later", "run started", "run completed")
	_, err = w.Submit(t.Context(), a.ChatID, api.SubmitRequest{RequestID: newID(), Prompt: "x", Busy: api.BusySteer}, human)
	wantCode(t, err, api.CodeChatIdle)
}

func TestQueueIsEditableUntilItIsSent(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "first")
	one := w.mustSubmit(t, a.ChatID, "one", api.BusyQueue)
	two := w.mustSubmit(t, a.ChatID, "two", api.BusyQueue)
	three := w.mustSubmit(t, a.ChatID, "three", api.BusyQueue)
	text := "two, better"
	must(t, w.UpdateEntry(t.Context(), a.ChatID, two.EntryID, api.QueueUpdateRequest{Revision: 1, Prompt: &text}))
	wantCode(t, w.UpdateEntry(t.Context(), a.ChatID, two.EntryID, api.QueueUpdateRequest{Revision: 1, Prompt: &text}), api.CodeConflict)
	must(t, w.OrderQueue(t.Context(), a.ChatID, []string{two.EntryID, one.EntryID, three.EntryID}))
	wantCode(t, w.OrderQueue(t.Context(), a.ChatID, []string{two.EntryID, one.EntryID}), api.CodeConflict)
	wantCode(t, w.OrderQueue(t.Context(), a.ChatID, []string{two.EntryID, two.EntryID, one.EntryID}), api.CodeInvalid)
	must(t, w.RemoveEntry(t.Context(), a.ChatID, three.EntryID))
	if got := w.receipt(t, three); got.Outcome != api.TurnRemoved {
		t.Errorf("receipt of the removed entry: %+v", got)
	}
	must(t, w.PauseQueue(t.Context(), a.ChatID))
	r.end(row.RunCompleted, nil)
	w.until(t, a.ChatID, func(c api.Control) bool { return idle(c) && len(c.Queue.Entries) == 2 && c.Queue.Paused })
	must(t, w.ResumeQueue(t.Context(), a.ChatID))
	for range 2 {
		r := receive(t, w.agent.launches)
		r.take(t)
		r.end(row.RunCompleted, nil)
	}
	w.receipt(t, one)
	wantCode(t, w.RemoveEntry(t.Context(), a.ChatID, one.EntryID), api.CodeQueueEntryGone)
	rows := w.rows(t, a.ChatID)
	if !slices.Contains(rows, "user two, better") || slices.Index(rows, "user two, better") > slices.Index(rows, "user one") {
		t.Errorf("transcript %q", rows)
	}
}

func TestQueueKeepsWhatCannotBeSent(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "first")
	q := w.mustSubmit(t, a.ChatID, "later", api.BusyQueue)
	w.agent.mu.Lock()
	w.agent.projectGone = true
	w.agent.mu.Unlock()
	r.end(row.RunCompleted, nil)
	c := w.until(t, a.ChatID, func(c api.Control) bool { return c.Queue.Paused })
	if len(c.Queue.Entries) != 1 || !strings.Contains(c.Queue.Reason, "does not exist") {
		t.Errorf("queue %+v", c.Queue)
	}
	w.agent.mu.Lock()
	w.agent.projectGone = false
	w.agent.mu.Unlock()
	must(t, w.ResumeQueue(t.Context(), a.ChatID))
	next := receive(t, w.agent.launches)
	next.take(t)
	next.end(row.RunCompleted, nil)
	if got := w.receipt(t, q); got.Outcome != api.TurnCompleted {
		t.Errorf("receipt %+v", got)
	}
}

func TestAFailedTurnPausesTheQueue(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "first")
	w.mustSubmit(t, a.ChatID, "later", api.BusyQueue)
	r.end(row.RunFailed, exec.Errorf(exec.CodeRefused, "bad key"))
	c := w.until(t, a.ChatID, idle)
	if !c.Queue.Paused || len(c.Queue.Entries) != 1 {
		t.Errorf("queue %+v", c.Queue)
	}
}

func TestSteering(t *testing.T) {
	unknown := exec.Errorf(exec.CodeOutcomeUnknown, "no word").WithDispatched(exec.MaybeDispatched)
	tests := []struct {
		name   string
		answer error
		want   api.Disposition
		code   api.Code
		rows   []string
	}{
		{"taken", nil, api.Steered, "", []string{"user first", "run started", "steer more", "run completed"}},
		{
			"not taken becomes the next turn", exec.Errorf(exec.CodeNotSteerable, "over"), api.Queued, "",
			[]string{"user first", "run started", "steer more", "run completed", "run started", "run completed"},
		},
		{"uncertain is never sent again", unknown, "", api.Code(exec.CodeOutcomeUnknown), []string{"user first", "run started", "steer more", "notice OUTCOME_UNKNOWN", "run completed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			a, r := w.mustStart(t, "first")
			req := api.SubmitRequest{RequestID: newID(), Prompt: "more", Busy: api.BusySteer}
			var (
				got  api.Accepted
				err  error
				done = make(chan struct{})
			)
			go func() {
				defer close(done)
				got, err = w.Submit(context.Background(), a.ChatID, req, human)
			}()
			s := receive(t, w.agent.steers)
			if s.Run != r.ref() || s.Prompt.Text != "more" {
				t.Errorf("steered %+v", s.Steer)
			}
			send(t, s.answer, tt.answer)
			receive(t, done)
			if tt.code != "" {
				wantCode(t, err, tt.code)
			} else {
				must(t, err)
			}
			if got.Disposition != tt.want {
				t.Errorf("disposition %q, want %q", got.Disposition, tt.want)
			}
			again, err2 := w.Submit(t.Context(), a.ChatID, req, human)
			if (err2 == nil) != (err == nil) || err == nil && (again.TurnID != got.TurnID || !again.Replayed) {
				t.Errorf("replay gave %+v, %v", again, err2)
			}
			r.end(row.RunCompleted, nil)
			if tt.want == api.Queued {
				next := receive(t, w.agent.launches)
				if next.launch.Prompt.Text != "more" {
					t.Errorf("the next turn got %q", next.launch.Prompt.Text)
				}
				next.take(t)
				next.end(row.RunCompleted, nil)
			}
			w.until(t, a.ChatID, idle)
			if len(w.agent.steers) != 0 {
				t.Error("steered twice")
			}
			wantRows(t, w, a.ChatID, tt.rows...)
		})
	}
}

// TestSteerAgainstTheEndOfTheTurn races a steer with the turn's end many times:
// each message is delivered exactly once, as a steer or as a turn.
func TestSteerAgainstTheEndOfTheTurn(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "0")
	const rounds = 300
	delivered := map[string]int{}
	for i := range rounds {
		text := fmt.Sprint("message ", i)
		done := make(chan error)
		go func() {
			_, err := w.Submit(context.Background(), a.ChatID, api.SubmitRequest{RequestID: newID(), Prompt: text, Busy: api.BusySteer}, human)
			done <- err
		}()
		ended := make(chan struct{})
		go func(r *fakeRun) {
			defer close(ended)
			r.end(row.RunCompleted, nil)
		}(r)
		next := (*fakeRun)(nil)
		finished := false
		for !finished || next == nil {
			select {
			case s := <-w.agent.steers:
				// Like a real agent: a run that is over takes nothing.
				select {
				case <-ended:
					send(t, s.answer, error(exec.Errorf(exec.CodeNotSteerable, "over")))
				default:
					delivered[s.Prompt.Text]++
					send(t, s.answer, nil)
				}
			case next = <-w.agent.launches:
				delivered[next.launch.Prompt.Text]++
				next.take(t)
			case err := <-done:
				finished = true
				if err != nil {
					// Definitely refused: the user sends it as a turn.
					wantCode(t, err, api.CodeChatIdle)
					receive(t, ended)
					w.until(t, a.ChatID, idle)
					w.mustSubmit(t, a.ChatID, text, api.BusyReject)
				} else if delivered[text] > 0 && next == nil {
					receive(t, ended)
					w.until(t, a.ChatID, idle)
					w.mustSubmit(t, a.ChatID, "filler", api.BusyReject)
				}
			}
		}
		r = next
		if delivered[text] != 1 {
			t.Fatalf("%q was delivered %d times", text, delivered[text])
		}
	}
}
