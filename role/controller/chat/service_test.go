package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/registry"
)

func wantRows(t *testing.T, w *world, chat string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.rows(t, chat)); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

func TestTurnFromStartToReceipt(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello @a.txt")
	if got := r.launch; got.Prompt.Text == "hello @a.txt" || exec.StripMentions(got.Prompt.Text) != "hello @a.txt" ||
		got.Mode != "ask" || got.NativeSession != "" || got.ChatID != a.ChatID || got.TurnID != a.TurnID {
		t.Errorf("launched with %+v", got)
	}
	r.publish(exec.Event{Session: &exec.Session{ID: "native-1"}})
	r.say("thinking about it")
	r.say("hi")
	r.end(row.RunCompleted, nil)
	got := w.receipt(t, a)
	if got.Outcome != api.TurnCompleted || got.FinalText != "hi" {
		t.Errorf("receipt %+v", got)
	}
	wantRows(t, w, a.ChatID, "user hello @a.txt", "run started", "session", "assistant thinking about it", "assistant hi", "run completed")

	b := w.mustSubmit(t, a.ChatID, "again", api.BusyReject)
	r2 := receive(t, w.agent.launches)
	if r2.launch.NativeSession != "native-1" || r2.launch.Binding != r.launch.Binding {
		t.Errorf("the second turn ran in session %q on binding %v", r2.launch.NativeSession, r2.launch.Binding)
	}
	r2.take(t)
	r2.end(row.RunFailed, exec.Errorf(exec.CodeRateLimited, "slow down").WithHint("Wait."))
	if got := w.receipt(t, b); got.Outcome != api.TurnFailed || got.Error.Code != api.Code(exec.CodeRateLimited) || got.FinalText != "" {
		t.Errorf("receipt %+v", got)
	}
}

func TestRefusedLaunchFailsTheTurnOnce(t *testing.T) {
	w := newWorld(t)
	a, err := w.Start(t.Context(), request("hello"), human)
	must(t, err)
	r := receive(t, w.agent.launches)
	refused := exec.Errorf(exec.CodeNotSignedIn, "sign in first")
	r.end(row.RunFailed, refused) // the binding says so
	select {
	case r.answer <- refused: // and so does the reply, if anybody still waits
	case <-r.ctx.Done():
	}
	if got := w.receipt(t, a); got.Outcome != api.TurnFailed {
		t.Errorf("receipt %+v", got)
	}
	w.until(t, a.ChatID, idle)
	wantRows(t, w, a.ChatID, "user hello", "run started", "run failed "+string(exec.CodeNotSignedIn))
}

// TestALostNativeSessionIsNotTheEnd has the agent lose its session: the turn
// that finds out fails, the next one begins a new session.
func TestALostNativeSessionIsNotTheEnd(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "first")
	r.publish(exec.Event{Session: &exec.Session{ID: "lost"}})
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	b := w.mustSubmit(t, a.ChatID, "second", api.BusyReject)
	r = receive(t, w.agent.launches)
	if r.launch.NativeSession != "lost" {
		t.Errorf("resumed %q", r.launch.NativeSession)
	}
	send(t, r.answer, error(exec.Errorf(exec.CodeSessionMissing, "no such session")))
	if got := w.receipt(t, b); got.Outcome != api.TurnFailed || got.Error.Code != api.Code(exec.CodeSessionMissing) {
		t.Errorf("receipt %+v", got)
	}
	w.mustSubmit(t, a.ChatID, "third", api.BusyReject)
	if r = receive(t, w.agent.launches); r.launch.NativeSession != "" {
		t.Errorf("the next turn resumed %q", r.launch.NativeSession)
	}
	r.take(t)
	r.end(row.RunCompleted, nil)
	w.until(t, a.ChatID, idle)
}

