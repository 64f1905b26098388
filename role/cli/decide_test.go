package cli

import (
	"strings"
	"testing"

	"garcon/proto/api"
	"garcon/proto/row"
)

func TestDecide(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want api.DecideRequest
	}{
		{[]string{"--allow"}, api.DecideRequest{Decision: row.AllowOnce}},
		{[]string{"--allow-session"}, api.DecideRequest{Decision: row.AllowSession}},
		{[]string{"--deny", "-m", "use the other one"}, api.DecideRequest{Decision: row.Deny, Message: "use the other one"}},
		{[]string{"--deny-stop"}, api.DecideRequest{Decision: row.DenyStop}},
		{[]string{"--option", "s"}, api.DecideRequest{OptionID: "s"}},
	} {
		f := newFake(t)
		f.answer(api.OpChatsControl, api.Control{ChatID: "1", Pending: []api.Pending{permission(t, "p1")}})
		f.answer(api.OpDecide, api.Resolved{Occurrence: "p1", Outcome: "delivered"})
		f.run(append([]string{"chats", "decide", "1"}, tc.args...)...).want(t, ExitOK, "p1: delivered", "")
		var got api.DecideRequest
		f.body(api.OpDecide, &got)
		tc.want.RunID, tc.want.ControlID = "run-1", "control-p1"
		if got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.args, got, tc.want)
		}
		if p := f.requests(api.OpDecide)[0].path; !strings.HasSuffix(p, "/permissions/p1") {
			t.Errorf("answered at %s", p)
		}
	}
}

func TestDecideNamesTheRequest(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Pending: []api.Pending{permission(t, "p1"), permission(t, "p2"), question(t, "q1")}})
	f.answer(api.OpDecide, api.Resolved{Occurrence: "p2", Outcome: "delivered"})
	f.run("chats", "decide", "1", "--allow").want(t, ExitUsage, "", "several open requests")
	f.run("chats", "decide", "1", "--allow", "--occurrence", "p3").want(t, ExitUnavailable, "", "no open request p3")
	f.run("chats", "decide", "1", "--allow", "--occurrence", "q1").want(t, ExitUnavailable, "", "no open request q1")
	if n := len(f.requests(api.OpDecide)); n != 0 {
		t.Errorf("%d decisions", n)
	}
	f.run("chats", "decide", "1", "--allow", "--occurrence", "p2").want(t, ExitOK, "p2: delivered", "")
	got := f.run("chats", "decide", "1", "--json")
	got.want(t, ExitUsage, `"p1"`, "there is no decision")
	var doc pendingDocument
	got.document(t, &doc)
	if len(doc.Pending) != 2 {
		t.Errorf("%+v", doc)
	}
}

func TestDecideWithoutRequest(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1"})
	f.run("chats", "decide", "1", "--allow").want(t, ExitUnavailable, "", "no open request")
	f.run("chats", "decide", "1").want(t, ExitUnavailable, "", "no open request")
}

func TestDecideLostOrUnknown(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Pending: []api.Pending{permission(t, "p1")}})
	f.answer(api.OpDecide, api.NewError(api.CodeAlreadyResolved, "the browser has answered this", ""))
	f.run("chats", "decide", "1", "--allow").want(t, ExitUnavailable, "", "the browser has answered this")
	f.answer(api.OpDecide, api.Resolved{Occurrence: "p1", Outcome: "unknown"})
	f.run("chats", "decide", "1", "--allow").want(t, ExitUnavailable, "p1: unknown", "nobody knows")
}

// question is an open question with two items.
func question(t testing.TB, occurrence string) api.Pending {
	return api.Pending{
		Occurrence: occurrence, RunID: "run-1", ControlID: "control-" + occurrence, Kind: row.KindQuestion,
		Row: encodeRow(t, row.Row{Body: &row.Question{Occurrence: occurrence, Questions: questions()}}),
	}
}

func questions() []row.QuestionItem {
	return []row.QuestionItem{
		{ID: "db", Text: "a=b? Which database?", Options: []row.QuestionOption{{Label: "PostgreSQL"}, {Label: "SQLite", Description: "a file"}}},
		{ID: "langs", Text: "Languages?", Multi: true, FreeText: true, Options: []row.QuestionOption{{Label: "Go"}, {Label: "Zig"}}},
	}
}

func TestAnswer(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Pending: []api.Pending{permission(t, "p1"), question(t, "q1")}})
	f.answer(api.OpAnswer, api.Resolved{Occurrence: "q1", Outcome: "delivered"})
	f.run("chats", "answer", "1").want(t, ExitUsage, "", "Which database?")
	f.run("chats", "answer", "1", "--answer", "a=b? Which database?=2", "--answer", "langs=go", "--answer", "langs=C, mostly").want(t, ExitOK, "q1: delivered", "")
	var got api.AnswerRequest
	f.body(api.OpAnswer, &got)
	if w := mustJSON(t, api.AnswerRequest{
		RunID: "run-1", ControlID: "control-q1", Answers: map[string][]string{"db": {"SQLite"}, "langs": {"Go", "C, mostly"}},
	}); mustJSON(t, got) != w {
		t.Errorf("%s, want %s", mustJSON(t, got), w)
	}
}

func TestAnswerRefusals(t *testing.T) {
	for _, tc := range []struct {
		values []string
		want   string
	}{
		{[]string{"db=SQLite"}, `question "Languages?" has no answer`},
		{[]string{"db=Oracle", "langs=Go"}, `"Oracle" is no answer`},
		{[]string{"db=1", "db=2", "langs=Go"}, "takes one answer"},
		{[]string{"SQLite"}, "names none of the questions"},
		{[]string{"db=", "langs=Go"}, `"" is no answer`},
	} {
		if _, err := parseAnswers(questions(), tc.values); err == nil || !strings.Contains(err.Error(), tc.want) || ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v, want %s", tc.values, err, tc.want)
		}
	}
	only, err := parseAnswers(questions()[:1], []string{"sqlite"})
	if err != nil || mustJSON(t, only) != `{"db":["SQLite"]}` {
		t.Errorf("%v %v", only, err)
	}
}

func TestAnswerOnATerminal(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Pending: []api.Pending{question(t, "q1")}})
	f.answer(api.OpAnswer, api.Resolved{Occurrence: "q1", Outcome: "delivered"})
	e, stdout, stderr := testEnv(t, "Oracle\n1\nGo, Rust\n")
	e.StdinFD = 0
	got := f.runEnv(t.Context(), e, stdout, stderr, "chats", "answer", "1")
	got.want(t, ExitOK, "q1: delivered", `"Oracle" is no answer`)
	var req api.AnswerRequest
	f.body(api.OpAnswer, &req)
	if w := `{"db":["PostgreSQL"],"langs":["Go","Rust"]}`; mustJSON(t, req.Answers) != w {
		t.Errorf("%s, want %s", mustJSON(t, req.Answers), w)
	}
}
