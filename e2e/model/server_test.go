package model_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"garcon/e2e/model"

	"github.com/google/go-cmp/cmp"
)

// waitTimeout is how long a test waits for what must come.
const waitTimeout = 10 * time.Second

func waitCtx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

var paths = map[model.Protocol]string{
	model.Anthropic: "/v1/messages",
	model.Chat:      "/v1/chat/completions",
	model.Responses: "/v1/responses",
}

// body is a request of one user message.
func body(p model.Protocol, text string, stream bool) string {
	messages := []any{map[string]any{"role": "user", "content": text}}
	b := map[string]any{"model": "m", "stream": stream, "max_tokens": 100}
	if p == model.Responses {
		b["input"] = messages
	} else {
		b["messages"] = messages
	}
	data, err := json.Marshal(b)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func post(t *testing.T, url, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// dataLines returns the data of the events of a stream.
func dataLines(stream string) []string {
	var out []string
	for line := range strings.SplitSeq(stream, "\n") {
		if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

// joined collects every string under the key in the events.
func joined(t *testing.T, stream, key string) string {
	t.Helper()
	var out strings.Builder
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				if s, ok := inner.(string); ok && k == key {
					out.WriteString(s)
				}
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	for _, line := range dataLines(stream) {
		if line == "[DONE]" {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("event %q: %v", line, err)
		}
		walk(v)
	}
	return out.String()
}

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

func TestGatesHoldAnAnswerBack(t *testing.T) {
	srv := model.Start(t, model.Script{Steps: []model.Step{{
		Wait: "start",
		Blocks: []model.Block{
			{Text: "one two", Chunks: 2, Hold: "middle", HoldAfter: 1},
			{Text: "three", Wait: "last", Chunks: 1},
		},
	}}})
	lines := make(chan string)
	go func() {
		defer close(lines)
		resp, err := http.Post(srv.URL()+paths[model.Chat], "application/json", strings.NewReader(body(model.Chat, "hi", true)))
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		lines <- "headers"
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			if strings.Contains(sc.Text(), `"content":`) {
				lines <- sc.Text()
			}
		}
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if !strings.Contains(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(waitTimeout):
			t.Fatalf("no %q", want)
		}
	}
	if _, err := srv.WaitRequest(waitCtx(t), 1); err != nil {
		t.Fatal(err)
	}
	quiet := func() {
		t.Helper()
		select {
		case got := <-lines:
			t.Fatalf("%q came through a closed gate", got)
		default:
		}
	}
	quiet()
	srv.Open("start")
	next("headers")
	next(`"content":""`)
	next("one")
	quiet()
	srv.Open("middle")
	next("two")
	quiet()
	srv.Open("last")
	next("three")
	for range lines {
	}
}

func TestAClientThatHangsUpIsSeen(t *testing.T) {
	srv := model.Start(t, model.Script{Steps: []model.Step{{Blocks: []model.Block{{Text: "x"}}, End: model.EndStall}}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+paths[model.Anthropic],
		strings.NewReader(body(model.Anthropic, "hi", true)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	r, err := srv.WaitRequest(waitCtx(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Gone():
		t.Fatal("gone before it hung up")
	default:
	}
	cancel()
	for name, ch := range map[string]<-chan struct{}{"gone": r.Gone(), "done": r.Done()} {
		select {
		case <-ch:
		case <-time.After(waitTimeout):
			t.Fatalf("not %s", name)
		}
	}
}

func TestBadEnds(t *testing.T) {
	for _, p := range []model.Protocol{model.Anthropic, model.Chat, model.Responses} {
		for _, tt := range []struct {
			end     model.End
			fail    *model.Fail
			readErr bool
			has     string
		}{
			{model.EndTruncate, nil, false, ""},
			{model.EndCut, nil, true, ""},
			{model.EndReset, nil, true, ""},
			{model.EndError, &model.Fail{Message: "overloaded now"}, false, "overloaded now"},
			{model.EndError, &model.Fail{Message: "overloaded now", Response: true}, false, "overloaded now"},
		} {
			t.Run(string(p)+" "+string(tt.end), func(t *testing.T) {
				srv := model.Start(t, model.Script{Steps: []model.Step{
					{Blocks: []model.Block{{Text: "partial", Chunks: 1}}, End: tt.end, Fail: tt.fail},
				}})
				resp := post(t, srv.URL()+paths[p], body(p, "hi", true))
				data, err := io.ReadAll(resp.Body)
				if (err != nil) != tt.readErr {
					t.Errorf("reading gave %v", err)
				}
				stream := string(data)
				// A reset may throw away what was still on its way.
				if tt.end != model.EndReset && !strings.Contains(stream, "partial") || !strings.Contains(stream, tt.has) {
					t.Errorf("stream is %s", stream)
				}
				for _, good := range []string{"message_stop", "response.completed", "[DONE]", `"finish_reason":"stop"`} {
					if strings.Contains(stream, good) {
						t.Errorf("%s in a stream that ends badly", good)
					}
				}
			})
		}
	}
}

func TestRepliesAreSentAsScripted(t *testing.T) {
	page := "<html>bad gateway</html>"
	srv := model.Start(t, model.Script{
		Steps: []model.Step{
			{Times: 2, Reply: &model.Reply{Status: 429, Type: "rate_limit_error", Message: "slow", Headers: map[string]string{"Retry-After": "7"}}},
			{Reply: &model.Reply{Status: 502, Text: &page, Headers: map[string]string{"Content-Type": "text/html"}}},
			{Reply: &model.Reply{Status: 400, Body: map[string]any{"detail": "no"}}},
		},
		Routes: []model.Route{{Path: "/v1/models", Query: "after_id=b", Reply: model.Reply{Body: map[string]any{"data": nil}}}},
		Models: []string{"a", "b"},
	})
	url := srv.URL() + paths[model.Anthropic]
	for range 2 {
		resp := post(t, url, body(model.Anthropic, "hi", true))
		if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if got := readAll(t, resp.Body); !strings.Contains(got, `"rate_limit_error"`) {
			t.Errorf("body %s", got)
		}
	}
	resp := post(t, url, body(model.Anthropic, "hi", true))
	if got := readAll(t, resp.Body); got != page || resp.StatusCode != 502 || resp.Header.Get("Content-Type") != "text/html" {
		t.Errorf("status %d, body %q", resp.StatusCode, got)
	}
	if got := readAll(t, post(t, url, body(model.Anthropic, "hi", true)).Body); got != `{"detail":"no"}` {
		t.Errorf("body %q", got)
	}
	for path, want := range map[string]string{
		"/v1/models":            `"id":"b"`,
		"/v1/models?after_id=b": `{"data":null}`,
		"/api/hello":            "hello",
	} {
		resp, err := http.Get(srv.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := readAll(t, resp.Body); !strings.Contains(got, want) || resp.StatusCode != 200 {
			t.Errorf("%s: status %d, body %s", path, resp.StatusCode, got)
		}
		_ = resp.Body.Close()
	}
	head, err := http.Head(srv.URL() + "/")
	if err != nil || head.StatusCode != 200 {
		t.Errorf("HEAD /: %v, %v", head, err)
	}
	_ = head.Body.Close()
}

func TestKeyIsChecked(t *testing.T) {
	srv := model.Start(t, model.Script{Key: "k1", Default: &model.Step{Blocks: []model.Block{{Text: "ok"}}}})
	url := srv.URL() + paths[model.Chat]
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{nil, 401},
		{[]string{"X-Api-Key", "k1"}, 200},
		{[]string{"Authorization", "Bearer k1"}, 200},
		{[]string{"Authorization", "Bearer k2"}, 401},
	} {
		if resp := post(t, url, body(model.Chat, "hi", true), tt.header...); resp.StatusCode != tt.want {
			t.Errorf("%q: status %d, want %d", tt.header, resp.StatusCode, tt.want)
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

func TestAnswerFunction(t *testing.T) {
	srv := model.Start(t, model.Script{Steps: []model.Step{{Times: -1, Answer: func(r *model.Request) model.Step {
		return model.Step{Blocks: []model.Block{{Text: strings.ToUpper(r.LastUser)}}}
	}}}})
	got := readAll(t, post(t, srv.URL()+paths[model.Responses], body(model.Responses, "shout", false)).Body)
	if !strings.Contains(got, `"SHOUT"`) {
		t.Errorf("answer %s", got)
	}
	if err := srv.Push(model.Step{End: "sometime"}); err == nil {
		t.Error("a bad step was pushed")
	}
}

func TestCloseEndsWhatWaits(t *testing.T) {
	srv, err := model.New(model.Script{Steps: []model.Step{{Wait: "never"}}})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Post(srv.URL()+paths[model.Chat], "application/json", strings.NewReader(body(model.Chat, "hi", true)))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	r, err := srv.WaitRequest(waitCtx(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
	}
	<-r.Done()
	if err := <-failed; err == nil {
		t.Error("a closed server answered")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := srv.WaitRequest(ctx, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for what never comes gave %v", err)
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

func TestPushedStepsAnswer(t *testing.T) {
	srv := model.Start(t, model.Script{})
	if err := srv.Push(model.Step{Blocks: []model.Block{{Text: "late", DelayMs: 1, Chunks: 4}}}); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, post(t, srv.URL()+paths[model.Chat], body(model.Chat, "hi", true)).Body)
	if joined(t, got, "content") != "late" || len(srv.Unused()) != 0 {
		t.Errorf("stream %s, unused %q", got, srv.Unused())
	}
}
