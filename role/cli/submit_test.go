package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"garcon/proto/api"
)

// lose answers nothing: the connection ends, as when a machine falls asleep.
func lose(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// ended has the turn be over.
func (f *fake) ended(r api.Receipt) {
	r.State = api.TurnEnded
	f.answer(api.OpTurnsReceipt, r)
}

var accepted = api.Accepted{ChatID: "1767225600000000", TurnID: "turn-1", Disposition: api.Started}

func TestStart(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsStart, accepted)
	f.ended(api.Receipt{Outcome: api.TurnCompleted, FinalText: "Hello\x1b[2J"})
	got := f.run("chats", "start", "--agent", "demo", "--model", "m", "--permissions", "ask", "--effort", "high", "--title", "T",
		"--tag", "a,b", "--tag", "c", "--parent", "2", "--setting", "k=v;w", "--provider", "p", "Say", "hello")
	got.want(t, ExitOK, "chat id: 1767225600000000\nturn id: turn-1\nHello\\x1b[2J\n", "")
	var req api.StartRequest
	f.body(api.OpChatsStart, &req)
	id := req.RequestID
	want := api.StartRequest{
		RequestID: id, ExecutorID: "local", Agent: "demo", Model: "m", Mode: "ask", Effort: "high", Title: "T", Tags: []string{"a,b", "c"},
		ParentID: "2", Settings: map[string]string{"k": "v;w"}, ProviderID: "p", Prompt: "Say hello", ProjectPath: "/work/project",
	}
	if g, w := mustJSON(t, req), mustJSON(t, want); g != w || len(id) < 16 {
		t.Errorf("request %s, want %s", g, w)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStartJSON(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsStart, accepted)
	f.ended(api.Receipt{Outcome: api.TurnFailed, Error: api.NewError("MODEL_ERROR", "the model broke", "Try again.")})
	got := f.run("chats", "start", "--json", "--", "--help")
	got.want(t, ExitFailed, "", "the turn failed: the model broke")
	var doc struct {
		Schema         int
		ChatID, TurnID string
		Receipt        api.Receipt
	}
	got.document(t, &doc)
	if doc.Schema != 1 || doc.ChatID != accepted.ChatID || doc.TurnID != accepted.TurnID || doc.Receipt.Outcome != api.TurnFailed || doc.Receipt.Error == nil {
		t.Errorf("%+v", doc)
	}
	// The ids are known even if the wait is cut off.
	got.want(t, ExitFailed, "", "chat id: 1767225600000000\nturn id: turn-1\n")
	var req api.StartRequest
	f.body(api.OpChatsStart, &req)
	if req.Prompt != "--help" {
		t.Errorf("prompt %q", req.Prompt)
	}
}

func TestLostAnswerIsAskedForAgain(t *testing.T) {
	f := newFake(t)
	var n atomic.Int32
	f.handle(api.OpChatsStart, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			lose(w, r)
		}
		writeJSON(w, http.StatusOK, accepted)
	})
	f.run("chats", "start-async", "hi").want(t, ExitOK, "chat id: ", "")
	seen := f.requests(api.OpChatsStart)
	if len(seen) < 3 {
		t.Fatalf("%d attempts, want 3", len(seen))
	}
	for _, s := range seen {
		if string(s.body) != string(seen[0].body) || s.instance != f.descriptor.InstanceID {
			t.Errorf("attempt %s for %s, first %s", s.body, s.instance, seen[0].body)
		}
	}
}

func TestRefusalDoesNotUnsayALostAnswer(t *testing.T) {
	for _, refusal := range []*api.Error{
		api.NewError(api.CodeChatBusy, "the chat has a turn going", "Use --queue."),
		api.NewError(api.CodeControllerChanged, "the controller has been restarted", ""),
	} {
		f := newFake(t)
		var n atomic.Int32
		f.handle(api.OpChatsSubmit, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				lose(w, r)
			}
			writeJSON(w, refusal.Status, api.Envelope{Error: refusal})
		})
		got := f.run("chats", "resume", "1767225600000000", "--json", "hi")
		got.want(t, ExitUnavailable, "OUTCOME_UNKNOWN", refusal.Message+"; the message may have been accepted all the same")
		if strings.Contains(got.stderr, "--queue") {
			t.Errorf("standard error invites to send it again: %s", got.stderr)
		}
	}
}

