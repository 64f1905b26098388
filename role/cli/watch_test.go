package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garcon/proto/api"
	"garcon/proto/row"
)

func textRow(t testing.TB, ordinal int64, part string, body row.Body) json.RawMessage {
	return encodeRow(t, row.Row{Head: row.Head{Ordinal: ordinal, Time: 1, TurnID: "turn-1", RunID: "run-1", PartID: part}, Body: body})
}

func TestWatchJSON(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Revision: 3, Phase: api.PhaseRunning})
	f.answer(api.OpChatsChanges,
		api.Changes{View: "v", After: 1, Rows: []json.RawMessage{textRow(t, 0, "", &row.User{Text: "hi"}), textRow(t, 1, "", &row.Assistant{Text: "a\u202eb"})}},
		api.Changes{View: "v", After: 1, Control: &api.Control{ChatID: "1", Revision: 4, Phase: api.PhaseRunning}},
		api.Changes{View: "v", After: 1, Deleted: true},
	)
	got := f.run("chats", "watch", "--all", "--json", "1")
	got.want(t, ExitStopped, "", "the chat was deleted")
	var types []string
	for line := range strings.Lines(got.stdout) {
		var event struct {
			Schema int
			Type   string
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Schema != 1 {
			t.Errorf("line %q: %v", line, err)
		}
		types = append(types, event.Type)
	}
	if strings.Join(types, " ") != "control row row control deleted" {
		t.Errorf("lines %q", types)
	}
	if strings.Contains(got.stdout, "\u202e") || !strings.Contains(got.stdout, `a\u202eb`) {
		t.Errorf("standard output %q", got.stdout)
	}
	var after []string
	for _, s := range f.requests(api.OpChatsChanges) {
		after = append(after, s.query)
	}
	if !strings.Contains(after[0], "after=-1") || !strings.Contains(after[1], "after=1") || !strings.Contains(after[0], "control=3") || !strings.Contains(after[2], "control=4") {
		t.Errorf("asked with %q", after)
	}
}

func TestWatchUntilIdle(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Phase: api.PhaseRunning})
	f.answer(api.OpChatsPage, api.Page{View: "v", Through: 4, Rows: []json.RawMessage{textRow(t, 4, "", &row.User{Text: "earlier"})}})
	f.answer(api.OpChatsChanges,
		api.Changes{After: 4, Control: &api.Control{Revision: 1, Phase: api.PhaseIdle, Queue: api.Queue{Entries: []api.QueueEntry{{ID: "e"}}}}},
		api.Changes{After: 4, Control: &api.Control{Revision: 2, Phase: api.PhaseIdle}},
		api.Changes{After: 5, Rows: []json.RawMessage{textRow(t, 5, "", &row.Assistant{Text: "the last row"})}},
		api.Changes{After: 5},
	)
	got := f.run("chats", "watch", "--until-idle", "1")
	got.want(t, ExitOK, "earlier", "")
	got.want(t, ExitOK, "the last row", "")
}

// On a terminal text appears as it is written, and the row only adds what was
// missing.
func TestWatchLive(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Phase: api.PhaseRunning})
	f.answer(api.OpChatsPage, api.Page{View: "v", Through: -1})
	live := func(text string) []row.Live {
		return []row.Live{{PartID: "p", Kind: row.KindAssistant, Text: text}}
	}
	f.answer(api.OpChatsChanges,
		api.Changes{After: -1, Live: live("The ans"), LiveRevision: 1},
		api.Changes{After: -1, Live: live("The answer is"), LiveRevision: 2},
		api.Changes{After: 0, Rows: []json.RawMessage{textRow(t, 0, "p", &row.Assistant{Text: "The answer is 42."})}, LiveRevision: 3},
		api.Changes{After: 1, Rows: []json.RawMessage{textRow(t, 1, "", &row.Tool{Tool: row.ToolBash, Input: row.ToolInput{Command: "ls"}})}, LiveRevision: 3},
		api.Changes{After: 1, Control: &api.Control{Revision: 1, Phase: api.PhaseIdle}, LiveRevision: 3},
		api.Changes{After: 1},
	)
	e, stdout, stderr := testEnv(t, "")
	e.StdoutTerminal = true
	got := f.runEnv(t.Context(), e, stdout, stderr, "chats", "watch", "--until-idle", "1")
	got.want(t, ExitOK, "The answer is 42.\n\n[bash] ls\n", "")
	if n := strings.Count(got.stdout, "The"); n != 1 {
		t.Errorf("the text was printed %d times: %q", n, got.stdout)
	}
	for n, s := range f.requests(api.OpChatsChanges) {
		if n < 5 && strings.Contains(s.query, "live=off") {
			t.Errorf("request %d wants no live parts", n)
		}
	}
}