func TestSubmissionsAreAcceptedOnce(t *testing.T) {
	w := newWorld(t)
	const distinct, repeats = 5, 20
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		got = map[string]map[string]bool{}
	)
	reqs := make([]api.StartRequest, distinct)
	for i := range reqs {
		reqs[i] = request(fmt.Sprint("prompt ", i))
	}
	for i := range distinct * repeats {
		wg.Go(func() {
			req := reqs[i%distinct]
			a, err := w.Start(context.Background(), req, human)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if got[req.RequestID] == nil {
				got[req.RequestID] = map[string]bool{}
			}
			got[req.RequestID][a.ChatID+a.TurnID] = true
		})
	}
	wg.Wait()
	for id, accepted := range got {
		if len(accepted) != 1 {
			t.Errorf("request %s was accepted as %v", id, accepted)
		}
	}
	if n := len(w.List(Filter{})); n != distinct {
		t.Errorf("%d chats, want %d", n, distinct)
	}
	for range distinct {
		receive(t, w.agent.launches).take(t)
	}
	other := reqs[0]
	other.Prompt = "something else"
	_, err := w.Start(t.Context(), other, human)
	wantCode(t, err, api.CodeConflict)

	chat := w.List(Filter{})[0].ID
	req := api.SubmitRequest{RequestID: newID(), Prompt: "next", Busy: api.BusyQueue}
	first, err := w.Submit(t.Context(), chat, req, human)
	must(t, err)
	second, err := w.Submit(t.Context(), chat, req, human)
	must(t, err)
	if second.TurnID != first.TurnID || second.EntryID != first.EntryID || !second.Replayed {
		t.Errorf("accepted as %+v, then as %+v", first, second)
	}
	req.Prompt = "other"
	_, err = w.Submit(t.Context(), chat, req, human)
	wantCode(t, err, api.CodeConflict)
}

func TestAcceptanceOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	req := request("hello")
	next := api.SubmitRequest{RequestID: newID(), Prompt: "next", Busy: api.BusyReject}
	var first, second api.Accepted
	t.Run("before", func(t *testing.T) {
		w := newWorldIn(t, dir, newFakeAgent())
		var err error
		first, err = w.Start(t.Context(), req, human)
		must(t, err)
		r := receive(t, w.agent.launches)
		r.take(t)
		r.end(row.RunCompleted, nil)
		w.receipt(t, first)
		second, err = w.Submit(t.Context(), first.ChatID, next, human)
		must(t, err)
		r = receive(t, w.agent.launches)
		r.take(t)
		r.end(row.RunCompleted, nil)
		w.receipt(t, second)
	})
	w := newWorldIn(t, dir, newFakeAgent())
	again, err := w.Start(t.Context(), req, human)
	must(t, err)
	if again.ChatID != first.ChatID || again.TurnID != first.TurnID || !again.Replayed {
		t.Errorf("start: %+v, then %+v", first, again)
	}
	// A busy chat answers a replay all the same.
	w.mustSubmit(t, first.ChatID, "busy now", api.BusyReject)
	receive(t, w.agent.launches).take(t)
	replay, err := w.Submit(t.Context(), first.ChatID, next, human)
	must(t, err)
	if replay.TurnID != second.TurnID || !replay.Replayed {
		t.Errorf("submit: %+v, then %+v", second, replay)
	}
}

// TestOwedTerminals has a terminal wait for the disk: it is written before the
// next turn, once, and the next turn's request still leads to that turn.
func TestOwedTerminals(t *testing.T) {
	dir := t.TempDir()
	var first, second api.Accepted
	next := api.SubmitRequest{RequestID: newID(), Prompt: "next", Busy: api.BusyReject}
	t.Run("before", func(t *testing.T) {
		w := newWorldIn(t, dir, newFakeAgent())
		a, r := w.mustStart(t, "first")
		first = a
		r.end(row.RunCompleted, nil)
		w.receipt(t, first)
		o, err := w.owner(first.ChatID)
		must(t, err)
		o.mu.Lock()
		o.owed = []row.Row{row.New(first.TurnID, "lost", &row.Run{Phase: row.RunFailed, Code: "STORAGE_FULL"})}
		o.mu.Unlock()
		second, err = w.Submit(t.Context(), first.ChatID, next, human)
		must(t, err)
		r = receive(t, w.agent.launches)
		r.take(t)
		r.end(row.RunCompleted, nil)
		w.receipt(t, second)
		wantRows(t, w, first.ChatID, "user first", "run started", "run completed", "run failed STORAGE_FULL",
			"user next", "run started", "run completed")
	})
	w := newWorldIn(t, dir, newFakeAgent())
	again, err := w.Submit(t.Context(), first.ChatID, next, human)
	must(t, err)
	if again.TurnID != second.TurnID || !again.Replayed {
		t.Errorf("accepted as %+v, then as %+v", second, again)
	}
}