func TestRefusalIsNotRepeated(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsSubmit, api.NewError(api.CodeChatBusy, "the chat has a turn going", ""))
	got := f.run("chats", "resume", "1767225600000000", "hi")
	got.want(t, ExitUnavailable, "", "Add --queue")
	if strings.Contains(got.stderr, "may have been accepted") {
		t.Errorf("a definite refusal is told as uncertain: %s", got.stderr)
	}
	if n := len(f.requests(api.OpChatsSubmit)); n != 1 {
		t.Errorf("%d attempts", n)
	}
	var req api.SubmitRequest
	f.body(api.OpChatsSubmit, &req)
	if req.Busy != api.BusyReject {
		t.Errorf("busy policy %q", req.Busy)
	}
}

func TestInterruptedSubmissionMayHaveBeenAccepted(t *testing.T) {
	f := newFake(t)
	f.handle(api.OpChatsStart, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, interrupt := context.WithCancel(t.Context())
	got := make(chan result, 1)
	go func() { got <- f.runIn(ctx, "", "chats", "start", "hi") }()
	f.waitFor(api.OpChatsStart)
	interrupt()
	r := <-got
	r.want(t, ExitInterrupted, "", "interrupted; the message may have been accepted")
}

// Where nothing listens nothing was accepted, and nothing is claimed to be.
func TestRefusedConnectionIsCertain(t *testing.T) {
	f := newFake(t)
	f.handle(api.OpContext, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		writeJSON(w, http.StatusOK, api.Context{ServerInstanceID: f.descriptor.InstanceID, DefaultExecutorID: "local"})
		go f.server.Listener.Close()
	})
	e, stdout, stderr := testEnv(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	got := f.runEnv(ctx, e, stdout, stderr, "chats", "start", "hi")
	if got.code == ExitOK || strings.Contains(got.stderr, "may have been accepted") {
		t.Errorf("%+v", got)
	}
}

func TestOwnRequestID(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsStart, accepted)
	f.run("chats", "start-async", "--request-id", "mine", "hi").want(t, ExitOK, "", "")
	var req api.StartRequest
	f.body(api.OpChatsStart, &req)
	if req.RequestID != "mine" {
		t.Errorf("request id %q", req.RequestID)
	}
}

func TestSteerOrStart(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsSubmit, api.NewError(api.CodeChatIdle, "no turn is going", ""), accepted)
	f.ended(api.Receipt{Outcome: api.TurnCompleted, FinalText: "ok"})
	f.run("chats", "resume", "--steer", "1767225600000000", "hi").want(t, ExitOK, "ok", "")
	var policies []api.BusyPolicy
	for _, s := range f.requests(api.OpChatsSubmit) {
		var req api.SubmitRequest
		if err := json.Unmarshal(s.body, &req); err != nil {
			t.Fatal(err)
		}
		policies = append(policies, req.Busy)
	}
	if len(policies) != 2 || policies[0] != api.BusySteer || policies[1] != api.BusyReject {
		t.Errorf("policies %q", policies)
	}
	g := newFake(t)
	g.answer(api.OpChatsSubmit, api.NewError(api.CodeChatIdle, "no turn is going", ""))
	g.run("chats", "steer", "1767225600000000", "hi").want(t, ExitUnavailable, "", "chats resume 1767225600000000")
}

func TestProjectPath(t *testing.T) {
	for _, tc := range []struct {
		name, executor, cwd string
		code                int
		want                string
	}{
		{"default", "local", "", ExitOK, "/work/project"},
		{"relative", "local", "sub/../x", ExitOK, "/work/project/x"},
		{"absolute", "local", "/srv", ExitOK, "/srv"},
		{"elsewhere", "9b2d", "/srv/app", ExitOK, "/srv/app"},
		{"elsewhere, default", "9b2d", "", ExitUsage, ""},
		{"elsewhere, relative", "9b2d", "app", ExitUsage, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			f.answer(api.OpChatsStart, accepted)
			args := []string{"chats", "start-async", "--executor", tc.executor}
			if tc.cwd != "" {
				args = append(args, "--cwd", tc.cwd)
			}
			f.run(append(args, "hi")...).want(t, tc.code, "", "")
			if tc.code != ExitOK {
				return
			}
			var req api.StartRequest
			f.body(api.OpChatsStart, &req)
			if req.ProjectPath != tc.want || req.ExecutorID != tc.executor {
				t.Errorf("project %q on %q", req.ProjectPath, req.ExecutorID)
			}
		})
	}
}