func TestReadFollowsShortPages(t *testing.T) {
	f := newFake(t)
	f.handle(api.OpChatsPage, func(w http.ResponseWriter, r *http.Request) {
		page := api.Page{ChatID: "1", View: "v", Through: 3, HasMore: true}
		switch r.URL.Query().Get("before") {
		case "":
			page.Rows = []json.RawMessage{textRow(t, 2, "", &row.User{Text: "second"}), textRow(t, 3, "", &row.Assistant{Text: "answer"})}
		case "2":
			page.Rows = []json.RawMessage{textRow(t, 0, "", &row.User{Text: "first"}), textRow(t, 1, "", &row.Session{ID: "s"})}
			page.HasMore = false
		default:
			t.Errorf("before=%s", r.URL.Query().Get("before"))
		}
		writeJSON(w, http.StatusOK, page)
	})
	got := f.run("chats", "read", "-n", "3", "1")
	got.want(t, ExitOK, "first", "")
	if strings.Index(got.stdout, "first") > strings.Index(got.stdout, "second") {
		t.Errorf("out of order: %s", got.stdout)
	}
	if q := f.requests(api.OpChatsPage)[1].query; !strings.Contains(q, "through=3") {
		t.Errorf("second page asked for with %s", q)
	}
	f.run("chats", "read", "-n", "2", "1").want(t, ExitOK, "second", "--before 2")
	var doc struct{ Rows []json.RawMessage }
	f.run("chats", "read", "--json", "--all", "1").document(t, &doc)
	if len(doc.Rows) != 3 { // without the session
		t.Errorf("%d rows", len(doc.Rows))
	}
}

