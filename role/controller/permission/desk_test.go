package permission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// chatFake records what the desk tells the owner of a chat.
type chatFake struct {
	mu   sync.Mutex
	rows []row.Row
	err  error
}

func (c *chatFake) Resolved(r row.Row) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = append(c.rows, r)
	return c.err
}

func (c *chatFake) Changed() {}

func (c *chatFake) recorded() []row.Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]row.Row(nil), c.rows...)
}

func permissionRow(occurrence, run string) row.Row {
	return row.New("turn", run, &row.Permission{
		Occurrence: occurrence, Tool: row.ToolBash,
		Options: []row.PermissionOption{
			{ID: "yes", Decision: row.AllowOnce, Label: "Allow once"},
			{ID: "no", Decision: row.Deny, Label: "Deny"},
		},
	})
}

func questionRow() row.Row {
	return row.New("turn", "run", &row.Question{Occurrence: "q", Questions: []row.QuestionItem{
		{ID: "color", Text: "Which?", Options: []row.QuestionOption{{Label: "Red"}, {Label: "Blue"}}},
		{ID: "extras", Text: "What else?", Multi: true, FreeText: true},
	}})
}

func newDesk(t *testing.T) (*Desk, *chatFake) {
	t.Helper()
	return New(slog.New(slog.DiscardHandler)), &chatFake{}
}

// fenceOf returns the fence of a request as a client sees it now.
func fenceOf(t *testing.T, d *Desk, chat, occurrence string) Fence {
	t.Helper()
	for _, p := range d.Pending(chat) {
		if p.Occurrence == occurrence {
			return Fence{Chat: chat, Occurrence: occurrence, RunID: p.RunID, ControlID: p.ControlID}
		}
	}
	t.Fatalf("%s is not pending", occurrence)
	return Fence{}
}

func wantCode(t *testing.T, err error, code api.Code) {
	t.Helper()
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != code {
		t.Errorf("error is %v, want %s", err, code)
	}
}

func TestFirstAnswerWins(t *testing.T) {
	d, chat := newDesk(t)
	var delivered atomic.Int32
	d.Offer("c", permissionRow("o", "run"), chat, func(context.Context, exec.Answer) error {
		delivered.Add(1)
		return nil
	})
	f := fenceOf(t, d, "c", "o")
	const answers = 1000
	var won, resolved atomic.Int32
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			_, err := d.Decide(t.Context(), f, api.DecideRequest{Decision: row.AllowOnce}, fmt.Sprint(i))
			if err == nil {
				won.Add(1)
				return
			}
			if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeAlreadyResolved {
				resolved.Add(1)
			}
		})
	}
	wg.Wait()
	if delivered.Load() != 1 || won.Load() != 1 || resolved.Load() != answers-1 {
		t.Errorf("delivered %d, won %d, already resolved %d", delivered.Load(), won.Load(), resolved.Load())
	}
	rows := chat.recorded()
	if len(rows) != 1 || rows[0].Body.(*row.PermissionResolved).Outcome != row.Answered {
		t.Errorf("resolution rows: %+v", rows)
	}
	if d.Count("c") != 0 {
		t.Error("the request is still pending")
	}
}

func TestUndeliveredAnswerIsOfferedAgain(t *testing.T) {
	d, chat := newDesk(t)
	fail := true
	d.Offer("c", permissionRow("o", "run"), chat, func(context.Context, exec.Answer) error {
		if fail {
			return exec.Errorf(exec.CodeUnavailable, "the link is down")
		}
		return nil
	})
	first := fenceOf(t, d, "c", "o")
	_, err := d.Decide(t.Context(), first, api.DecideRequest{OptionID: "yes"}, "a")
	wantCode(t, err, api.Code(exec.CodeUnavailable))
	if len(chat.recorded()) != 0 {
		t.Error("an answer that did not arrive was recorded")
	}
	fail = false
	_, err = d.Decide(t.Context(), first, api.DecideRequest{OptionID: "yes"}, "a")
	wantCode(t, err, api.CodeAlreadyResolved) // the old offer is void
	if _, err := d.Decide(t.Context(), fenceOf(t, d, "c", "o"), api.DecideRequest{OptionID: "yes"}, "a"); err != nil {
		t.Errorf("the new offer is refused: %v", err)
	}
}

