package feed

import (
	"errors"
	"sync"
	"testing"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/role/controller/auth"
)

// event takes events until there is one of the type.
func (b *browser) event(kind string) api.EventItem {
	b.t.Helper()
	for {
		var item api.EventItem
		b.item(1, &item)
		if item.Type == kind {
			return item
		}
	}
}

func (w *world) answer(event, client, kind string) (api.EventAnswered, error) {
	req := api.EventAnswerRequest{ClientID: client, Kind: kind}
	if kind == api.AnswerResult {
		req.Decision = row.AllowOnce
	}
	return w.Answer(w.t.Context(), event, req, someone)
}

func wantCode(t testing.TB, err error, code api.Code) {
	t.Helper()
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

// TestListenersAreThereBeforeReady asks while the ready item has not been
// taken: the request is offered, although no baseline held it.
func TestListenersAreThereBeforeReady(t *testing.T) {
	w := newWorld(t)
	_, r := w.start("hello")
	b := w.connect(auth.Identity{})
	b.open(api.StreamEvents, "")
	for joined := false; !joined; {
		w.clients.mu.Lock()
		joined = len(w.clients.byID) == 1
		w.clients.mu.Unlock()
	}
	r.ask("o")
	raw := receive(t, b.down)
	var first api.ServerFrame
	must(t, unmarshal(raw, &first))
	var ready api.EventItem
	must(t, unmarshal(first.Value, &ready))
	if ready.Type != api.EventReady {
		t.Errorf("begins with %+v", ready)
	}
	if got := b.event(api.EventWaterfall); got.Request.Occurrence != "o" {
		t.Errorf("offered %+v", got)
	}
}

func TestFirstAnswerClaimsAndOthersAreCancelled(t *testing.T) {
	w := newWorld(t)
	_, r := w.start("hello")
	one, me := w.ready()
	two, you := w.ready()
	r.ask("o")
	mine, yours := one.event(api.EventWaterfall), two.event(api.EventWaterfall)
	got, err := w.answer(mine.EventID, me.ClientID, api.AnswerResult)
	must(t, err)
	if got.Outcome != "delivered" {
		t.Errorf("answered %+v", got)
	}
	_, err = w.answer(yours.EventID, you.ClientID, api.AnswerResult)
	wantCode(t, err, api.CodeAlreadyResolved)
	if c := two.event(api.EventCancel); c.EventID != yours.EventID || c.Reason != api.CancelResolved {
		t.Errorf("cancelled %+v", c)
	}
	_, err = w.answer(yours.EventID, you.ClientID, api.AnswerRejection)
	wantCode(t, err, api.CodeAlreadyResolved)
}

func TestOneOfManyAnswersReachesTheAgent(t *testing.T) {
	w := newWorld(t)
	_, r := w.start("hello")
	delivered := make(chan exec.Answer, 100)
	w.agent.answer = func(a exec.Answer) error { delivered <- a; return nil }
	const n = 8
	var browsers []*browser
	var ids []string
	for range n {
		b, ready := w.ready()
		browsers, ids = append(browsers, b), append(ids, ready.ClientID)
	}
	for round := range 20 {
		r.ask(string(rune('a' + round)))
		var wins, losses int
		var mu sync.Mutex
		var all sync.WaitGroup
		events := make([]string, n)
		for i, b := range browsers {
			events[i] = b.event(api.EventWaterfall).EventID
		}
		for i := range browsers {
			all.Go(func() {
				_, err := w.answer(events[i], ids[i], api.AnswerResult)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					wins++
				} else if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeAlreadyResolved {
					losses++
				}
			})
		}
		all.Wait()
		if wins != 1 || losses != n-1 || len(delivered) != round+1 {
			t.Fatalf("round %d: %d won, %d lost, the agent got %d", round, wins, losses, len(delivered))
		}
	}
}

func TestNextLeavesTheRequestToOthers(t *testing.T) {
	w := newWorld(t)
	_, r := w.start("hello")
	one, me := w.ready()
	two, you := w.ready()
	r.ask("o")
	mine, yours := one.event(api.EventWaterfall), two.event(api.EventWaterfall)
	got, err := w.answer(mine.EventID, me.ClientID, api.AnswerNext)
	must(t, err)
	if got.Outcome != "next" || got.Waiting != 1 {
		t.Errorf("answered %+v", got)
	}
	got, err = w.answer(yours.EventID, you.ClientID, api.AnswerNext)
	must(t, err)
	if got.Waiting != 0 {
		t.Errorf("answered %+v", got)
	}
	if n := w.Desk.Count(mine.ChatID); n != 1 {
		t.Errorf("%d requests are open: nothing may be answered for the user", n)
	}
	_, err = w.answer(mine.EventID, me.ClientID, api.AnswerResult) // they may change their mind
	must(t, err)
}

