package model_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"garcon/e2e/model"

	"github.com/google/go-cmp/cmp"
)

func TestStepsAreTakenInOrderAndByMatch(t *testing.T) {
	yes := true
	srv := model.Start(t, model.Script{Steps: []model.Step{
		{Name: "green", Match: &model.Match{LastUser: "green"}, Times: -1, Blocks: []model.Block{{Text: "G"}}},
		{Name: "first", Blocks: []model.Block{{Text: "1"}}},
		{Name: "twice", Times: 2, Blocks: []model.Block{{Text: "2"}}},
		{Name: "result", Match: &model.Match{HasToolResult: &yes, ToolResult: "42"}, Blocks: []model.Block{{Text: "R"}}},
		{Name: "header", Match: &model.Match{Header: map[string]string{"X-Who": "me"}}, Blocks: []model.Block{{Text: "H"}}},
	}})
	ask := func(text string, header ...string) {
		t.Helper()
		post(t, srv.URL()+paths[model.Chat], body(model.Chat, text, true), header...)
	}
	ask("blue")
	ask("a green one")
	ask("blue")
	if got := srv.Unused(); !slices.Equal(got, []string{"twice", "result", "header"}) {
		t.Errorf("unused steps are %q", got)
	}
	ask("blue")
	ask("blue", "X-Who", "it is me")
	post(t, srv.URL()+paths[model.Chat], `{"messages":[{"role":"user","content":"q"},
		{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":"it is 42"}]}`)
	refused := post(t, srv.URL()+paths[model.Chat], body(model.Chat, "nothing left", true))
	if refused.StatusCode != http.StatusBadRequest {
		t.Errorf("a request without a step got status %d", refused.StatusCode)
	}
	var steps []string
	for _, r := range srv.Requests() {
		steps = append(steps, r.Step())
	}
	want := []string{"first", "green", "twice", "twice", "header", "result", ""}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := srv.Unused(); len(got) > 0 {
		t.Errorf("unused steps are %q", got)
	}
}

