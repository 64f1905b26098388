package cli

import (
	"strings"
	"testing"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
)

func someChats(home string) api.ChatList {
	return api.ChatList{Chats: []api.Chat{
		{
			ID: "1767225600000000", Title: "Fix \x1b]0;x\x07 the\ttest", Agent: "claude", ProjectPath: home + "/src", LastActivity: time.Now().UnixMilli(),
			State: api.State{Phase: api.PhaseWaiting, Pending: 1, Queued: 2, QueuePaused: true}, Tags: []string{"a", "b"}, Pinned: true,
		},
		{ID: "1767225600000001", Title: strings.Repeat("日本語", 60), Agent: "demo", ProjectPath: "/srv", State: api.State{Phase: api.PhaseIdle}, Archived: true},
	}}
}

func TestListPiped(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsList, someChats("/home/u"))
	got := f.run("chats", "list", "--all", "--tag", "a b")
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", got.stdout)
	}
	cells := strings.Split(lines[0], "\t")
	want := []string{"1767225600000000", "waiting for you, 2 queued (paused)", "claude", `Fix \x1b]0;x\x07 the test`, "/home/u/src", cells[5], "a,b", "pinned"}
	if strings.Join(cells, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", cells, want)
	}
	if _, err := time.Parse(time.RFC3339, cells[5]); err != nil {
		t.Error(err)
	}
	if q := f.requests(api.OpChatsList)[0].query; q != "archived=true&tag=a+b" {
		t.Errorf("query %s", q)
	}
}

func TestListOnATerminal(t *testing.T) {
	f := newFake(t)
	e, stdout, stderr := testEnv(t, "")
	f.answer(api.OpChatsList, someChats(e.Home))
	e.StdoutTerminal, e.Width = true, 130
	got := f.runEnv(t.Context(), e, stdout, stderr, "chats")
	got.want(t, ExitOK, "~/src", "")
	lines := strings.Split(got.stdout, "\n")
	if !strings.HasPrefix(lines[0], "ID                STATE") || !strings.Contains(lines[1], "now") || !strings.HasSuffix(lines[0], "TAGS  MARKS") {
		t.Errorf("%s", got.stdout)
	}
	if !strings.Contains(lines[2], "…") || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("%s", got.stdout)
	}
}

func TestEmptyListSaysWhatToDo(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsList, api.ChatList{})
	got := f.run("chats")
	got.want(t, ExitOK, "", "garcon chats start --config-dir "+f.root+" --runtime controller MESSAGE")
	if got.stdout != "" {
		t.Errorf("standard output %q", got.stdout)
	}
}

func TestUpdates(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want api.UpdateRequest
	}{
		{[]string{"rename", "1", "New", "title"}, api.UpdateRequest{Title: new("New title")}},
		{[]string{"pin", "1"}, api.UpdateRequest{Pinned: new(true)}},
		{[]string{"unpin", "1"}, api.UpdateRequest{Pinned: new(false)}},
		{[]string{"archive", "1"}, api.UpdateRequest{Archived: new(true)}},
		{[]string{"unarchive", "1"}, api.UpdateRequest{Archived: new(false)}},
		{[]string{"tags", "1", "--add", "c", "--add", "a", "--remove", "b"}, api.UpdateRequest{Tags: &[]string{"a", "c"}}},
		{[]string{"tags", "1", "--set", "x,y", "--set", "z"}, api.UpdateRequest{Tags: &[]string{"x,y", "z"}}},
		{[]string{"tags", "1", "--clear"}, api.UpdateRequest{Tags: &[]string{}}},
	} {
		f := newFake(t)
		f.answer(api.OpChatsShow, api.Chat{ID: "1", Tags: []string{"a", "b"}})
		f.answer(api.OpChatsUpdate, api.Chat{ID: "1", Title: "T"})
		f.run(append([]string{"chats"}, tc.args...)...).want(t, ExitOK, "1\tT\n", "")
		var got api.UpdateRequest
		f.body(api.OpChatsUpdate, &got)
		if g, w := mustJSON(t, got), mustJSON(t, tc.want); g != w {
			t.Errorf("%v: %s, want %s", tc.args, g, w)
		}
	}
	f := newFake(t)
	f.answer(api.OpChatsShow, api.Chat{ID: "1", Tags: []string{"a", "b"}})
	f.run("chats", "tags", "1").want(t, ExitOK, "a\nb\n", "")
	f.run("chats", "tags", "1", "--set", "x", "--add", "y").want(t, ExitUsage, "", "--set excludes")
}

