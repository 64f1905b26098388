package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

func TestCanonicalTools(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		tool        row.ToolName
		title       string
		want        row.ToolInput
	}{
		{
			"Bash", `{"command":"ls","description":"List","timeout":5000,"run_in_background":true}`, row.ToolBash, "List",
			row.ToolInput{Command: "ls", Description: "List", TimeoutMs: 5000, Background: true},
		},
		{"Bash", `{"command":"\n\n  make test\nmake more"}`, row.ToolBash, "make test", row.ToolInput{Command: "\n\n  make test\nmake more"}},
		{"Read", `{"file_path":"/p/a/b.go","offset":10,"limit":20}`, row.ToolRead, "a/b.go", row.ToolInput{Path: "/p/a/b.go", Offset: 10, Limit: 20}},
		{"Read", `{"file_path":"/px/b.go"}`, row.ToolRead, "/px/b.go", row.ToolInput{Path: "/px/b.go"}},
		{"Write", `{"file_path":"/p/x","content":"c"}`, row.ToolWrite, "x", row.ToolInput{Path: "/p/x", Content: "c"}},
		{
			"Edit", `{"file_path":"/p/x","old_string":"a","new_string":"b","replace_all":true}`, row.ToolEdit, "x",
			row.ToolInput{Path: "/p/x", Edits: []row.Edit{{Old: "a", New: "b", All: true}}},
		},
		{
			"MultiEdit", `{"file_path":"/p/x","edits":[{"old_string":"a","new_string":"b"},{"old_string":"c","new_string":"d"}]}`, row.ToolEdit, "x",
			row.ToolInput{Path: "/p/x", Edits: []row.Edit{{Old: "a", New: "b"}, {Old: "c", New: "d"}}},
		},
		{"NotebookEdit", `{"notebook_path":"/p/n.ipynb","new_source":"1"}`, row.ToolEdit, "n.ipynb", row.ToolInput{Path: "/p/n.ipynb", Edits: []row.Edit{{New: "1"}}}},
		{"Glob", `{"pattern":"**/*.go","path":"/p"}`, row.ToolGlob, "**/*.go", row.ToolInput{Pattern: "**/*.go", Path: "/p"}},
		{"Grep", `{"pattern":"x","glob":"*.go"}`, row.ToolGrep, "x", row.ToolInput{Pattern: "x", Glob: "*.go"}},
		{"LS", `{"path":"/p/d"}`, row.ToolList, "d", row.ToolInput{Path: "/p/d"}},
		{"WebSearch", `{"query":"q"}`, row.ToolWebSearch, "q", row.ToolInput{Query: "q"}},
		{"WebFetch", `{"url":"https://a/b","prompt":"p"}`, row.ToolWebFetch, "https://a/b", row.ToolInput{URL: "https://a/b", Prompt: "p"}},
		{"Task", `{"description":"d","prompt":"p","subagent_type":"s"}`, row.ToolTask, "d", row.ToolInput{Description: "d", Prompt: "p", Agent: "s"}},
		{"ExitPlanMode", `{"plan":"# P"}`, row.ToolPlan, "Plan", row.ToolInput{Plan: "# P"}},
		{"mcp__git_hub__list_prs", `{"n":1}`, row.ToolMCP, "git_hub: list_prs", row.ToolInput{Server: "git_hub", Method: "list_prs", Arguments: json.RawMessage(`{"n":1}`)}},
		{"ReadMcpResourceTool", `{"server":"s","uri":"u://x"}`, row.ToolMCP, "u://x", row.ToolInput{Server: "s", Method: "resources/read", Arguments: json.RawMessage(`{"server":"s","uri":"u://x"}`)}},
		{"Skill", `{"skill":"simplify"}`, row.ToolOther, "simplify", row.ToolInput{Arguments: json.RawMessage(`{"skill":"simplify"}`)}},
		{"BrandNew", `{"a":[1]}`, row.ToolOther, "BrandNew", row.ToolInput{Arguments: json.RawMessage(`{"a":[1]}`)}},
		// What is not understood is kept beside what is.
		{"Bash", `{"command":["ls"],"description":"List"}`, row.ToolBash, "List", row.ToolInput{Description: "List", Arguments: json.RawMessage(`{"command":["ls"],"description":"List"}`)}},
		{"Bash", `"text"`, row.ToolBash, "Bash", row.ToolInput{Arguments: json.RawMessage(`"text"`)}},
		{"Bash", `{broken`, row.ToolBash, "Bash", row.ToolInput{Arguments: json.RawMessage(`"{broken"`)}},
		{"Bash", ``, row.ToolBash, "Bash", row.ToolInput{}},
	} {
		m := newMapper("/p")
		tool, in, title := m.canonical(tt.name, json.RawMessage(tt.input))
		if tool != tt.tool || title != tt.title {
			t.Errorf("%s %s: %s %q", tt.name, tt.input, tool, title)
		}
		if diff := cmp.Diff(tt.want, in); diff != "" {
			t.Errorf("%s %s: %s", tt.name, tt.input, diff)
		}
	}
}