func TestStopIsAtOnceAndLateNewsIsDropped(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "long work")
	r.say("so far")
	w.mustSubmit(t, a.ChatID, "queued", api.BusyQueue)
	stopped, err := w.Stop(t.Context(), a.ChatID, "")
	must(t, err)
	if !stopped.Stopped || !stopped.QueuePaused || stopped.TurnID != a.TurnID {
		t.Errorf("stop answered %+v", stopped)
	}
	if got := w.receipt(t, a); got.Outcome != api.TurnInterrupted {
		t.Errorf("receipt %+v", got)
	}
	if ref := receive(t, w.agent.aborts); ref != r.ref() {
		t.Errorf("aborted %v", ref)
	}
	// The agent is still at it.
	r.publish(exec.Event{Rows: []row.Row{row.New("", "", &row.Assistant{Text: "cut", Partial: true})}})
	r.publish(exec.Event{Rows: []row.Row{row.New("", "", &row.Notice{Code: "X"})}})
	r.publish(exec.Event{Ask: &exec.Ask{Row: row.New("", "", &row.Permission{Occurrence: "late"})}})
	if c, err := w.Control(a.ChatID); err != nil || len(c.Pending) != 0 || c.Phase != api.PhaseIdle {
		t.Errorf("control %+v, %v", c, err)
	}
	must(t, w.ResumeQueue(t.Context(), a.ChatID))
	w.until(t, a.ChatID, func(c api.Control) bool { return c.Phase == api.PhasePreparing })
	if len(w.agent.launches) != 0 {
		t.Error("the next turn was launched while the agent was still busy")
	}
	r.end(row.RunInterrupted, nil)
	next := receive(t, w.agent.launches)
	next.take(t)
	next.end(row.RunCompleted, nil)
	w.until(t, a.ChatID, idle)
	wantRows(t, w, a.ChatID, "user long work", "run started", "assistant so far", "run interrupted", "assistant cut",
		"user queued", "run started", "run completed")
}

func TestStopDuringTheLaunch(t *testing.T) {
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("taken ", taken), func(t *testing.T) {
			w := newWorld(t)
			a, err := w.Start(t.Context(), request("hello"), human)
			must(t, err)
			r := receive(t, w.agent.launches)
			stopped, err := w.Stop(t.Context(), a.ChatID, a.TurnID)
			must(t, err)
			if !stopped.Stopped {
				t.Error("not stopped")
			}
			if taken {
				// The launch was on its way: the agent has it after all.
				r.publish(exec.Event{Launched: &exec.Launched{Run: r.ref()}})
				receive(t, w.agent.aborts)
				r.end(row.RunInterrupted, nil)
			}
			w.mustSubmit(t, a.ChatID, "next", api.BusyReject)
			next := receive(t, w.agent.launches)
			next.take(t)
			next.end(row.RunCompleted, nil)
			w.until(t, a.ChatID, idle)
			wantRows(t, w, a.ChatID, "user hello", "run started", "run interrupted", "user next", "run started", "run completed")
		})
	}
}

func TestUnsolicitedRuns(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "start a job")
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	own := &fakeRun{agent: w.agent, launch: exec.Launch{Binding: r.launch.Binding, RunID: newID(), TurnID: newID()}}
	own.publish(exec.Event{Launched: &exec.Launched{Run: own.ref(), TurnID: own.launch.TurnID, Unsolicited: true, Reason: "a job ended"}})
	if c := w.until(t, a.ChatID, func(c api.Control) bool { return c.Phase == api.PhaseRunning }); c.RunID != own.launch.RunID {
		t.Errorf("active run is %s", c.RunID)
	}
	q := w.mustSubmit(t, a.ChatID, "next", api.BusyQueue)
	own.say("the job is done")
	own.end(row.RunCompleted, nil)
	next := receive(t, w.agent.launches)
	next.take(t)
	next.end(row.RunCompleted, nil)
	w.receipt(t, q)
	wantRows(t, w, a.ChatID, "user start a job", "run started", "run completed",
		"run started", "assistant the job is done", "run completed", "user next", "run started", "run completed")
}

// TestLaunchBehindAnUnsolicitedRun has the agent begin a run of its own just
// when it is given one.
func TestLaunchBehindAnUnsolicitedRun(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "start a job")
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	b := w.mustSubmit(t, a.ChatID, "next", api.BusyReject)
	refusedRun := receive(t, w.agent.launches)
	busy := exec.Errorf(exec.CodeSessionBusy, "the agent has begun a turn of its own")
	refusedRun.end(row.RunFailed, busy)
	send(t, refusedRun.answer, error(busy))
	own := &fakeRun{agent: w.agent, launch: exec.Launch{Binding: r.launch.Binding, RunID: newID(), TurnID: newID()}}
	own.publish(exec.Event{Launched: &exec.Launched{Run: own.ref(), TurnID: own.launch.TurnID, Unsolicited: true}})
	own.say("own")
	own.end(row.RunCompleted, nil)
	again := receive(t, w.agent.launches)
	if again.launch.RunID != refusedRun.launch.RunID {
		t.Error("the run changed its id")
	}
	again.take(t)
	again.say("done")
	again.end(row.RunCompleted, nil)
	if got := w.receipt(t, b); got.Outcome != api.TurnCompleted || got.FinalText != "done" {
		t.Errorf("receipt %+v", got)
	}
}