func TestDeleteAsksOnATerminal(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsShow, api.Chat{ID: "1", Title: "Work"})
	f.answer(api.OpChatsDelete, api.Deleted{ChatID: "1"})
	e, stdout, stderr := testEnv(t, "n\n")
	e.StdinFD = 0
	f.runEnv(t.Context(), e, stdout, stderr, "chats", "delete", "1").want(t, ExitInterrupted, "", "nothing was deleted")
	if n := len(f.requests(api.OpChatsDelete)); n != 0 {
		t.Fatal("the chat was deleted")
	}
	e, stdout, stderr = testEnv(t, "y\n")
	e.StdinFD = 0
	f.runEnv(t.Context(), e, stdout, stderr, "chats", "delete", "1").want(t, ExitOK, "deleted 1\n", "Work")
	f.run("chats", "delete", "1", "2").want(t, ExitOK, "deleted 1\ndeleted 2\n", "")
}

func TestQueue(t *testing.T) {
	control := api.Control{ChatID: "1", Queue: api.Queue{
		Paused: true, Reason: "you paused it",
		Entries: []api.QueueEntry{{ID: "e1", TurnID: "t1", Prompt: "one\ntwo", Revision: 3}, {ID: "e2", TurnID: "t2", Prompt: "three", Revision: 1}},
	}}
	for _, tc := range []struct {
		args []string
		op   api.OperationID
		body string
	}{
		{[]string{"edit", "1", "e1", "new", "text"}, api.OpQueueUpdate, `{"revision":3,"prompt":"new text"}`},
		{[]string{"edit", "--revision", "2", "1", "e1", "new"}, api.OpQueueUpdate, `{"revision":2,"prompt":"new"}`},
		{[]string{"order", "1", "e2"}, api.OpQueueOrder, `{"entryIds":["e2","e1"]}`},
		{[]string{"remove", "1", "e1"}, api.OpQueueRemove, ""},
		{[]string{"pause", "1"}, api.OpQueuePause, ""},
		{[]string{"resume", "1"}, api.OpQueueResume, ""},
	} {
		f := newFake(t)
		f.answer(api.OpChatsControl, control)
		f.answer(tc.op, control)
		got := f.run(append([]string{"chats", "queue"}, tc.args...)...)
		got.want(t, ExitOK, "e1\tt1\t3\t\tone two\ne2\tt2\t1\t\tthree\n", "chats queue resume 1")
		if body := string(f.requests(tc.op)[0].body); body != tc.body {
			t.Errorf("%v: %s, want %s", tc.args, body, tc.body)
		}
	}
	f := newFake(t)
	f.answer(api.OpChatsControl, control)
	f.run("chats", "queue", "1").want(t, ExitOK, "e1\tt1", "")
	f.run("chats", "queue", "edit", "1", "e9", "x").want(t, ExitUnavailable, "", "no message e9")
	f.answer(api.OpChatsSubmit, api.Accepted{ChatID: "1", TurnID: "t3", Disposition: api.Queued, EntryID: "e3"})
	f.run("chats", "queue", "add", "1", "more").want(t, ExitOK, "queued: yes", "")
	f.answer(api.OpQueueSend, api.Accepted{ChatID: "1", TurnID: "t9", Disposition: api.Steered})
	f.run("chats", "queue", "send", "--interrupt", "1", "e2").want(t, ExitOK, "turn id: t9", "")
	if body := string(f.requests(api.OpQueueSend)[0].body); body != `{"how":"interrupt"}` {
		t.Errorf("%s", body)
	}
}

func TestStop(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsStop, api.Stopped{Stopped: true, TurnID: "t1", QueuePaused: true}, api.Stopped{})
	f.run("chats", "stop", "1").want(t, ExitOK, "stopped turn t1", "chats queue resume 1")
	f.run("chats", "stop", "1").want(t, ExitOK, "nothing was running", "")
}