func TestANewGenerationIsOfferedEverythingAndTheOldOneNothing(t *testing.T) {
	w := newWorld(t)
	_, r := w.start("hello")
	one, old := w.ready()
	r.ask("o")
	event := one.event(api.EventWaterfall).EventID
	one.Close(closeNormal, "")
	one.ended()
	two, now := w.ready()
	again := two.event(api.EventWaterfall)
	_, err := w.answer(event, old.ClientID, api.AnswerResult)
	wantCode(t, err, api.CodeRequestGone)
	_, err = w.answer("never", now.ClientID, api.AnswerResult)
	wantCode(t, err, api.CodeRequestGone)
	_, err = w.answer(again.EventID, now.ClientID, "maybe")
	wantCode(t, err, api.CodeInvalid)
	_, err = w.Answer(t.Context(), again.EventID, api.EventAnswerRequest{ClientID: now.ClientID, Kind: api.AnswerResult}, someone)
	wantCode(t, err, api.CodeInvalid)
	_, err = w.answer(again.EventID, now.ClientID, api.AnswerRejection)
	must(t, err)
}

func TestUndeliveredAnswersOfferTheRequestAgain(t *testing.T) {
	w := newWorld(t)
	_, r := w.start("hello")
	b, me := w.ready()
	r.ask("o")
	first := b.event(api.EventWaterfall)
	w.agent.answer = func(exec.Answer) error { return exec.Errorf(exec.CodeUnavailable, "the link is down") }
	_, err := w.answer(first.EventID, me.ClientID, api.AnswerResult)
	wantCode(t, err, api.Code(exec.CodeUnavailable))
	if c := b.event(api.EventCancel); c.EventID != first.EventID || c.Reason != api.CancelOfferedAgain {
		t.Errorf("cancelled %+v", c)
	}
	second := b.event(api.EventWaterfall)
	if second.EventID == first.EventID || second.Request.Occurrence != "o" {
		t.Errorf("offered again as %+v", second)
	}
	_, err = w.answer(first.EventID, me.ClientID, api.AnswerResult)
	wantCode(t, err, api.CodeAlreadyResolved)
	w.agent.answer = func(exec.Answer) error {
		return exec.Errorf(exec.CodeOutcomeUnknown, "no reply").WithDispatched(exec.MaybeDispatched)
	}
	_, err = w.answer(second.EventID, me.ClientID, api.AnswerResult)
	wantCode(t, err, api.Code(exec.CodeOutcomeUnknown))
	if c := b.event(api.EventCancel); c.EventID != second.EventID || c.Reason != api.CancelUnknown {
		t.Errorf("cancelled %+v", c)
	}
}

func TestEndOfTheRunTakesTheOfferBack(t *testing.T) {
	w := newWorld(t)
	a, r := w.start("hello")
	b, me := w.ready()
	r.ask("o")
	offered := b.event(api.EventWaterfall)
	_, err := w.Chats.Stop(t.Context(), a.ChatID, "")
	must(t, err)
	if c := b.event(api.EventCancel); c.EventID != offered.EventID || c.Reason != api.CancelAborted {
		t.Errorf("cancelled %+v", c)
	}
	_, err = w.answer(offered.EventID, me.ClientID, api.AnswerResult)
	wantCode(t, err, api.CodeAlreadyResolved)
}

func TestNotificationsAreEmitted(t *testing.T) {
	w := newWorld(t)
	b, _ := w.ready()
	a, r := w.start("hello")
	r.ask("o")
	if e := b.event(api.EventEmit).Event; e.Kind != "asked" || e.ChatID != a.ChatID || e.Text != "Run it?" {
		t.Errorf("emitted %+v", e)
	}
	r.say("all done")
	r.end()
	if e := b.event(api.EventEmit).Event; e.Kind != "run-finished" || e.Text != "all done" || e.Title != "hello" {
		t.Errorf("emitted %+v", e)
	}
	late, _ := w.ready()
	late.open("marker", "")
	for f := late.next(); f.Stream == 1; f = late.next() {
		t.Errorf("a notification is replayed: %s", f.Value)
	}
}