func TestUncertainAnswerRetiresTheRequestWithoutADecision(t *testing.T) {
	d, chat := newDesk(t)
	d.Offer("c", permissionRow("o", "run"), chat, func(context.Context, exec.Answer) error {
		return exec.Errorf(exec.CodeOutcomeUnknown, "no confirmation").WithDispatched(exec.MaybeDispatched)
	})
	f := fenceOf(t, d, "c", "o")
	_, err := d.Decide(t.Context(), f, api.DecideRequest{Decision: row.Deny}, "a")
	wantCode(t, err, api.Code(exec.CodeOutcomeUnknown))
	rows := chat.recorded()
	if len(rows) != 1 || rows[0].Kind() != row.KindNotice {
		t.Errorf("want one notice and no resolution, got %+v", rows)
	}
	_, err = d.Decide(t.Context(), f, api.DecideRequest{Decision: row.Deny}, "a")
	wantCode(t, err, api.CodeAlreadyResolved)
}

func TestAnswersThatNameSomethingElse(t *testing.T) {
	d, chat := newDesk(t)
	d.Offer("c", permissionRow("o", "run"), chat, func(context.Context, exec.Answer) error {
		t.Error("delivered")
		return nil
	})
	good := fenceOf(t, d, "c", "o")
	tests := []struct {
		name string
		f    Fence
		req  api.DecideRequest
		code api.Code
	}{
		{"another chat", Fence{"x", "o", good.RunID, good.ControlID}, api.DecideRequest{OptionID: "yes"}, api.CodeRequestGone},
		{"unknown occurrence", Fence{"c", "x", good.RunID, good.ControlID}, api.DecideRequest{OptionID: "yes"}, api.CodeRequestGone},
		{"another run", Fence{"c", "o", "x", good.ControlID}, api.DecideRequest{OptionID: "yes"}, api.CodeAlreadyResolved},
		{"another offer", Fence{"c", "o", good.RunID, "x"}, api.DecideRequest{OptionID: "yes"}, api.CodeAlreadyResolved},
		{"unknown option", good, api.DecideRequest{OptionID: "x"}, api.CodeInvalid},
		{"decision not offered", good, api.DecideRequest{Decision: row.AllowSession}, api.CodeInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := d.Decide(t.Context(), tt.f, tt.req, "a")
			wantCode(t, err, tt.code)
		})
	}
	_, err := d.Answer(t.Context(), good, api.AnswerRequest{}, "a")
	wantCode(t, err, api.CodeInvalid)
	if d.Pending("c")[0].Answering {
		t.Error("a refused answer claimed the request")
	}
}

