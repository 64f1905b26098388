package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"garcon/e2e/model"
	"garcon/proto/api"
	"garcon/proto/row"
)

// These tests drive the built binary with the real Claude Code, which talks to
// a scripted model. What the adapter makes of each message of the program is
// tested beside it; here it is whether a person gets what was promised.

// agentTimeout bounds what a real agent takes: starting several on a small
// machine with the race detector takes a quarter of a minute each.
const agentTimeout = 90 * time.Second

// claudeWorld is a world with a controller, Claude Code and its model.
type claudeWorld struct {
	*World
	t          *testing.T
	model      *model.Server
	controller *Role
}

// newClaude starts a controller whose Claude Code is answered by the steps.
func newClaude(t *testing.T, steps ...model.Step) *claudeWorld {
	t.Helper()
	w := &claudeWorld{World: New(t), t: t, model: model.Start(t, model.Script{Steps: steps})}
	w.UseAgents()
	w.Setenv("ANTHROPIC_BASE_URL", w.model.URL())
	w.Setenv("ANTHROPIC_API_KEY", "key-of-the-test")
	w.Setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
	w.Setenv("CLAUDE_CODE_MAX_RETRIES", "1")
	w.start()
	off := false
	w.call(api.OpSettingsUpdate, nil, nil, api.Settings{AutoTitle: &off}, nil)
	return w
}

func (w *claudeWorld) start() { w.controller = w.Controller() }

// call makes a request that must succeed.
func (w *claudeWorld) call(op api.OperationID, path []string, query url.Values, body, out any) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), agentTimeout)
	defer cancel()
	if err := w.controller.Call(ctx, op, path, query, body, out); err != nil {
		w.t.Fatalf("%s %q: %v\n%s", op, path, err, w.controller.Logs())
	}
}

func freshID() string { return fmt.Sprint("request ", requestIDs.Add(1)) }

func (w *claudeWorld) begin(prompt string, change ...func(*api.StartRequest)) api.Accepted {
	w.t.Helper()
	req := api.StartRequest{RequestID: freshID(), Agent: "claude", ProjectPath: w.Project, Prompt: prompt}
	for _, f := range change {
		f(&req)
	}
	var a api.Accepted
	w.call(api.OpChatsStart, nil, nil, req, &a)
	return a
}

func (w *claudeWorld) send(chat, prompt string, busy api.BusyPolicy) api.Accepted {
	w.t.Helper()
	var a api.Accepted
	w.call(api.OpChatsSubmit, []string{chat}, nil, api.SubmitRequest{RequestID: freshID(), Prompt: prompt, Busy: busy}, &a)
	return a
}

// ended waits for the end of a turn.
func (w *claudeWorld) ended(a api.Accepted, want api.TurnOutcome) api.Receipt {
	w.t.Helper()
	deadline := time.Now().Add(agentTimeout)
	for {
		var r api.Receipt
		w.call(api.OpTurnsReceipt, []string{a.ChatID, a.TurnID}, url.Values{"wait": {"20000"}}, nil, &r)
		if r.State == api.TurnEnded {
			if r.Outcome != want {
				w.t.Fatalf("the turn %s (%+v), want %s\n%s", r.Outcome, r.Error, want, strings.Join(w.rows(a.ChatID), "\n"))
			}
			return r
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the turn is still %s, %s\n%s\n%s", r.State, r.Phase, strings.Join(w.rows(a.ChatID), "\n"), w.controller.Logs())
		}
	}
}

func (w *claudeWorld) control(chat string) api.Control {
	w.t.Helper()
	var c api.Control
	w.call(api.OpChatsControl, []string{chat}, nil, nil, &c)
	return c
}

// asked waits for the one request that is open.
func (w *claudeWorld) asked(chat string) (api.Pending, row.Row) {
	w.t.Helper()
	var p api.Pending
	Until(w.t, agentTimeout, "the agent asks", func() bool {
		pending := w.control(chat).Pending
		if len(pending) == 1 {
			p = pending[0]
		}
		return len(pending) == 1
	})
	var r row.Row
	if err := json.Unmarshal(p.Row, &r); err != nil {
		w.t.Fatal(err)
	}
	return p, r
}

func (w *claudeWorld) decide(chat string, d row.Decision, message string) {
	w.t.Helper()
	p, _ := w.asked(chat)
	w.call(api.OpDecide, []string{chat, p.Occurrence}, nil, api.DecideRequest{
		RunID: p.RunID, ControlID: p.ControlID, Decision: d, Message: message,
	}, nil)
}