func TestStatus(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsShow, api.Chat{ID: "1", Title: "T", Agent: "demo", State: api.State{Phase: api.PhaseWaiting, Pending: 1}})
	f.answer(api.OpChatsControl, api.Control{ChatID: "1", Phase: api.PhaseWaiting, TurnID: "t1", Pending: []api.Pending{permission(t, "p1"), question(t, "q1")}})
	got := f.run("chats", "status", "1")
	got.want(t, ExitOK, "state: waiting for you\nturn id: t1\n", "")
	got.want(t, ExitOK, "chats decide 1 --occurrence p1 --allow", "")
	got.want(t, ExitOK, "chats answer 1 --occurrence q1", "")
	var doc statusDocument
	f.run("chats", "status", "--json", "1").document(t, &doc)
	if doc.Control.TurnID != "t1" || doc.Chat.Title != "T" {
		t.Errorf("%+v", doc)
	}
}

func catalog() api.AgentList {
	return api.AgentList{ExecutorID: "local", Agents: []api.Agent{
		{
			Manifest: exec.Manifest{
				ID: "demo", Label: "Demo", Efforts: []string{"low", "high"}, DefaultMode: "ask",
				Modes: []exec.Mode{{ID: "ask", Label: "Ask"}, {ID: "bypass", Label: "Bypass", Bypass: true, Description: "Asks for nothing."}},
			},
			Auth: &exec.AuthStatus{Installed: true, Version: "1.2", SignedIn: "yes"},
		},
		{
			Manifest: exec.Manifest{ID: "claude", Label: "Claude Code"},
			Auth:     &exec.AuthStatus{SignedIn: "unknown", Problem: "Claude Code is missing.", Install: "npm i -g x"},
		},
	}}
}

func TestCatalogs(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpAgentsList, catalog())
	f.answer(api.OpModelsList, api.ModelList{Agent: "demo", Models: []exec.Model{{ID: "m1", Label: "One", ContextWindow: 5, Default: true, Efforts: []string{"high"}}, {ID: "m2"}}})
	f.run("agents").want(t, ExitOK, "demo\tDemo\tyes\t1.2\tyes\t\nclaude\tClaude Code\tno\t\tunknown\tClaude Code is missing. Install it: npm i -g x\n", "")
	f.run("permissions", "--agent", "demo").want(t, ExitOK, "demo\task\tAsk\tdefault\t\ndemo\tbypass\tBypass\t\tAsks for nothing.\n", "")
	f.run("efforts", "list", "--agent", "demo").want(t, ExitOK, "demo\tlow\ndemo\thigh\n", "")
	f.run("efforts", "list", "--agent", "demo", "--model", "m1").want(t, ExitOK, "demo\thigh\n", "")
	f.run("efforts", "list", "--agent", "demo", "--model", "m9").want(t, ExitUsage, "", "no model m9")
	f.run("efforts", "list", "--model", "m1").want(t, ExitUsage, "", "--agent")
	f.run("models", "--agent", "demo").want(t, ExitOK, "demo\tm1\tOne\t5\thigh\tdefault\ndemo\tm2\t\t\t\t\n", "")
	f.run("permissions", "--agent", "nobody").want(t, ExitUsage, "", "no agent nobody")
	var doc modelsDocument
	f.run("models", "--json").document(t, &doc)
	if len(doc.Models) != 4 || doc.Models[2].Agent != "claude" {
		t.Errorf("%+v", doc)
	}
	f.answer(api.OpModelsList, api.NewError(api.Code(exec.CodeAgentMissing), "not installed", ""))
	f.run("models").want(t, ExitOK, "", "claude: not installed")
	f.run("models", "--agent", "claude").want(t, ExitUnavailable, "", "not installed")
}

func TestCatalogOfAChat(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsShow, api.Chat{ID: "1", ExecutorID: "9b2d", Agent: "demo", ProjectPath: "/srv/x", ProviderID: "p"})
	f.answer(api.OpModelsList, api.ModelList{})
	f.run("models", "--chat", "1").want(t, ExitOK, "", "no models")
	seen := f.requests(api.OpModelsList)[0]
	if seen.query != "executor=9b2d&project=%2Fsrv%2Fx&provider=p" || !strings.HasSuffix(seen.path, "/agents/demo/models") {
		t.Errorf("asked at %s?%s", seen.path, seen.query)
	}
	f.run("models", "--chat", "1", "--agent", "claude").want(t, ExitUsage, "", "is demo, not claude")
	f.run("models", "--chat", "1", "--executor", "x").want(t, ExitUsage, "", "together")
}