func TestRequestsEndWithTheirRun(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "dangerous")
	ask := row.New("", "", &row.Permission{Occurrence: "o", Options: []row.PermissionOption{{ID: "y", Decision: row.AllowOnce}}})
	r.publish(exec.Event{Ask: &exec.Ask{Row: ask}})
	c := w.until(t, a.ChatID, func(c api.Control) bool { return c.Phase == api.PhaseWaiting })
	f := permissionFence(a.ChatID, c.Pending[0])
	_, err := w.Stop(t.Context(), a.ChatID, "")
	must(t, err)
	_, err = w.Decide(t.Context(), f, api.DecideRequest{OptionID: "y"}, human)
	wantCode(t, err, api.CodeAlreadyResolved)
	wantRows(t, w, a.ChatID, "user dangerous", "run started", "permission", "resolved ended", "run interrupted")
}

func TestLivePartsGiveWayToTheirRow(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "talk")
	r.publish(exec.Event{Live: &row.Live{PartID: "p", Kind: row.KindAssistant, Text: "Hel"}})
	r.publish(exec.Event{Live: &row.Live{PartID: "p", Kind: row.KindAssistant, Offset: 3, Text: "lo"}})
	changes, err := w.Changes(t.Context(), t.Context(), a.ChatID, Seen{After: 1 << 40, Control: 0})
	must(t, err)
	if len(changes.Live) != 1 || changes.Live[0].Text != "Hello" {
		t.Errorf("live %+v", changes.Live)
	}
	done := row.New("", "", &row.Assistant{Text: "Hello"})
	done.PartID = "p"
	r.publish(exec.Event{Rows: []row.Row{done}})
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	changes, err = w.Changes(t.Context(), t.Context(), a.ChatID, Seen{After: 1 << 40, Live: changes.LiveRevision})
	must(t, err)
	if len(changes.Live) != 0 {
		t.Errorf("live %+v", changes.Live)
	}
}

func TestShutdownEndsTurnsAndSaysSo(t *testing.T) {
	dir := t.TempDir()
	var a api.Accepted
	t.Run("before", func(t *testing.T) {
		w := newWorldIn(t, dir, newFakeAgent())
		var r *fakeRun
		a, r = w.mustStart(t, "long")
		r.say("half")
		ended := w.Close(t.Context())
		if len(ended) != 1 || ended[0].ChatID != a.ChatID || ended[0].Title != "long" {
			t.Errorf("ended %+v", ended)
		}
		if got := w.receipt(t, a); got.Outcome != api.TurnInterrupted {
			t.Errorf("receipt %+v", got)
		}
		_, err := w.Submit(t.Context(), a.ChatID, api.SubmitRequest{RequestID: newID(), Prompt: "x"}, human)
		wantCode(t, err, api.CodeShuttingDown)
		if w.agent.closed != 1 {
			t.Errorf("%d bindings closed", w.agent.closed)
		}
	})
	w := newWorldIn(t, dir, newFakeAgent())
	wantRows(t, w, a.ChatID, "user long", "run started", "assistant half", "run interrupted CONTROLLER_STOPPED")
	_, err := w.Receipt(t.Context(), a.ChatID, a.TurnID)
	wantCode(t, err, api.CodeTurnNotFound)
}

func TestDeletion(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "doomed")
	q := w.mustSubmit(t, a.ChatID, "later", api.BusyQueue)
	must(t, w.Delete(t.Context(), a.ChatID))
	if got := w.receipt(t, q); got.Outcome != api.TurnRemoved {
		t.Errorf("receipt of the queued turn %+v", got)
	}
	if got := w.receipt(t, a); got.Outcome != api.TurnInterrupted {
		t.Errorf("receipt %+v", got)
	}
	r.say("late")
	_, err := w.Show(a.ChatID)
	wantCode(t, err, api.CodeChatNotFound)
	if err == nil || !strings.Contains(err.Error(), "deleted") {
		t.Errorf("error %v does not say that it was deleted", err)
	}
	wantCode(t, w.Delete(t.Context(), a.ChatID), api.CodeChatNotFound)
	if len(w.List(Filter{Archived: true})) != 0 {
		t.Error("still listed")
	}
}

