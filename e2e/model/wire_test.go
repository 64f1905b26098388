package model_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"garcon/e2e/model"
)

func TestStreamSpellsTheStepInEveryProtocol(t *testing.T) {
	step := model.Step{
		Times: -1,
		Blocks: []model.Block{
			{Thinking: "let me see", Chunks: 3},
			{Text: "Grüße, 世界", Chunks: 5},
			{Tool: &model.Tool{Name: "Bash", Input: map[string]any{"command": "ls"}}},
		},
		Usage: &model.Usage{Input: 10, Output: 5, CacheRead: 3, Reasoning: 2},
	}
	for _, tt := range []struct {
		protocol                       model.Protocol
		textKey, thinkKey, argumentKey string
		end                            []string
	}{
		{model.Anthropic, "", "thinking", "partial_json", []string{`"stop_reason":"tool_use"`, `{"type":"message_stop"}`}},
		{model.Chat, "content", "reasoning_content", "arguments", []string{`"finish_reason":"tool_calls"`, `"prompt_tokens":13`, "[DONE]"}},
		{model.Responses, "", "", "", []string{`"input_tokens":13`, `"response.completed"`, `"arguments":"{\"command\":\"ls\"}"`}},
	} {
		t.Run(string(tt.protocol), func(t *testing.T) {
			srv := model.Start(t, model.Script{Steps: []model.Step{step}})
			stream := readAll(t, post(t, srv.URL()+paths[tt.protocol], body(tt.protocol, "hi", true)).Body)
			if tt.thinkKey != "" {
				if got := joined(t, stream, tt.thinkKey); !strings.HasPrefix(got, "let me see") {
					t.Errorf("thinking is %q", got)
				}
			}
			if tt.textKey != "" {
				if got := joined(t, stream, tt.textKey); got != "Grüße, 世界" {
					t.Errorf("text is %q", got)
				}
			}
			if tt.argumentKey != "" {
				if got := joined(t, stream, tt.argumentKey); got != `{"command":"ls"}` {
					t.Errorf("arguments are %q", got)
				}
			}
			for _, want := range tt.end {
				if !strings.Contains(stream, want) {
					t.Errorf("no %s in the stream:\n%s", want, stream)
				}
			}
			whole := readAll(t, post(t, srv.URL()+paths[tt.protocol], body(tt.protocol, "hi", false)).Body)
			if !json.Valid([]byte(whole)) || !strings.Contains(whole, "Grüße, 世界") || !strings.Contains(whole, "let me see") {
				t.Errorf("without stream: %s", whole)
			}
		})
	}
}

func TestToolCallsAreSpelled(t *testing.T) {
	step := model.Step{Times: -1, Blocks: []model.Block{
		{Tool: &model.Tool{Name: "apply_patch", Input: "*** Begin Patch"}},
		{Tool: &model.Tool{ID: "mine", Name: "spawn", Namespace: "agents"}},
	}}
	for p, want := range map[model.Protocol][]string{
		model.Anthropic: {`"name":"apply_patch"`, `"id":"mine"`, `"stop_reason":"tool_use"`},
		model.Chat:      {`"name":"apply_patch"`, `"id":"mine"`, `"index":1`, `"finish_reason":"tool_calls"`},
		model.Responses: {`"type":"custom_tool_call"`, `"input":"*** Begin Patch"`, `"namespace":"agents"`, `"call_id":"mine"`, `"end_turn":false`},
	} {
		srv := model.Start(t, model.Script{Steps: []model.Step{step}})
		got := readAll(t, post(t, srv.URL()+paths[p], body(p, "hi", true)).Body)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %s in %s", p, w, got)
			}
		}
		if whole := readAll(t, post(t, srv.URL()+paths[p], body(p, "hi", false)).Body); !json.Valid([]byte(whole)) || !strings.Contains(whole, "mine") {
			t.Errorf("%s: without stream %s", p, whole)
		}
	}
}

func TestWire(t *testing.T) {
	text := model.Block{Text: "a😀b", Chunks: 1}
	get := func(t *testing.T, p model.Protocol, step model.Step, header ...string) (string, *http.Response) {
		t.Helper()
		srv := model.Start(t, model.Script{Steps: []model.Step{step}})
		resp := post(t, srv.URL()+paths[p], body(p, "hi", true), header...)
		return readAll(t, resp.Body), resp
	}
	t.Run("line ends and mark", func(t *testing.T) {
		got, _ := get(t, model.Chat, model.Step{Blocks: []model.Block{{Comment: "alive", Repeat: 2}, text}, Wire: model.Wire{LineEnd: "\r\n", BOM: true, NoDone: true}})
		if !strings.HasPrefix(got, "\ufeffdata: ") || !strings.Contains(got, "\r\n\r\n: alive\r\n\r\n: alive\r\n\r\ndata: ") || strings.Contains(got, "[DONE]") {
			t.Errorf("stream %q", got)
		}
	})
	t.Run("dripping one byte at a time", func(t *testing.T) {
		got, _ := get(t, model.Chat, model.Step{Blocks: []model.Block{text}, Wire: model.Wire{Drip: 1}})
		if joined(t, got, "content") != "a😀b" {
			t.Errorf("stream %q", got)
		}
	})
	t.Run("gzip", func(t *testing.T) {
		got, resp := get(t, model.Chat, model.Step{Blocks: []model.Block{text}, Wire: model.Wire{Gzip: true}}, "Accept-Encoding", "gzip")
		if resp.Header.Get("Content-Encoding") != "gzip" {
			t.Fatal("not compressed")
		}
		zr, err := gzip.NewReader(bytes.NewReader([]byte(got)))
		if err != nil {
			t.Fatal(err)
		}
		if plain := readAll(t, zr); joined(t, plain, "content") != "a😀b" {
			t.Errorf("stream %q", plain)
		}
	})
	t.Run("json instead of a stream", func(t *testing.T) {
		for p := range paths {
			got, resp := get(t, p, model.Step{Blocks: []model.Block{text}, Wire: model.Wire{JSON: true}})
			if !json.Valid([]byte(got)) || !strings.Contains(got, "a😀b") || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %q", p, got)
			}
		}
	})
	t.Run("spellings of reasoning", func(t *testing.T) {
		for spelling, want := range map[string]string{
			"reasoning_content": `"reasoning_content":"hmm"`,
			"reasoning":         `"reasoning":"hmm"`,
			"both":              `"reasoning":"hmm","reasoning_content":"hmm"`,
			"reasoning_details": `{"text":"hmm","type":"reasoning.text"}`,
			"parts":             `{"thinking":[{"text":"hmm","type":"text"}],"type":"thinking"}`,
			"think":             `"content":"<think>hmm</think>"`,
		} {
			got, _ := get(t, model.Chat, model.Step{Blocks: []model.Block{{Thinking: "hmm", Chunks: 1}}, Wire: model.Wire{Reasoning: spelling}})
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", spelling, want, got)
			}
		}
	})
	t.Run("places of usage", func(t *testing.T) {
		for place, n := range map[string]int{"": 1, "last": 1, "finish": 1, "every": 3, "null": 0, "none": 0} {
			got, _ := get(t, model.Chat, model.Step{Blocks: []model.Block{{Text: "x", Chunks: 1}}, Wire: model.Wire{Usage: place}})
			if c := strings.Count(got, `"prompt_tokens":42`); c != n {
				t.Errorf("%q: usage came %d times, want %d", place, c, n)
			}
		}
	})
}