func TestProviders(t *testing.T) {
	const secret = "sk-canary-4711"
	f := newFake(t)
	f.answer(api.OpProvidersAdd, api.Provider{ID: "p1", Label: "Work", HasKey: true})
	add := []string{"providers", "add", "--label", "Work", "--protocol", "anthropic", "--base-url", "https://api.example", "--model", "m,1"}
	got := f.runIn(t.Context(), secret+"\n", append(add, "--key-stdin")...)
	got.want(t, ExitOK, "p1\tWork", "")
	var req api.ProviderRequest
	f.body(api.OpProvidersAdd, &req)
	if req.Key == nil || *req.Key != secret || len(*req.Models) != 1 || *req.Protocol != "anthropic" {
		t.Errorf("%s", mustJSON(t, req))
	}
	if strings.Contains(got.stdout+got.stderr, secret) {
		t.Error("the key is printed")
	}

	g := newFake(t)
	g.answer(api.OpProvidersUpdate, api.Provider{ID: "p1"})
	e, stdout, stderr := testEnv(t, "")
	e.Getenv = func(name string) string { return map[string]string{"MY_KEY": secret}[name] }
	g.runEnv(t.Context(), e, stdout, stderr, "providers", "update", "p1", "--key-env", "MY_KEY").want(t, ExitOK, "p1", "has no key")
	if body := string(g.requests(api.OpProvidersUpdate)[0].body); body != `{"key":"`+secret+`"}` {
		t.Errorf("%s", body)
	}
	g.run("providers", "update", "p1", "--key-env", "UNSET").want(t, ExitUsage, "", "UNSET is not set")
	g.run("providers", "add", "--protocol", "anthropic", "--base-url", "nonsense").want(t, ExitUsage, "", "no address")
	g.answer(api.OpProvidersAdd, api.Provider{ID: "p2"})
	g.run("providers", "add", "--protocol", "openai-chat", "--base-url", "http://127.0.0.1:11434/v1").want(t, ExitOK, "p2", "has no key")
	if body := string(g.requests(api.OpProvidersAdd)[0].body); body != `{"label":"127.0.0.1:11434","protocol":"openai-chat","baseUrl":"http://127.0.0.1:11434/v1"}` {
		t.Errorf("%s", body)
	}
	g.answer(api.OpProvidersTest, api.ProviderTest{Error: api.NewError("CREDENTIALS_REFUSED", "the key was refused", "Check it.")})
	g.run("providers", "test", "p1").want(t, ExitUnavailable, "", "does not work: the key was refused")
	g.answer(api.OpProvidersTest, api.ProviderTest{OK: true, Models: []exec.Model{{ID: "m"}}})
	g.run("providers", "test", "p1").want(t, ExitOK, "m\t\n", "")
	g.answer(api.OpProvidersRemove, struct{}{})
	g.run("providers", "remove", "p1", "p2").want(t, ExitOK, "removed p1\nremoved p2\n", "")
}

// A key in an argument would be visible to every user of the machine.
func TestNoFlagTakesAKey(t *testing.T) {
	runCLI(t, "providers", "add", "--key", "sk-x").want(t, ExitUsage, "", "unknown flag --key")
}

func TestDoctor(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpDoctor, api.Doctor{Checks: []api.Check{{Name: "claude", State: api.CheckWarning, Text: "not installed", Hint: "npm i"}}})
	f.run("doctor").want(t, ExitOK, "warning\tclaude\tnot installed\tnpm i\n", "")
	f.answer(api.OpDoctor, api.Doctor{Checks: []api.Check{{Name: "ledger", State: api.CheckProblem, Text: "damaged"}}})
	got := f.run("doctor", "--json")
	got.want(t, ExitFailed, `"problem"`, "1 of 3 checks")
	var doc api.Doctor
	got.document(t, &doc)
	f.server.Close()
	f.run("doctor").want(t, ExitFailed, "problem\truntime\tcannot reach", "")
}