// transcript returns the rows of a chat.
func (w *claudeWorld) transcript(chat string) []row.Row {
	w.t.Helper()
	var rows []row.Row
	query := url.Values{"max": {strconv.Itoa(api.MaxPageMessages)}}
	for {
		var page api.Page
		w.call(api.OpChatsPage, []string{chat}, query, nil, &page)
		older := make([]row.Row, len(page.Rows))
		for i, raw := range page.Rows {
			if err := json.Unmarshal(raw, &older[i]); err != nil {
				w.t.Fatal(err)
			}
		}
		rows = append(older, rows...)
		if !page.HasMore {
			return rows
		}
		query.Set("before", strconv.FormatInt(older[0].Ordinal, 10))
	}
}

// rows returns the transcript in short form.
func (w *claudeWorld) rows(chat string) []string {
	w.t.Helper()
	var out []string
	for _, r := range w.transcript(chat) {
		switch b := r.Body.(type) {
		case *row.User:
			out = append(out, "user "+b.Text)
		case *row.Assistant:
			out = append(out, "assistant "+b.Text)
		case *row.Tool:
			out = append(out, "tool "+string(b.Tool))
		case *row.ToolResult:
			out = append(out, "result "+string(b.Status))
		case *row.PermissionResolved:
			out = append(out, "resolved "+string(b.Decision)+" "+string(b.Outcome))
		case *row.QuestionResolved:
			out = append(out, "resolved "+string(b.Outcome))
		case *row.Run:
			out = append(out, strings.TrimSpace("run "+string(b.Phase)+" "+b.Code))
		case *row.Session, *row.Notice:
			// What is said on the way differs with the moment.
		default:
			out = append(out, string(r.Kind()))
		}
	}
	return out
}