func TestQuestionsTakeOnlyWhatTheyAllow(t *testing.T) {
	tests := []struct {
		name string
		req  api.AnswerRequest
		ok   bool
	}{
		{"all answered", api.AnswerRequest{Answers: map[string][]string{"color": {"Red"}, "extras": {"a", "my own"}}}, true},
		{"declined", api.AnswerRequest{Decline: true, Message: "no time"}, true},
		{"missing", api.AnswerRequest{Answers: map[string][]string{"color": {"Red"}}}, false},
		{"too many", api.AnswerRequest{Answers: map[string][]string{"color": {"Red", "Blue"}, "extras": {"a"}}}, false},
		{"not an option", api.AnswerRequest{Answers: map[string][]string{"color": {"Green"}, "extras": {"a"}}}, false},
		{"unknown question", api.AnswerRequest{Answers: map[string][]string{"color": {"Red"}, "extras": {"a"}, "x": {"y"}}}, false},
		{"both", api.AnswerRequest{Decline: true, Answers: map[string][]string{"color": {"Red"}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, chat := newDesk(t)
			delivered := false
			d.Offer("c", questionRow(), chat, func(context.Context, exec.Answer) error {
				delivered = true
				return nil
			})
			_, err := d.Answer(t.Context(), fenceOf(t, d, "c", "q"), tt.req, "a")
			if (err == nil) != tt.ok || delivered != tt.ok {
				t.Errorf("error %v, delivered %v, want ok %v", err, delivered, tt.ok)
			}
			if err != nil {
				wantCode(t, err, api.CodeInvalid)
			}
		})
	}
}

func TestWithdrawalAndTheEndOfARun(t *testing.T) {
	d, chat := newDesk(t)
	refuse := func(context.Context, exec.Answer) error {
		t.Error("delivered")
		return nil
	}
	d.Offer("c", permissionRow("a", "run"), chat, refuse)
	d.Offer("c", permissionRow("b", "run"), chat, refuse)
	d.Offer("c", permissionRow("other", "run2"), chat, refuse)
	stale := fenceOf(t, d, "c", "a")
	d.Withdraw("c", "a")
	ended := d.EndRun("c", "run")
	if len(ended) != 1 || ended[0].Body.(*row.PermissionResolved).Outcome != row.Ended {
		t.Errorf("end of run gave %+v", ended)
	}
	rows := chat.recorded()
	if len(rows) != 1 || rows[0].Body.(*row.PermissionResolved).Outcome != row.Withdrawn {
		t.Errorf("withdrawal gave %+v", rows)
	}
	_, err := d.Decide(t.Context(), stale, api.DecideRequest{OptionID: "yes"}, "a")
	wantCode(t, err, api.CodeAlreadyResolved)
	if p := d.Pending("c"); len(p) != 1 || p[0].Occurrence != "other" {
		t.Errorf("pending: %+v", p)
	}
}

// TestEndDuringDelivery ends the run while an answer is on its way: the answer's
// own outcome decides what is recorded, once.
func TestEndDuringDelivery(t *testing.T) {
	for _, delivery := range []error{nil, exec.Errorf(exec.CodeStaleResource, "over"), exec.Errorf(exec.CodeUnavailable, "down")} {
		t.Run(fmt.Sprint(delivery), func(t *testing.T) {
			d, chat := newDesk(t)
			started, finish := make(chan struct{}), make(chan struct{})
			d.Offer("c", permissionRow("o", "run"), chat, func(context.Context, exec.Answer) error {
				close(started)
				<-finish
				return delivery
			})
			f := fenceOf(t, d, "c", "o")
			done := make(chan error)
			go func() {
				_, err := d.Decide(context.Background(), f, api.DecideRequest{OptionID: "yes"}, "a")
				done <- err
			}()
			<-started
			if rows := d.EndRun("c", "run"); len(rows) != 0 {
				t.Errorf("a request being answered was ended: %+v", rows)
			}
			close(finish)
			if err := <-done; (err == nil) != (delivery == nil) {
				t.Errorf("error %v for delivery %v", err, delivery)
			}
			want := row.Answered
			if delivery != nil {
				want = row.Ended
			}
			rows := chat.recorded()
			if len(rows) != 1 || rows[0].Body.(*row.PermissionResolved).Outcome != want {
				t.Errorf("recorded %+v, want one row with outcome %s", rows, want)
			}
			if d.Count("c") != 0 {
				t.Error("still pending")
			}
		})
	}
}

func TestForgetsTheOldest(t *testing.T) {
	d, chat := newDesk(t)
	for i := range maxRemembered + 10 {
		o := fmt.Sprint(i)
		d.Offer("c", permissionRow(o, "run"), chat, nil)
		d.Withdraw("c", o)
	}
	if len(d.ended) != maxRemembered || len(d.endedIn) != maxRemembered {
		t.Errorf("remembers %d and %d, want %d", len(d.ended), len(d.endedIn), maxRemembered)
	}
	_, err := d.Decide(t.Context(), Fence{Chat: "c", Occurrence: "0"}, api.DecideRequest{OptionID: "yes"}, "a")
	wantCode(t, err, api.CodeRequestGone)
}
