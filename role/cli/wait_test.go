package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
)

func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		outcome api.TurnOutcome
		code    int
		stderr  string
	}{
		{api.TurnCompleted, ExitOK, ""},
		{api.TurnFailed, ExitFailed, "the turn failed"},
		{api.TurnInterrupted, ExitStopped, "stopped"},
		{api.TurnRemoved, ExitStopped, "taken from the queue"},
	} {
		f := newFake(t)
		f.ended(api.Receipt{Outcome: tc.outcome, FinalText: "text"})
		f.run("chats", "wait", "1", "turn-1").want(t, tc.code, "text\n", tc.stderr)
	}
}

// active has a turn be going until end is called.
func (f *fake) active(chat, turn string) (end func(api.Receipt)) {
	done := make(chan struct{})
	f.answer(api.OpTurnsReceipt, api.Receipt{ChatID: chat, TurnID: turn, State: api.TurnActive})
	f.answer(api.OpChatsPage, api.Page{ChatID: chat, View: "v", Through: 6})
	f.answer(api.OpChatsShow, api.Chat{ID: chat, State: api.State{Phase: api.PhaseRunning, TurnID: turn}})
	f.handle(api.OpChatsChanges, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
		writeJSON(w, http.StatusOK, api.Changes{View: "v", After: 6, Control: &api.Control{ChatID: chat, Revision: 9, Phase: api.PhaseIdle}})
	})
	return func(r api.Receipt) {
		r.State = api.TurnEnded
		f.answer(api.OpTurnsReceipt, r)
		close(done)
	}
}

// waitFor waits until the server has had a request of the operation.
func (f *fake) waitFor(op api.OperationID) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	for len(f.requests(op)) == 0 {
		if ctx.Err() != nil {
			f.t.Fatalf("no request of %s", op)
		}
		_ = pause(ctx, time.Millisecond)
	}
}

func TestWaitForTheTurnThatIsGoing(t *testing.T) {
	f := newFake(t)
	end := f.active("1", "turn-7")
	got := make(chan result, 1)
	go func() { got <- f.run("chats", "wait", "1", "--json") }()
	f.waitFor(api.OpChatsChanges)
	end(api.Receipt{ChatID: "1", TurnID: "turn-7", Outcome: api.TurnCompleted, FinalText: "done"})
	r := <-got
	r.want(t, ExitOK, `"finalText": "done"`, "")
	if q := f.requests(api.OpChatsChanges)[0].query; !strings.Contains(q, "after=6") || !strings.Contains(q, "live=off") {
		t.Errorf("changes were asked for with %s", q)
	}
}

func TestInterruptDetaches(t *testing.T) {
	f := newFake(t)
	f.active("1767225600000000", "turn-1")
	f.answer(api.OpChatsStart, accepted)
	ctx, interrupt := context.WithCancel(t.Context())
	got := make(chan result, 1)
	go func() { got <- f.runIn(ctx, "", "chats", "start", "hi") }()
	f.waitFor(api.OpChatsChanges)
	interrupt()
	r := <-got
	r.want(t, ExitInterrupted, "turn id: turn-1\n", "garcon chats wait 1767225600000000 turn-1 --config-dir "+f.root+" --runtime controller")
	if n := len(f.requests(api.OpChatsStop)); n != 0 {
		t.Error("the turn was stopped")
	}
}

func TestTimeout(t *testing.T) {
	f := newFake(t)
	f.active("1", "turn-1")
	f.run("chats", "wait", "1", "--timeout", "50ms").want(t, ExitUnavailable, "", "it goes on")
}

func TestDeletedWhileWaiting(t *testing.T) {
	f := newFake(t)
	f.active("1", "turn-1")
	f.answer(api.OpChatsChanges, api.NewError(api.CodeChatNotFound, "there is no chat 1", ""))
	f.run("chats", "wait", "1").want(t, ExitStopped, "", "its chat was deleted")
}

func TestUnknownTurn(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpTurnsReceipt, api.NewError(api.CodeTurnNotFound, "there is no turn x", ""))
	f.run("chats", "wait", "1", "x").want(t, ExitUsage, "", "chats read 1")
}

func TestWaitForTheLatestTurn(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsShow, api.Chat{ID: "1", State: api.State{Phase: api.PhaseIdle}})
	f.answer(api.OpChatsPage, api.Page{Through: 1, Rows: []json.RawMessage{
		encodeRow(t, row.Row{Head: row.Head{Ordinal: 0, TurnID: "turn-3"}, Body: &row.User{Text: "x"}}),
		encodeRow(t, row.Row{Head: row.Head{Ordinal: 1}, Body: &row.Notice{Code: "X"}}),
	}})
	f.ended(api.Receipt{Outcome: api.TurnCompleted, FinalText: "old answer"})
	f.run("chats", "wait", "1").want(t, ExitOK, "old answer", "")
	if p := f.requests(api.OpTurnsReceipt)[0].path; !strings.HasSuffix(p, "/turns/turn-3") {
		t.Errorf("waited at %s", p)
	}
	f.answer(api.OpChatsPage, api.Page{Through: -1})
	f.run("chats", "wait", "1").want(t, ExitUnavailable, "", "no turn to wait for")
}

func encodeRow(t testing.TB, r row.Row) json.RawMessage {
	t.Helper()
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// permission is an open request for the occurrence.
func permission(t testing.TB, occurrence string) api.Pending {
	return api.Pending{
		Occurrence: occurrence, RunID: "run-1", ControlID: "control-" + occurrence, Kind: row.KindPermission,
		Row: encodeRow(t, row.Row{Body: &row.Permission{
			Occurrence: occurrence, Tool: row.ToolBash, Input: row.ToolInput{Command: "rm -rf /tmp/x\x1b[8m"}, Reason: "not in the list",
			Options: []row.PermissionOption{
				{ID: "y", Decision: row.AllowOnce, Label: "Yes"}, {ID: "s", Decision: row.AllowSession, Label: "Yes, for rm"}, {ID: "n", Decision: row.Deny, Label: "No"},
			},
		}}),
	}
}

func TestWaitingForPermissionIsSaidOnce(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpTurnsReceipt,
		api.Receipt{State: api.TurnActive}, api.Receipt{State: api.TurnActive}, api.Receipt{State: api.TurnActive},
		api.Receipt{State: api.TurnEnded, Outcome: api.TurnCompleted, FinalText: "done"})
	f.answer(api.OpChatsPage, api.Page{Through: 3})
	control := api.Control{ChatID: "1", Revision: 2, Phase: api.PhaseWaiting, TurnID: "turn-1", Pending: []api.Pending{permission(t, "p1")}}
	f.answer(api.OpChatsChanges, api.Changes{After: 3, Control: &control})
	got := f.run("chats", "wait", "1", "turn-1")
	got.want(t, ExitOK, "done", "garcon chats decide 1 --occurrence p1 --allow --config-dir "+f.root+" --runtime controller")
	got.want(t, ExitOK, "done", `rm -rf /tmp/x\x1b[8m`)
	if n := strings.Count(got.stderr, "asks for permission"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func TestPausedQueueIsSaid(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpTurnsReceipt, api.Receipt{State: api.TurnQueued}, api.Receipt{State: api.TurnEnded, Outcome: api.TurnRemoved})
	f.answer(api.OpChatsPage, api.Page{Through: 3})
	f.answer(api.OpChatsChanges, api.Changes{After: 3, Control: &api.Control{Queue: api.Queue{Paused: true, Reason: "you stopped it"}}})
	f.run("chats", "wait", "1", "turn-1").want(t, ExitStopped, "", "chats queue resume 1")
}