func TestTodoList(t *testing.T) {
	m := newMapper("/p")
	call := func(id, name, input string) []row.Todo {
		return m.call(block{Type: "tool_use", ID: id, Name: name, Input: json.RawMessage(input)}, "").Input.Todos
	}
	result := func(id, structured string, failed bool) {
		m.result(block{Type: "tool_result", ToolUseID: id, IsError: failed}, []byte(structured), "")
	}
	call("a", "TodoWrite", `{"todos":[{"content":"old","status":"completed"}]}`)
	call("b", "TodoWrite", `{"todos":[{"content":"x","status":"in_progress"},{"content":"y","status":"pending"}]}`)
	call("c", "TaskCreate", `{"subject":"z"}`)
	result("c", `{"task":{"id":"7"}}`, false)
	call("d", "TaskCreate", `{"subject":"not made"}`)
	result("d", `"Error: no"`, true)
	got := call("e", "TaskUpdate", `{"taskId":"7","status":"completed","subject":"zz"}`)
	want := []row.Todo{{Text: "x", Status: "in-progress"}, {Text: "y", Status: "pending"}, {Text: "zz", Status: "completed"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// One made before this process, and one that is deleted.
	call("f", "TaskUpdate", `{"taskId":"9","status":"in_progress"}`)
	got = call("g", "TaskUpdate", `{"taskId":"7","status":"deleted"}`)
	if diff := cmp.Diff(append(want[:2:2], row.Todo{Text: "#9", Status: "in-progress"}), got); diff != "" {
		t.Error(diff)
	}
}

func TestDiffs(t *testing.T) {
	if got := created("n", "no newline"); got != "--- /dev/null\n+++ b/n\n@@ -0,0 +1,1 @@\n+no newline\n\\ No newline at end of file\n" {
		t.Errorf("%q", got)
	}
	if got := created("n", ""); got != "" {
		t.Errorf("%q", got)
	}
	long := created("/abs/n", strings.Repeat("line\n", maxDiff/4))
	if len(long) > maxDiff || !strings.Contains(long[len(long)-100:], "cut here") {
		t.Errorf("%d bytes end %q", len(long), long[len(long)-100:])
	}
}

func TestProjectNames(t *testing.T) {
	long := "/home/" + strings.Repeat("very-long-name/", 20) + "é"
	for path, want := range map[string]string{
		"/a/My Proj_ü.v2": "-a-My-Proj---v2",
		"/a/𝄞":            "-a---", // two UTF-16 units
	} {
		if got := projectName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	got := projectName(long)
	if len(got) <= maxProjectName || len(got) > maxProjectName+10 || !strings.HasPrefix(got, "-home-very-long-name-") {
		t.Errorf("%d: %s", len(got), got)
	}
}

func TestEnvironment(t *testing.T) {
	base := []string{
		"PATH=/bin", "HOME=/h", "LANG=C", "SSH_AUTH_SOCK=/s", "HTTPS_PROXY=p", "NODE_EXTRA_CA_CERTS=c", "IS_SANDBOX=1",
		"ANTHROPIC_API_KEY=k", "CLAUDE_CONFIG_DIR=/c", "CLAUDE_CODE_OAUTH_TOKEN=t", "CLAUDE_CODE_USE_BEDROCK=1", "CLAUDE_CODE_MAX_RETRIES=3",
		"CLAUDECODE=1", "CLAUDE_CODE_ENTRYPOINT=cli", "CLAUDE_CODE_SSE_PORT=1", "CLAUDE_CODE_SESSION_ID=x", "CLAUDE_AGENT_SDK_VERSION=1",
		"GARCON_SECRET=s", "GARCON_WORKSPACE=w", "DISABLE_AUTOUPDATER=0", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=0",
	}
	kept := slices.Clone(base)
	got := environ(base)
	slices.Sort(got)
	want := []string{
		"ANTHROPIC_API_KEY=k", "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS=1", "CLAUDE_CODE_MAX_RETRIES=3", "CLAUDE_CODE_OAUTH_TOKEN=t",
		"CLAUDE_CODE_USE_BEDROCK=1", "CLAUDE_CONFIG_DIR=/c", "DISABLE_AUTOUPDATER=1", "HOME=/h", "HTTPS_PROXY=p", "IS_SANDBOX=1", "LANG=C",
		"NODE_EXTRA_CA_CERTS=c", "PATH=/bin", "SSH_AUTH_SOCK=/s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(base, kept) {
		t.Error("the runtime's environment was changed")
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{
		"2.1.197": true, "2.1.332": true, "2.2.0": true, "3.0.0": true, "10.0.0": true,
		"2.1.196": false, "2.0.999": false, "1.9.999": false, "": false, "2.1": false, "x.y.z": false,
	} {
		if supported(version) != want {
			t.Errorf("%q: %t", version, !want)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		sp   spec
		want string
	}{
		{spec{session: "S", model: "opus", effort: "low", mode: "plan"}, "--session-id=S --model=opus --effort=low --permission-mode=plan"},
		{spec{native: nativeRef{session: "R"}}, "--resume=R"},
		{spec{native: nativeRef{fork: &forkRef{source: "A", at: "M", id: "B"}}}, "--resume=A --fork-session --session-id=B --resume-session-at=M"},
		{spec{session: "S", model: "--dangerously-skip-permissions"}, "--session-id=S --model=--dangerously-skip-permissions"},
	} {
		got := strings.Join(tt.sp.args(), " ")
		if !strings.HasSuffix(got, "--include-partial-messages "+tt.want) {
			t.Errorf("%s", got)
		}
	}
}

func TestForkNames(t *testing.T) {
	const a, b, c = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"
	f := forkRef{source: a, at: b, id: c}
	ref, err := parseNative(f.String())
	if err != nil || ref.fork == nil || *ref.fork != f {
		t.Errorf("%+v, %v", ref, err)
	}
	for _, bad := range []string{"fork:", "fork:" + a, "fork:" + a + "::x", "fork:../x::" + c, a + "x", "{" + a + "}", "urn:uuid:" + a, "-" + a[1:]} {
		if ref, err := parseNative(bad); exec.CodeOf(err) != exec.CodeSessionMissing {
			t.Errorf("%q: %+v, %v", bad, ref, err)
		}
	}
}

func TestSuggestions(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"addRules","behavior":"allow","rules":[{"toolName":"Bash","ruleContent":"npm run *"}]}`:                   "Allow commands matching “npm run *” for the rest of this session",
		`{"type":"addRules","behavior":"allow","rules":[{"toolName":"Bash","ruleContent":"ls"},{"toolName":"WebSearch"}]}`: "Allow the command “ls” and every use of WebSearch for the rest of this session",
		`{"type":"addRules","behavior":"allow","rules":[{"toolName":"Read","ruleContent":"//etc/**"}]}`:                    "Allow reading /etc/** for the rest of this session",
		`{"type":"addRules","behavior":"allow","rules":[{"toolName":"WebFetch","ruleContent":"domain:example.com"}]}`:      "Allow WebFetch on example.com for the rest of this session",
		`{"type":"addDirectories","directories":["/a","/b"]}`:                                                              "Allow access to /a and /b for the rest of this session",
		`{"type":"setMode","mode":"acceptEdits"}`:                                                                          "Accept all file edits in the project for the rest of this session",
		`{"type":"setMode","mode":"bypassPermissions"}`:                                                                    "",
		`{"type":"addRules","behavior":"deny","rules":[{"toolName":"Bash"}]}`:                                              "",
		`{"type":"addRules","behavior":"allow","rules":[]}`:                                                                "",
		`{"type":"something new"}`: "",
	} {
		var g suggestion
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			t.Fatal(err)
		}
		if got := g.label(); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestDecisions(t *testing.T) {
	m := newScribe("/p", nil)
	a := m.newAsk("r", toolRequest{
		ToolName: "Bash", Input: json.RawMessage(`{"command":"ls"}`), ToolUseID: "t", DecisionReason: "\x1b[31mcareful\x1b[0m",
		Suggestions: []json.RawMessage{json.RawMessage(`{"type":"addRules","behavior":"allow","rules":[{"toolName":"Bash"}],"destination":"localSettings"}`)},
	})
	if p := a.row.Body.(*row.Permission); p.Reason != "careful" {
		t.Errorf("reason %q", p.Reason)
	}
	for option, want := range map[string]string{
		"allow":           `{"behavior":"allow","updatedInput":{"command":"ls"}}`,
		"allow-session-1": `{"behavior":"allow","updatedInput":{"command":"ls"},"updatedPermissions":[{"type":"addRules","rules":[{"toolName":"Bash"}],"behavior":"allow","destination":"session"}]}`,
		"deny":            `{"behavior":"deny","message":"The user refused this."}`,
		"deny-stop":       `{"behavior":"deny","message":"The user refused this.","interrupt":true}`,
	} {
		d, err := a.decide(exec.Answer{OptionID: option})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(d)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", option, got, err)
		}
	}
	q := m.newAsk("r", toolRequest{ToolName: "AskUserQuestion", Input: json.RawMessage(`{"questions":[{"question":"A?"},{"question":"B?"}],"extra":1}`)})
	d, err := q.decide(exec.Answer{Answers: map[string][]string{"q2": {"x", "y"}}})
	if err != nil || string(d.UpdatedInput) != `{"answers":{"B?":"x, y"},"extra":1,"questions":[{"question":"A?"},{"question":"B?"}]}` {
		t.Errorf("%s, %v", d.UpdatedInput, err)
	}
	if _, err := q.decide(exec.Answer{}); exec.CodeOf(err) != exec.CodeInvalid {
		t.Errorf("no answer: %v", err)
	}
}

func TestPromptTexts(t *testing.T) {
	for text, want := range map[string]string{
		"hello":          "hello",
		"  <b>hello</b>": "  <b>hello</b>",
		"<command-name>/review</command-name>\n<command-message>review</command-message>\n<command-args>a b</command-args>": "/review a b",
		"<command-message>init is running</command-message>\n<command-name>/init</command-name>":                            "/init",
		"<command-name>/compact</command-name>":          "",
		"<local-command-stdout>x</local-command-stdout>": "",
		"<system-reminder>x</system-reminder>":           "",
		"<task-notification>x":                           "",
		"Caveat: x":                                      "",
		"Continue from where you left off.":              "",
		"[Request interrupted by user for tool use]":     "",
	} {
		if got, _ := promptText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestChainLeavesAbandonedBranchesOut(t *testing.T) {
	const session = "44444444-4444-4444-8444-444444444444"
	entries := []string{
		`{"type":"user","uuid":"u1","parentUuid":null,"message":{"role":"user","content":"one"}}`,
		`{"type":"assistant","uuid":"a1","parentUuid":"u1","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"first"}]}}`,
		`{"type":"user","uuid":"u2","parentUuid":"a1","message":{"role":"user","content":"abandoned"}}`,
		`{"type":"assistant","uuid":"a2","parentUuid":"u2","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"abandoned too"}]}}`,
		`{"type":"user","uuid":"u3","parentUuid":"a1","message":{"role":"user","content":"two"}}`,
		`{"type":"user","uuid":"side","parentUuid":"u3","isSidechain":true,"message":{"role":"user","content":"hidden"}}`,
		`{"type":"assistant","uuid":"a3","parentUuid":"u3","message":{"id":"m3","role":"assistant","content":[{"type":"text","text":"second"}],"stop_reason":"end_turn"}}`,
		`{"type":"assistant","uuid":"a3","parentUuid":"u3","message":{"id":"m3","role":"assistant","content":[{"type":"text","text":"written again"}]}}`,
		`{"type":"assistant","uuid":"a4","parentUuid":"damaged","message":{"id":"m4","role":"assistant","content":[{"type":"text","text":"third"}]}}`,
		`{"type":"user","uuid":"torn","parentUuid":"a4","mess`,
	}
	path := filepath.Join(t.TempDir(), session+".jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(entries, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "user \"one\"\nassistant \"first\" final\nuser \"two\"\nassistant \"second\"\nassistant \"third\" final\n"
	if got := Brief(readNative(t, path)); got != want {
		t.Errorf("%s", got)
	}
}

func TestSessionsOfProjectsThatShareADirectory(t *testing.T) {
	home := t.TempDir()
	one, two := filepath.Join(home, "a-b"), filepath.Join(home, "a_b")
	a, err := New(provider.Host{StateDir: t.TempDir(), Env: []string{"HOME=" + home}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := a.(*adapter).transcripts().project(one)
	if dir != a.(*adapter).transcripts().project(two) {
		t.Fatal("the projects do not share a directory")
	}
	for _, d := range []string{one, two, dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i, cwd := range []string{one, two} {
		id := strings.Repeat(string(rune('1'+i)), 8) + "-1111-4111-8111-111111111111"
		line := `{"type":"user","uuid":"u","cwd":"` + cwd + `","message":{"role":"user","content":"in ` + filepath.Base(cwd) + `"}}` + "\n"
		if err := os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Neither of these is a session.
	if err := os.WriteFile(filepath.Join(dir, "notes.jsonl"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "33333333-1111-4111-8111-111111111111.jsonl")); err != nil {
		t.Fatal(err)
	}
	for _, project := range []string{one, two} {
		s, err := a.Facets().History.Sessions(t.Context(), project, 10)
		if err != nil || len(s) != 1 || s[0].Title != "in "+filepath.Base(project) {
			t.Errorf("%s: %+v, %v", project, s, err)
		}
	}
}