func TestExport(t *testing.T) {
	f := newFake(t)
	cut := false
	f.handle(api.OpChatsExport, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("# Chat\n\x1b[31m" + r.URL.Query().Get("format")))
		if cut {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	f.run("chats", "export", "1").want(t, ExitOK, "# Chat\n\x1b[31mmarkdown", "")
	e, stdout, stderr := testEnv(t, "")
	e.StdoutTerminal = true
	f.runEnv(t.Context(), e, stdout, stderr, "chats", "export", "1").want(t, ExitOK, `\x1b[31mmarkdown`, "")

	file := filepath.Join(t.TempDir(), "chat.json")
	var doc exportDocument
	f.run("chats", "export", "--format", "json", "-o", file, "--json", "1").document(t, &doc)
	if data, err := os.ReadFile(file); err != nil || string(data) != "# Chat\n\x1b[31mjson" || doc.Bytes != int64(len(data)) || doc.File != file {
		t.Errorf("%q %v %+v", data, err, doc)
	}
	f.run("chats", "export", "-o", file, "1").want(t, ExitUsage, "", "--force")

	// Half an export must not look whole.
	cut = true
	half := filepath.Join(t.TempDir(), "half.md")
	f.run("chats", "export", "-o", half, "1").want(t, ExitUnavailable, "", "cannot export")
	if left, err := os.ReadDir(filepath.Dir(half)); err != nil || len(left) != 0 {
		t.Errorf("left over: %v %v", left, err)
	}
}

func TestRenderedRows(t *testing.T) {
	code := 2
	rows := []struct {
		body row.Body
		want string
	}{
		{&row.User{Text: "hi", Steered: true, Attachments: []row.Attachment{{Name: "a.png", MediaType: "image/png", Size: 3}}}, "[attachment] a.png (image/png, 3 bytes)"},
		{&row.Assistant{Text: "half", Partial: true}, "half\n(cut off)"},
		{&row.Reasoning{Text: "hm"}, ""},
		{&row.Tool{Tool: row.ToolTodo, Input: row.ToolInput{Todos: []row.Todo{{Text: "one", Status: "completed"}, {Text: "two", Status: "pending"}}}}, "[todo] 2 items\n  [x] one\n  [ ] two"},
		{&row.Tool{Tool: row.ToolEdit, Status: row.ToolDenied, Input: row.ToolInput{Path: "a.go"}}, "[edit] a.go (denied)"},
		{&row.Tool{Tool: row.ToolMCP, Input: row.ToolInput{Server: "db", Method: "query"}}, "[mcp] db query"},
		{&row.ToolResult{ExitCode: &code, Output: strings.Repeat("x\n", 20)}, "  exit code 2\n  x\n"},
		{&row.ToolResult{Output: strings.Repeat("x\n", 20)}, "… 8 lines more"},
		{&row.Permission{Tool: row.ToolBash, Input: row.ToolInput{Command: "rm"}}, "[permission] the agent asks to run bash: rm"},
		{&row.PermissionResolved{Decision: row.Deny, Outcome: row.Answered}, "[permission] deny"},
		{&row.PermissionResolved{Outcome: row.Withdrawn}, "[permission] withdrawn"},
		{&row.QuestionResolved{Answers: map[string][]string{"b": {"2"}, "a": {"1"}}}, "[question] a: 1; b: 2"},
		{&row.Run{Phase: row.RunStarted}, ""},
		{&row.Run{Phase: row.RunFailed, Detail: "no network", Hint: "Try later."}, "[run] failed: no network\n  Try later."},
		{&row.Run{Phase: row.RunCompleted, DurationMs: 1500, Usage: &row.Usage{InputTokens: 3, OutputTokens: 4}}, "[run] completed in 1.5s, 3 tokens in, 4 out"},
		{&row.Compaction{Trigger: "auto", TokensBefore: 9, TokensAfter: 2}, "9 to 2 tokens"},
		{&row.Handoff{From: row.Owner{Executor: "local", Agent: "a"}, To: row.Owner{Executor: "x", Agent: "b", Model: "m"}}, "from a on local to b on x (m)"},
		{&row.Subagent{ChildID: "c", Status: row.ToolRunning, Title: "look"}, "[subagent c] running: look"},
		{&row.Notice{Code: "RETRYING", Title: "Retrying", Text: "in 2 s"}, "[notice] Retrying\n  in 2 s"},
		{&row.Error{Code: "BROKEN"}, "[error] BROKEN"},
		{&row.Session{ID: "secret"}, ""},
		{&row.Opaque{Type: "hologram"}, "[hologram] not understood by this version"},
	}
	var show renderer
	for _, r := range rows {
		got := show.row(row.Row{Body: r.body})
		if r.want == "" && got != "" || !strings.Contains(got, r.want) {
			t.Errorf("%T: %q, want %q", r.body, got, r.want)
		}
	}
	full := renderer{full: true, reasoning: true}
	if got := full.row(row.Row{Body: &row.Tool{Tool: row.ToolWrite, Input: row.ToolInput{Path: "a", Content: "x\x1b"}}}); got != "[write] a\n  x\\x1b" {
		t.Errorf("%q", got)
	}
	if got := full.row(row.Row{Body: &row.Reasoning{Text: "hm"}}); !strings.HasSuffix(got, "\nhm") {
		t.Errorf("%q", got)
	}
}