func TestStartRefusesBeforeItMakesAnything(t *testing.T) {
	w := newWorld(t)
	tests := map[string]struct {
		change func(*api.StartRequest)
		code   api.Code
	}{
		"no request id":    {func(r *api.StartRequest) { r.RequestID = "" }, api.CodeInvalid},
		"empty prompt":     {func(r *api.StartRequest) { r.Prompt = "\n" }, api.CodeInvalid},
		"long prompt":      {func(r *api.StartRequest) { r.Prompt = strings.Repeat("x", api.MaxPrompt+1) }, api.CodeTooLarge},
		"unknown agent":    {func(r *api.StartRequest) { r.Agent = "x" }, api.Code(exec.CodeUnknownAgent)},
		"unknown executor": {func(r *api.StartRequest) { r.ExecutorID = "x" }, api.Code(exec.CodeUnavailable)},
		"unknown mode":     {func(r *api.StartRequest) { r.Mode = "x" }, api.CodeInvalid},
		"unknown effort":   {func(r *api.StartRequest) { r.Effort = "x" }, api.CodeInvalid},
		"no project":       {func(r *api.StartRequest) { r.ProjectPath = "" }, api.CodeInvalid},
		"bad tag":          {func(r *api.StartRequest) { r.Tags = []string{"a\nb"} }, api.CodeInvalid},
		"no upload": {func(r *api.StartRequest) {
			r.Attachments = []api.AttachmentRef{{Name: "a", MediaType: "image/png", Digest: "sha256-" + strings.Repeat("0", 64)}}
		}, api.CodeInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := request("hello")
			tt.change(&req)
			_, err := w.Start(t.Context(), req, human)
			wantCode(t, err, tt.code)
		})
	}
	if n := len(w.List(Filter{Archived: true})); n != 0 {
		t.Errorf("%d chats were made", n)
	}
}

func TestAttachmentsReachTheAgent(t *testing.T) {
	w := newWorld(t)
	up, err := w.Attach(t.Context(), strings.NewReader("png bytes"), "a.png", "image/png")
	must(t, err)
	req := request("look")
	req.Attachments = []api.AttachmentRef{{Name: up.Name, MediaType: up.MediaType, Digest: up.Digest}}
	a, err := w.Start(t.Context(), req, human)
	must(t, err)
	r := receive(t, w.agent.launches)
	if got := r.launch.Prompt.Attachments; len(got) != 1 || string(got[0].Data) != "png bytes" || got[0].Size != 9 {
		t.Errorf("attachments %+v", got)
	}
	r.take(t)
	text := req
	text.RequestID = newID()
	text.Attachments = []api.AttachmentRef{{Name: "a.txt", MediaType: "text/plain", Digest: up.Digest}}
	_, err = w.Start(t.Context(), text, human)
	wantCode(t, err, api.CodeInvalid)
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
}

func TestTitlesComeFromTheAgent(t *testing.T) {
	w := newWorld(t)
	w.agent.integration.SingleQuery = w.agent
	w.agent.query = func(q exec.Query) (string, error) {
		if !strings.Contains(q.Prompt, "please help me") || !strings.Contains(q.Prompt, "helped") {
			return "", errors.New("unexpected prompt")
		}
		return "\"Helping\x1b[31m out\".\nmore", nil
	}
	titles := make(chan string, 16)
	defer w.registry.Watch(func(c registry.Change) { titles <- c.Chat.Title })()
	a, r := w.mustStart(t, "please help me")
	if c, _ := w.Show(a.ChatID); c.Title != "please help me" {
		t.Errorf("first title %q", c.Title)
	}
	r.say("helped")
	r.end(row.RunCompleted, nil)
	for receive(t, titles) != "Helping [31m out" {
	}
	title := "mine"
	_, err := w.Update(t.Context(), a.ChatID, api.UpdateRequest{Title: &title})
	must(t, err)
	r.publish(exec.Event{Session: &exec.Session{Title: "theirs"}})
	if c, _ := w.Show(a.ChatID); c.Title != "mine" {
		t.Errorf("the user's title was replaced by %q", c.Title)
	}
}

func TestCompactionIsATurn(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	r.publish(exec.Event{Session: &exec.Session{ID: "n"}})
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	b, err := w.Compact(t.Context(), a.ChatID, api.CompactRequest{RequestID: newID(), Instructions: "keep names"})
	must(t, err)
	r = receive(t, w.agent.launches)
	if r.launch.Prompt.Text != "keep names" || r.launch.NativeSession != "n" {
		t.Errorf("launched %+v", r.launch)
	}
	r.take(t)
	r.publish(exec.Event{Rows: []row.Row{row.New("", "", &row.Compaction{Trigger: "manual", Summary: "s"})}})
	r.end(row.RunCompleted, nil)
	w.receipt(t, b)
	wantRows(t, w, a.ChatID, "user hello", "run started", "session", "run completed", "run started", "compaction", "run completed")
}