func TestAuxiliaryCallsAreRecognisedAndAnswered(t *testing.T) {
	srv := model.Start(t, model.Script{Steps: []model.Step{{Blocks: []model.Block{{Text: "main"}}}}})
	tools := `"tools":[{"name":"Bash","input_schema":{}}]`
	for _, tt := range []struct {
		name, path, body string
		header           []string
		call             model.Call
		answer           string
	}{
		{
			"claude title", "/v1/messages?beta=true",
			`{"tools":[],"system":[{"type":"text","text":"You are naming a coding session."}],"messages":[{"role":"user","content":"<session>x</session>"}]}`,
			[]string{"User-Agent", "claude-cli/2.1.332 (external, sdk-cli)"},
			model.CallTitle, `{\"title\":\"Scripted title\"}`,
		},
		{
			"claude compaction", "/v1/messages",
			`{` + tools + `,"messages":[{"role":"user","content":"x"},{"role":"user","content":[{"type":"text","text":"CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."}]},{"role":"system","content":"env"}]}`,
			[]string{"User-Agent", "claude-cli/2.1.332"},
			model.CallCompaction, "<summary>Scripted summary.",
		},
		{
			"claude subagent", "/v1/messages", `{` + tools + `,"messages":[{"role":"user","content":"sub"}]}`,
			[]string{"X-Claude-Code-Agent-Id", "a1"},
			model.CallSubagent, "Scripted report.",
		},
		{
			"claude probe", "/v1/messages", `{"max_tokens":1,"messages":[{"role":"user","content":"Hi"}]}`,
			nil, model.CallProbe, "Scripted answer.",
		},
		{
			"droid title", "/v1/responses",
			`{"tools":[],"instructions":"You are Droid.\nYou are a helper that generates concise session titles for a session picker.","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}`,
			nil, model.CallTitle, "Scripted title",
		},
		{
			"opencode title", "/v1/chat/completions",
			`{"messages":[{"role":"system","content":"You are a title generator. You output ONLY a thread title."},{"role":"user","content":"x"}]}`,
			nil, model.CallTitle, "Scripted title",
		},
		{
			"codex compaction", "/v1/responses",
			`{"tools":[{"type":"function","name":"exec_command"}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"You are performing a CONTEXT CHECKPOINT COMPACTION. Create a summary."}]}]}`,
			nil, model.CallCompaction, "Scripted summary.",
		},
		{
			"pi summary", "/v1/chat/completions",
			`{"messages":[{"role":"system","content":"You are a context summarization assistant."},{"role":"user","content":"x"}]}`,
			nil, model.CallCompaction, "Scripted summary.",
		},
		{
			"other call of a tool agent", "/v1/messages", `{"max_tokens":50,"messages":[{"role":"user","content":"x"}]}`,
			[]string{"User-Agent", "claude-cli/2.1.332"},
			model.CallQuery, "Scripted answer.",
		},
		{
			"garcon title", "/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"Name this conversation.\n\nUser:\nhi"}]}]}`,
			[]string{"User-Agent", "garcon"},
			model.CallTitle, "Scripted title",
		},
		{
			"garcon compaction", "/v1/chat/completions",
			`{"stream":true,"messages":[{"role":"system","content":"You summarize conversations so that they can be continued from the summary alone."},{"role":"user","content":"x"}]}`,
			[]string{"User-Agent", "garcon"},
			model.CallCompaction, "Scripted summary.",
		},
		{
			"garcon query", "/v1/chat/completions", `{"messages":[{"role":"user","content":"refine"}]}`,
			[]string{"User-Agent", "garcon"},
			model.CallQuery, "Scripted answer.",
		},
		{"nothing asked", "/v1/messages", `{}`, nil, model.CallProbe, "field required"},
		{"count", "/v1/messages/count_tokens", `{"messages":[]}`, nil, model.CallCount, `{"input_tokens":100}`},
		{
			"plain chat without tools", "/v1/messages", `{"messages":[{"role":"user","content":"x"}]}`,
			nil, model.CallMain, `"main"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := readAll(t, post(t, srv.URL()+tt.path, tt.body, tt.header...).Body)
			requests := srv.Requests()
			if got := requests[len(requests)-1].Call; got != tt.call {
				t.Errorf("the call is %q, want %q", got, tt.call)
			}
			if joined := answer + joined(t, answer, "content"); !strings.Contains(joined, tt.answer) {
				t.Errorf("no %s in the answer %s", tt.answer, answer)
			}
		})
	}
}

func TestToolRoundsAreUnderstood(t *testing.T) {
	for p, raw := range map[model.Protocol]string{
		model.Anthropic: `{"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>x</system-reminder>"},{"type":"text","text":"run it"},{"type":"image","source":{}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"it is 42"}]}]},
			{"role":"system","content":"env"}]}`,
		model.Chat: `{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"run it"},{"type":"image_url","image_url":{"url":"data:"}}]},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"Bash","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"it is 42"}]}`,
		model.Responses: `{"input":[{"role":"developer","content":"s"},{"type":"message","role":"user","content":[{"type":"input_text","text":"run it"},{"type":"input_image","image_url":"data:"}]},
			{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"Bash","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"it is 42"}]}`,
	} {
		t.Run(string(p), func(t *testing.T) {
			yes, no := true, false
			srv := model.Start(t, model.Script{Steps: []model.Step{
				{Name: "before", Match: &model.Match{HasToolResult: &no}},
				{Name: "other", Match: &model.Match{ToolResult: "43"}},
				{Name: "after", Match: &model.Match{HasToolResult: &yes, ToolResult: "is 42", LastUser: "run it"}, Blocks: []model.Block{{Text: "done"}}},
			}})
			if got := readAll(t, post(t, srv.URL()+paths[p], raw).Body); !strings.Contains(got, "done") {
				t.Errorf("answer %s", got)
			}
			calls := srv.Calls(model.CallMain)
			if len(calls) != 1 || calls[0].Step() != "after" || calls[0].LastUser != "run it" || calls[0].Messages[0].Images != 1 {
				t.Fatalf("calls %+v", calls[0])
			}
			tools := 0
			for _, m := range calls[0].Messages {
				tools += len(m.ToolCalls)
			}
			if tools != 1 {
				t.Errorf("messages %+v", calls[0].Messages)
			}
		})
	}
}