func (w *claudeWorld) wantRows(chat string, want ...string) {
	w.t.Helper()
	if got := w.rows(chat); !slices.Equal(got, want) {
		w.t.Errorf("transcript:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// said makes a step that answers a text, used one that calls a tool.
func said(text string) model.Step { return model.Step{Blocks: []model.Block{{Text: text}}} }

func used(name string, input any) model.Step {
	return model.Step{Blocks: []model.Block{{Tool: &model.Tool{Name: name, Input: input}}}}
}

type input = map[string]any

// untilGo is a command that runs until the file "go" is there.
const untilGo = "while [ ! -e go ]; do timeout 0.1 tail -f /dev/null; done; echo gone"

func (w *claudeWorld) letGo() {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.Project, "go"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// running waits until a process of this world has the text in its command.
func (w *claudeWorld) running(text string) {
	w.t.Helper()
	Until(w.t, agentTimeout, text+" runs", func() bool {
		return slices.ContainsFunc(w.Census(), func(p Process) bool { return strings.Contains(p.Command, text) })
	})
}

func TestClaudeFromTheShell(t *testing.T) {
	w := newClaude(t,
		model.Step{Blocks: []model.Block{{Thinking: "They greet me."}, {Text: "Hello from the scripted model."}}},
		model.Step{Times: -1, Reply: &model.Reply{Status: 400, Type: "invalid_request_error", Message: "no"}},
	)
	out := w.Must("chats", "start", "--agent", "claude", "Say hello")
	if !regexp.MustCompile(`^chat id: \d{16}\nturn id: [0-9a-f-]{36}\n(.*\n)*Hello from the scripted model\.\n$`).MatchString(out) {
		t.Errorf("printed:\n%s", out)
	}
	chat := regexp.MustCompile(`\d{16}`).FindString(out)
	w.wantRows(chat, "user Say hello", "run started", "reasoning", "assistant Hello from the scripted model.", "run completed")
	if r := w.Garcon("chats", "resume", chat, "again"); r.Code != 1 {
		t.Errorf("a failing turn exits %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

func TestClaudeStreams(t *testing.T) {
	w := newClaude(t, model.Step{Blocks: []model.Block{{Text: "one two three four", Chunks: 4, Hold: "rest", HoldAfter: 2}}})
	a := w.begin("count")
	var c api.Changes
	Until(t, agentTimeout, "the first words are shown", func() bool {
		w.call(api.OpChatsChanges, []string{a.ChatID}, url.Values{"after": {"1000"}}, nil, &c)
		return len(c.Live) == 1 && strings.HasPrefix(c.Live[0].Text, "one two")
	})
	if strings.Contains(c.Live[0].Text, "four") {
		t.Errorf("shown before it was said: %q", c.Live[0].Text)
	}
	w.model.Open("rest")
	if r := w.ended(a, api.TurnCompleted); r.FinalText != "one two three four" || r.Usage.OutputTokens == 0 {
		t.Errorf("receipt %+v", r)
	}
}

func TestClaudeToolAllowed(t *testing.T) {
	w := newClaude(t, used("Write", input{"file_path": "new.txt", "content": "made\n"}), said("Written."))
	a := w.begin("write")
	_, ask := w.asked(a.ChatID)
	if p := ask.Body.(*row.Permission); p.Tool != row.ToolWrite || p.Input.Content != "made\n" {
		t.Errorf("asked for %+v", p)
	}
	if got := w.control(a.ChatID).Phase; got != api.PhaseWaiting {
		t.Errorf("the chat is %s", got)
	}
	w.decide(a.ChatID, row.AllowOnce, "")
	w.ended(a, api.TurnCompleted)
	if data, err := os.ReadFile(filepath.Join(w.Project, "new.txt")); err != nil || string(data) != "made\n" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	w.wantRows(a.ChatID, "user write", "run started", "tool write", "permission", "resolved allow-once answered",
		"result completed", "assistant Written.", "run completed")
}

func TestClaudeToolDeniedWithAMessage(t *testing.T) {
	w := newClaude(t, used("Bash", input{"command": "touch never"}), said("I will not."))
	a := w.begin("touch")
	w.asked(a.ChatID)
	w.Must("chats", "decide", a.ChatID, "--deny", "--message", "use a safer way")
	w.ended(a, api.TurnCompleted)
	requests := w.model.Calls(model.CallMain)
	if len(requests) != 2 || !strings.Contains(requests[1].LastToolResult(), "use a safer way") {
		t.Error("the model was not told why")
	}
	if _, err := os.Stat(filepath.Join(w.Project, "never")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
	w.wantRows(a.ChatID, "user touch", "run started", "tool bash", "permission", "resolved deny answered",
		"result denied", "assistant I will not.", "run completed")
}

func TestClaudeQuestion(t *testing.T) {
	w := newClaude(t, used("AskUserQuestion", input{"questions": []any{
		input{"question": "Which color?", "header": "Color", "multiSelect": false, "options": []any{
			input{"label": "Red", "description": "warm"}, input{"label": "Blue", "description": "cool"},
		}},
	}}), said("Blue it is."))
	a := w.begin("paint")
	_, ask := w.asked(a.ChatID)
	q := ask.Body.(*row.Question)
	if len(q.Questions) != 1 || q.Questions[0].Text != "Which color?" || len(q.Questions[0].Options) != 2 {
		t.Fatalf("asked %+v", q)
	}
	w.Must("chats", "answer", a.ChatID, "--answer", q.Questions[0].ID+"=Blue")
	w.ended(a, api.TurnCompleted)
	if requests := w.model.Calls(model.CallMain); !strings.Contains(requests[1].LastToolResult(), "Blue") {
		t.Errorf("the model got %q", requests[1].LastToolResult())
	}
	if rows := w.rows(a.ChatID); !slices.Contains(rows, "resolved answered") {
		t.Errorf("transcript %q", rows)
	}
}

func TestClaudePlanApproved(t *testing.T) {
	w := newClaude(t,
		used("ExitPlanMode", input{"plan": "# Plan\n1. write it"}),
		used("Write", input{"file_path": "planned.txt", "content": "x"}), said("Done as planned."),
	)
	a := w.begin("plan it", func(r *api.StartRequest) { r.Mode = "plan" })
	_, ask := w.asked(a.ChatID)
	if p := ask.Body.(*row.Permission); p.Tool != row.ToolPlan || !strings.Contains(p.Input.Plan, "write it") {
		t.Errorf("asked for %+v", p)
	}
	// Approving with edits accepted: the write that follows is not asked for.
	w.decide(a.ChatID, row.AllowSession, "")
	w.ended(a, api.TurnCompleted)
	if _, err := os.Stat(filepath.Join(w.Project, "planned.txt")); err != nil {
		t.Error(err)
	}
	var c api.Chat
	w.call(api.OpChatsShow, []string{a.ChatID}, nil, nil, &c)
	if c.Mode != "acceptEdits" {
		t.Errorf("the chat's mode reads %q", c.Mode)
	}
}

func TestClaudeSteeredInATool(t *testing.T) {
	w := newClaude(t, used("Bash", input{"command": untilGo}), said("I saw it."))
	a := w.begin("wait")
	w.decide(a.ChatID, row.AllowOnce, "")
	w.running("tail -f /dev/null")
	if s := w.send(a.ChatID, "STEER one", api.BusySteer); s.Disposition != api.Steered || s.TurnID != a.TurnID {
		t.Errorf("accepted as %+v", s)
	}
	w.letGo()
	w.ended(a, api.TurnCompleted)
	if requests := w.model.Calls(model.CallMain); len(requests) != 2 || !bytes.Contains(requests[1].Raw, []byte("STEER one")) {
		t.Errorf("%d requests", len(requests))
	}
	rows := w.rows(a.ChatID)
	if n := strings.Count(strings.Join(rows, "\n"), "STEER one"); n != 1 {
		t.Errorf("the message is there %d times: %q", n, rows)
	}
}

func TestClaudeSteeredInItsLastText(t *testing.T) {
	w := newClaude(t,
		model.Step{Blocks: []model.Block{{Text: "the first answer", Chunks: 2, Hold: "rest", HoldAfter: 1}}}, said("the second answer"))
	a := w.begin("talk")
	if _, err := w.model.WaitCall(t.Context(), model.CallMain, 1); err != nil {
		t.Fatal(err)
	}
	w.send(a.ChatID, "STEER late", api.BusySteer)
	w.model.Open("rest")
	// What cannot be put into the turn any more is answered within its run.
	if r := w.ended(a, api.TurnCompleted); r.FinalText != "the second answer" {
		t.Errorf("receipt %+v", r)
	}
	if requests := w.model.Calls(model.CallMain); len(requests) != 2 || !bytes.Contains(requests[1].Raw, []byte("STEER late")) {
		t.Errorf("%d requests", len(requests))
	}
}

func TestClaudeSteeredWhileItAsks(t *testing.T) {
	w := newClaude(t, used("Bash", input{"command": "touch made"}), said("done"))
	a := w.begin("ask me")
	w.asked(a.ChatID)
	w.send(a.ChatID, "STEER asking", api.BusySteer)
	w.decide(a.ChatID, row.AllowOnce, "")
	w.ended(a, api.TurnCompleted)
	if requests := w.model.Calls(model.CallMain); len(requests) != 2 || !bytes.Contains(requests[1].Raw, []byte("STEER asking")) {
		t.Errorf("%d requests", len(requests))
	}
}

func TestClaudeInterruptAndSend(t *testing.T) {
	w := newClaude(t,
		model.Step{Blocks: []model.Block{{Text: "a very long answer", Chunks: 4, Hold: "never", HoldAfter: 2}}}, said("the other answer"))
	a := w.begin("talk")
	if _, err := w.model.WaitCall(t.Context(), model.CallMain, 1); err != nil {
		t.Fatal(err)
	}
	b := w.send(a.ChatID, "stop that, do this", api.BusyInterrupt)
	w.ended(a, api.TurnInterrupted)
	if r := w.ended(b, api.TurnCompleted); r.FinalText != "the other answer" {
		t.Errorf("receipt %+v", r)
	}
}

func TestClaudeStopped(t *testing.T) {
	hang := model.Step{Blocks: []model.Block{{Text: "a very long answer", Chunks: 4, Hold: "never", HoldAfter: 2}}}
	tests := []struct {
		name  string
		step  model.Step
		until func(w *claudeWorld, a api.Accepted)
	}{
		{"streaming", hang, func(w *claudeWorld, a api.Accepted) {
			Until(w.t, agentTimeout, "it streams", func() bool {
				var c api.Changes
				w.call(api.OpChatsChanges, []string{a.ChatID}, url.Values{"after": {"1000"}}, nil, &c)
				return len(c.Live) > 0
			})
		}},
		{"in a tool", used("Bash", input{"command": untilGo}), func(w *claudeWorld, a api.Accepted) {
			w.decide(a.ChatID, row.AllowOnce, "")
			w.running("tail -f /dev/null")
		}},
		{"while it asks", used("Bash", input{"command": "touch x"}), func(w *claudeWorld, a api.Accepted) { w.asked(a.ChatID) }},
		{"before the first word", model.Step{Wait: "never", Blocks: []model.Block{{Text: "x"}}}, func(w *claudeWorld, a api.Accepted) {
			if _, err := w.model.WaitCall(w.t.Context(), model.CallMain, 1); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"while it starts", hang, func(*claudeWorld, api.Accepted) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newClaude(t, tt.step)
			a := w.begin("go")
			tt.until(w, a)
			begin := time.Now()
			w.Must("chats", "stop", a.ChatID)
			w.ended(a, api.TurnInterrupted)
			t.Logf("stopped in %s", time.Since(begin))
			if err := w.model.Push(said("next")); err != nil {
				t.Fatal(err)
			}
			// A launch that was given up has not used its step.
			if tt.name == "while it starts" {
				w.model.Open("never")
			}
			b := w.send(a.ChatID, "go on", api.BusyReject)
			w.ended(b, api.TurnCompleted)
			if c := w.control(a.ChatID); len(c.Pending) != 0 || c.Phase != api.PhaseIdle {
				t.Errorf("left over: %+v", c)
			}
			Until(t, agentTimeout, "the command has ended", func() bool {
				return !slices.ContainsFunc(w.Census(), func(p Process) bool { return strings.Contains(p.Command, "tail -f /dev/null") })
			})
		})
	}
}

func TestClaudeResumedAfterARestart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			w := newClaude(t, said("I will remember the word plum."), said("It was plum."))
			a := w.begin("remember the word plum")
			w.ended(a, api.TurnCompleted)
			if killed {
				w.controller.Kill()
			} else if code := w.controller.Stop(); code != 0 {
				t.Errorf("the controller ended with %d", code)
			}
			w.NothingLeft()
			w.start()
			b := w.send(a.ChatID, "which word?", api.BusyReject)
			if r := w.ended(b, api.TurnCompleted); r.FinalText != "It was plum." {
				t.Errorf("receipt %+v", r)
			}
			requests := w.model.Calls(model.CallMain)
			if len(requests) != 2 || !bytes.Contains(requests[1].Raw, []byte("I will remember the word plum.")) {
				t.Error("the agent did not resume its session")
			}
			w.wantRows(a.ChatID, "user remember the word plum", "run started", "assistant I will remember the word plum.", "run completed",
				"user which word?", "run started", "assistant It was plum.", "run completed")
		})
	}
}

// TestClaudeAsksAndTheControllerIsKilled: a request of an earlier process reads
// as over, and answering it is refused as gone.
func TestClaudeAsksAndTheControllerIsKilled(t *testing.T) {
	w := newClaude(t, used("Bash", input{"command": "touch x"}), said("next"))
	a := w.begin("ask")
	p, _ := w.asked(a.ChatID)
	w.controller.Kill()
	w.NothingLeft()
	w.start()
	if c := w.control(a.ChatID); len(c.Pending) != 0 || c.Phase != api.PhaseIdle {
		t.Errorf("after the restart: %+v", c)
	}
	err := w.controller.Call(t.Context(), api.OpDecide, []string{a.ChatID, p.Occurrence}, nil,
		api.DecideRequest{RunID: p.RunID, ControlID: p.ControlID, Decision: row.AllowOnce}, nil)
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeRequestGone {
		t.Errorf("answering it gave %v", err)
	}
	w.ended(w.send(a.ChatID, "go on", api.BusyReject), api.TurnCompleted)
}

func TestClaudeCompaction(t *testing.T) {
	w := newClaude(t, said("one"), said("two"))
	a := w.begin("first")
	w.ended(a, api.TurnCompleted)
	var b api.Accepted
	w.call(api.OpChatsCompact, []string{a.ChatID}, nil, api.CompactRequest{RequestID: freshID()}, &b)
	w.ended(b, api.TurnCompleted)
	compaction := ""
	for _, r := range w.transcript(a.ChatID) {
		if c, ok := r.Body.(*row.Compaction); ok {
			compaction = c.Trigger + " " + c.Summary
		}
	}
	if !strings.HasPrefix(compaction, "manual ") || len(compaction) < len("manual x") {
		t.Errorf("compaction %q", compaction)
	}
	w.ended(w.send(a.ChatID, "second", api.BusyReject), api.TurnCompleted)
}

// onePixel is a picture.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func TestClaudeSeesAnImage(t *testing.T) {
	w := newClaude(t, said("A pixel."))
	png, err := base64.StdEncoding.DecodeString(onePixel)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.Home, "pixel.png")
	if err := os.WriteFile(path, png, 0o600); err != nil {
		t.Fatal(err)
	}
	out := w.Must("chats", "start", "--agent", "claude", "--attach", path, "What is this?")
	if !strings.HasSuffix(out, "A pixel.\n") {
		t.Errorf("printed:\n%s", out)
	}
	images := 0
	for _, m := range w.model.Calls(model.CallMain)[0].Messages {
		images += m.Images
	}
	if images != 1 {
		t.Errorf("the model saw %d images", images)
	}
}

func TestClaudeErrors(t *testing.T) {
	reply := func(status int, kind string, headers map[string]string) model.Step {
		return model.Step{Times: -1, Reply: &model.Reply{Status: status, Type: kind, Message: "scripted failure", Headers: headers}}
	}
	tests := []struct {
		name string
		step model.Step
		code api.Code
	}{
		{"401", reply(401, "authentication_error", nil), "CREDENTIALS_REFUSED"},
		{"429", reply(429, "rate_limit_error", map[string]string{"retry-after": "1"}), "RATE_LIMITED"},
		{"500", reply(500, "api_error", nil), "MODEL_ERROR"},
		{"529", reply(529, "overloaded_error", nil), "MODEL_OVERLOADED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newClaude(t, tt.step)
			a := w.begin("go")
			r := w.ended(a, api.TurnFailed)
			if r.Error.Code != tt.code || r.Error.Message == "" || r.Error.Hint == "" {
				t.Errorf("failed with %+v, want %s and what to do", r.Error, tt.code)
			}
			var list api.ChatList
			w.call(api.OpChatsList, nil, nil, nil, &list)
			if len(list.Chats) != 1 || list.Chats[0].State.Phase != api.PhaseIdle {
				t.Errorf("the chat is %+v", list.Chats)
			}
		})
	}
}

func TestClaudeKilled(t *testing.T) {
	w := newClaude(t, used("Bash", input{"command": untilGo}), said("alive again"))
	a := w.begin("wait")
	w.decide(a.ChatID, row.AllowOnce, "")
	w.running("tail -f /dev/null")
	killed := 0
	for _, p := range w.Census() {
		if strings.Contains(p.Command, "claude") && strings.Contains(p.Command, "stream-json") {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		t.Fatalf("no agent among %v", w.Census())
	}
	if r := w.ended(a, api.TurnFailed); r.Error.Code != "AGENT_KILLED" {
		t.Errorf("failed with %+v", r.Error)
	}
	Until(t, agentTimeout, "its command has ended too", func() bool {
		return !slices.ContainsFunc(w.Census(), func(p Process) bool { return strings.Contains(p.Command, "tail -f /dev/null") })
	})
	w.ended(w.send(a.ChatID, "go on", api.BusyReject), api.TurnCompleted)
}

func TestClaudeWritesAFifteenMegabyteLine(t *testing.T) {
	const size = 15 << 20
	w := newClaude(t, model.Step{Blocks: []model.Block{{Text: "0123456789abcdef", Repeat: size / 16, Chunks: 64}}}, said("short"))
	a := w.begin("talk at length")
	r := w.ended(a, api.TurnCompleted)
	if r.FinalTextSize == 0 && len(r.FinalText) < 1<<20 {
		t.Errorf("the receipt holds %d bytes", len(r.FinalText))
	}
	var text *row.Assistant
	for _, rr := range w.transcript(a.ChatID) {
		if b, ok := rr.Body.(*row.Assistant); ok {
			text = b
		}
	}
	if text == nil || len(text.Text) > row.MaxBytes || len(text.Text) < row.MaxBytes-64<<10 || !strings.Contains(text.Text[len(text.Text)-100:], strconv.Itoa(size)) {
		t.Error("the row is not cut with its true size")
	}
	w.ended(w.send(a.ChatID, "go on", api.BusyReject), api.TurnCompleted)
}

func TestClaudeTitlesItsChat(t *testing.T) {
	w := newClaude(t, said("Hello."), model.Step{Match: &model.Match{Call: model.CallTitle}, Blocks: []model.Block{{Text: "Greetings exchanged"}}})
	on := true
	w.call(api.OpSettingsUpdate, nil, nil, api.Settings{AutoTitle: &on}, nil)
	a := w.begin("hello there, my friend")
	w.ended(a, api.TurnCompleted)
	Until(t, agentTimeout, "the chat has its title", func() bool {
		var c api.Chat
		w.call(api.OpChatsShow, []string{a.ChatID}, nil, nil, &c)
		return c.Title == "Greetings exchanged"
	})
}
