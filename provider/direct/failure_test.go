package direct

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

func reply(status int, body any) model.Step {
	return model.Step{Reply: &model.Reply{Status: status, Body: body}, Times: -1}
}

type obj = map[string]any

func TestRefusalsAreTypedAndNotRepeated(t *testing.T) {
	openAI := func(message, kind, code string) obj {
		return obj{"error": obj{"message": message, "type": kind, "param": nil, "code": code}}
	}
	anthropic := func(kind, message string) obj {
		return obj{"type": "error", "error": obj{"type": kind, "message": message}, "request_id": "req_1"}
	}
	for _, tt := range []struct {
		name     string
		protocol Protocol
		status   int
		body     any
		code     exec.Code
		words    []string
	}{
		{"401", OpenAIChat, 401, openAI("Incorrect API key provided: "+testKey+".", "invalid_request_error", "invalid_api_key"), exec.CodeRefused, []string{"HTTP 401", "Incorrect API key", "API key of the endpoint"}},
		{"401 responses", OpenAIResponses, 401, openAI("bad key", "invalid_request_error", "invalid_api_key"), exec.CodeRefused, nil},
		{"key refused as 400", OpenAIChat, 400, []any{obj{"error": obj{"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}}, exec.CodeRefused, nil},
		{"402", OpenAIChat, 402, obj{"error": obj{"code": 402, "message": "This request requires more credits"}}, exec.CodeQuota, []string{"more credits", "Add credit"}},
		{"403", OpenAIChat, 403, openAI("You may not use this model", "permission", ""), exec.CodeRefused, []string{"HTTP 403"}},
		{"403 for content", OpenAIChat, 403, obj{"error": obj{"code": 403, "message": "x requires moderation. Your input was flagged"}}, exec.CodeContentRefused, nil},
		{"404 model", OpenAIChat, 404, openAI("The model `m1` does not exist", "invalid_request_error", "model_not_found"), exec.CodeUnknownModel, []string{"m1"}},
		{"404 model at Anthropic", Anthropic, 404, anthropic("not_found_error", "model: m1"), exec.CodeUnknownModel, []string{"m1"}},
		{"404 model at Ollama", OpenAIChat, 404, obj{"error": "model 'm1' not found, try pulling it first"}, exec.CodeUnknownModel, []string{"try pulling"}},
		{"404 path", OpenAIChat, 404, obj{"detail": "Not Found"}, exec.CodeUnreachable, []string{"/v1"}},
		{"405", OpenAIChat, 405, obj{"detail": "Method Not Allowed"}, exec.CodeUnreachable, nil},
		{"400 model", OpenAIChat, 400, obj{"error": obj{"message": "x is not a valid model ID", "code": 400}}, exec.CodeUnknownModel, nil},
		{"413", Anthropic, 413, anthropic("request_too_large", "Request exceeds the maximum size"), exec.CodeTooLarge, []string{"attachments"}},
		{"400", OpenAIChat, 400, openAI("Invalid value for messages", "invalid_request_error", ""), exec.CodeInvalid, []string{"Invalid value"}},
		{"422 of FastAPI", OpenAIChat, 422, obj{"detail": []any{obj{"loc": []any{"body", "messages", 0}, "msg": "field required"}}}, exec.CodeInvalid, []string{"messages.0: field required"}},
		{"overflow at OpenAI", OpenAIChat, 400, openAI("This model's maximum context length is 8192 tokens.", "invalid_request_error", "context_length_exceeded"), exec.CodeContextOverflow, []string{"Compact"}},
		{"overflow at Anthropic", Anthropic, 400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), exec.CodeContextOverflow, nil},
		{"overflow at llama.cpp", OpenAIChat, 400, obj{"error": obj{"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}, exec.CodeContextOverflow, nil},
		{"overflow at vLLM", OpenAIChat, 400, obj{"object": "error", "message": "This model's maximum context length is 4096 tokens", "type": "BadRequestError", "param": nil, "code": 400}, exec.CodeContextOverflow, nil},
		{"429 out of quota", OpenAIChat, 429, openAI("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), exec.CodeQuota, []string{"credit"}},
		{"400 out of credit", Anthropic, 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), exec.CodeQuota, nil},
		{"content filter", OpenAIChat, 400, openAI("The response was filtered", "", "content_filter"), exec.CodeContentRefused, nil},
		{"501", OpenAIChat, 501, obj{"error": "no"}, exec.CodeModelError, nil},
		{"204", OpenAIChat, 204, obj{}, exec.CodeModelError, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := model.Start(t, model.Script{Steps: []model.Step{reply(tt.status, tt.body)}})
			r := newRig(t, tt.protocol, baseOf(tt.protocol, srv.URL()), nil)
			rec := r.ask("hi")
			err := rec.failed(t, tt.code, tt.words...)
			rec.expectRows(t)
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("asked %d times", n)
			}
			if err.Dispatched != exec.WasDispatched {
				t.Errorf("dispatched is %q", err.Dispatched)
			}
			if !strings.Contains(err.Detail, "Request id req_scripted_1") {
				t.Errorf("detail is %q", err.Detail)
			}
		})
	}
}

func TestAnthropicKeyAsBearerToken(t *testing.T) {
	srv := model.Start(t, model.Script{Default: &model.Step{Answer: func(r *model.Request) model.Step {
		if r.Header.Get("Authorization") != "Bearer "+testKey {
			return model.Step{Reply: &model.Reply{Status: 401, Message: "no token"}}
		}
		return model.Step{Blocks: []model.Block{text("ok")}}
	}}})
	r := newRig(t, Anthropic, srv.URL(), nil)
	r.ask("hi").expect(t, "assistant(ok) final")
	r.ask("again").expect(t, "assistant(ok) final")
	if n := len(srv.Requests()); n != 3 {
		t.Errorf("asked %d times, want one more only at first", n)
	}
	for _, req := range srv.Requests()[1:] {
		if req.Header.Get("X-Api-Key") != "" {
			t.Error("the key was sent in both headers")
		}
	}
	t.Run("refused both ways", func(t *testing.T) {
		r, srv := scripted(t, Anthropic)
		r.adapter.host.Credentials = keys{"ep": "another key"}
		r.ask("hi").failed(t, exec.CodeRefused)
		if n := len(srv.Requests()); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestNoKey(t *testing.T) {
	r, _ := scripted(t, OpenAIChat)
	r.endpoint.ID = "open"
	r.ask("hi").failed(t, exec.CodeRefused, "needs an API key")
}

func TestErrorBodies(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       apiError
	}{
		{"OpenAI", `{"error":{"message":"m","type":"t","param":"p","code":"c"}}`, apiError{message: "m", kind: "t", param: "p", code: "c"}},
		{"null and numbers", `{"error":{"message":"m","type":null,"param":null,"code":42}}`, apiError{message: "m", code: "42"}},
		{"Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, apiError{message: "Overloaded", kind: "overloaded_error"}},
		{"OpenRouter", `{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"inner\"}}","provider_name":"X"}}}`, apiError{message: "Provider returned error: inner", code: "502"}},
		{"OpenRouter text", `{"error":{"message":"Provider returned error","metadata":{"raw":"upstream said no"}}}`, apiError{message: "Provider returned error: upstream said no"}},
		{"Ollama", `{"error":"text"}`, apiError{message: "text"}},
		{"FastAPI", `{"detail":"text"}`, apiError{message: "text"}},
		{"FastAPI object", `{"detail":{"message":"text","code":"c"}}`, apiError{message: "text", code: "c"}},
		{"FastAPI list", `{"detail":[{"loc":["body","stream_options"],"msg":"extra"},{"loc":["body","x"],"msg":"bad"}]}`, apiError{message: "stream_options: extra; x: bad", param: "stream_options"}},
		{"vLLM", `{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`, apiError{message: "m", kind: "BadRequestError", code: "400"}},
		{"Google", `[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]`, apiError{message: "m", code: "429"}},
		{"error of another type", `{"error":[1,2]}`, apiError{message: "[1,2]"}},
		{"null error", `{"error":null}`, apiError{message: `{"error":null}`}},
		{"empty", ``, apiError{message: "Bad Gateway"}},
		{"HTML", "<!doctype html><html><head><TITLE> 502\n Bad Gateway </TITLE></head></html>", apiError{message: "a web page titled 502 Bad Gateway"}},
		{"HTML without title", "<html>x", apiError{message: "a web page instead of an answer"}},
		{"text", "upstream connect error", apiError{message: "upstream connect error"}},
		{"control characters", `{"error":"a\u001b[31mb\n\tc\u202ed\u0000"}`, apiError{message: "a[31mb cd\uFFFD"}},
		{"the key", `{"error":"you sent ` + testKey + `!"}`, apiError{message: "you sent [redacted]!"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.status = 502
			if got := parseAPIError(502, []byte(tt.body), testKey); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
	long := parseAPIError(500, []byte(`{"error":"`+strings.Repeat("ä", 5000)+`"}`), "")
	if len(long.message) > maxMessage+len("…") || !strings.HasSuffix(long.message, "ä…") {
		t.Errorf("%d bytes of message", len(long.message))
	}
}

func FuzzParseAPIError(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"m","code":1}}`, `[{"error":1}]`, `{"detail":[{"loc":[1],"msg":2}]}`, "<title>x", "\xff", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		e := parseAPIError(500, []byte(body), testKey)
		if len(e.message) > maxMessage+len("…") || strings.ContainsAny(e.message, "\n\x00\x1b") || strings.Contains(e.message, testKey) {
			t.Errorf("message is %q", e.message)
		}
		judge(exec.Endpoint{}, "m", e, nil, time.Now())
	})
}

// Much of a huge error page is neither read nor shown.
func TestErrorBodyIsBounded(t *testing.T) {
	sent := make(chan int64, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		n, _ := io.Copy(w, io.LimitReader(endless{}, 1<<30))
		sent <- n
	}))
	defer srv.Close()
	r := newRig(t, OpenAIChat, srv.URL, nil)
	err := r.ask("hi").failed(t, exec.CodeInvalid)
	if len(err.Message) > 2*maxMessage {
		t.Errorf("%d bytes of message", len(err.Message))
	}
	if n := <-sent; n == 1<<30 {
		t.Error("the whole page was read")
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFieldsThatServersRefuse(t *testing.T) {
	long := exec.Launch{Effort: "high", Settings: map[string]string{settingMaxTokens: "50000"}}
	for _, tt := range []struct {
		name     string
		protocol Protocol
		launch   exec.Launch
		// refuse maps a part of the body to the error for a body that has it.
		refuse []struct{ part, err string }
		// final is what the last request must, and must not, hold.
		has, lacks []string
		asked      int
		notices    int
	}{
		{
			"stream_options", OpenAIChat,
			exec.Launch{},
			[]struct{ part, err string }{{`"stream_options"`, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`}},
			nil,
			[]string{"stream_options"},
			2, 0,
		},
		{
			"reasoning_effort", OpenAIChat,
			exec.Launch{Effort: "high"},
			[]struct{ part, err string }{{`"reasoning_effort"`, `{"error":{"message":"Unsupported parameter: 'reasoning_effort' is not supported with this model.","param":"reasoning_effort","code":"unsupported_parameter"}}`}},
			[]string{"stream_options"},
			[]string{"reasoning_effort"},
			2, 1,
		},
		{
			"one after the other", OpenAIChat, long,
			[]struct{ part, err string }{
				{`"stream_options"`, `{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`},
				{`"reasoning_effort"`, `{"detail":[{"loc":["body","reasoning_effort"],"msg":"Extra inputs are not permitted"}]}`},
				{`"max_tokens"`, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`},
			},
			[]string{`"max_completion_tokens":50000`},
			[]string{"stream_options", "reasoning_effort", `"max_tokens"`},
			4, 1,
		},
		{
			"no limit at all", OpenAIChat, long,
			[]struct{ part, err string }{
				{`"max_tokens"`, `{"error":{"message":"unknown field max_tokens"}}`},
				{`"max_completion_tokens"`, `{"error":{"message":"unknown field max_completion_tokens"}}`},
			},
			[]string{"reasoning_effort"},
			[]string{"max_"},
			3, 1,
		},
		{
			"summaries", OpenAIResponses,
			exec.Launch{Effort: "high"},
			[]struct{ part, err string }{{`"summary"`, `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary"}}`}},
			[]string{`"reasoning":{"effort":"high"}`},
			[]string{"summary"},
			2, 0,
		},
		{
			"reasoning and store", OpenAIResponses, long,
			[]struct{ part, err string }{
				{`"store"`, `{"error":{"message":"unknown field: store"}}`},
				{`"reasoning"`, `{"error":{"message":"reasoning is not supported by this model"}}`},
				{`"max_output_tokens"`, `{"error":{"message":"max_output_tokens is not supported"}}`},
			},
			nil,
			[]string{"store", "reasoning", "max_output"},
			4, 2,
		},
		{
			"older thinking", Anthropic,
			exec.Launch{Effort: "high"},
			[]struct{ part, err string }{{`"adaptive"`, `{"type":"error","error":{"type":"invalid_request_error","message":"thinking.type: Input tag 'adaptive' found does not match any of the expected tags"}}`}},
			[]string{`"thinking":{"type":"enabled","budget_tokens":16384}`, `"max_tokens":24576`},
			[]string{"adaptive", "output_config"},
			2, 0,
		},
		{
			"no thinking", Anthropic,
			exec.Launch{Effort: "low"},
			[]struct{ part, err string }{
				{`"adaptive"`, `{"error":{"message":"output_config: Extra inputs are not permitted"}}`},
				{`"thinking"`, `{"error":{"message":"'claude-3-haiku' does not support thinking"}}`},
			},
			nil,
			[]string{"thinking", "output_config"},
			3, 1,
		},
		{
			"smaller answers", Anthropic,
			exec.Launch{},
			[]struct{ part, err string }{{`"max_tokens":16384`, `{"error":{"message":"max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for m1"}}`}},
			[]string{`"max_tokens":8192`},
			nil, 2, 0,
		},
		{
			"smaller answers than wished", Anthropic, long,
			[]struct{ part, err string }{
				{`"max_tokens":50000`, `{"error":{"message":"max_tokens: 50000 > 8192, which is the maximum allowed number of output tokens for m1"}}`},
				{`"adaptive"`, `{"error":{"message":"adaptive thinking is not supported on this model"}}`},
			},
			[]string{`"max_tokens":8192`, `"budget_tokens":4096`},
			nil, 3, 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := model.Start(t, model.Script{Key: testKey, Default: &model.Step{Answer: func(r *model.Request) model.Step {
				for _, c := range tt.refuse {
					if bytes.Contains(r.Raw, []byte(c.part)) {
						return model.Step{Reply: &model.Reply{Status: 400, Text: &c.err}}
					}
				}
				return model.Step{Blocks: []model.Block{text("ok")}}
			}}})
			r := newRig(t, tt.protocol, baseOf(tt.protocol, srv.URL()), nil)
			l := r.launch("hi")
			l.Effort, l.Settings = tt.launch.Effort, tt.launch.Settings
			rec := r.run(l)
			rows := slices.Repeat([]string{"notice(adapted)"}, tt.notices)
			rec.expect(t, append(rows, "assistant(ok) final")...)
			requests := srv.Requests()
			if len(requests) != tt.asked {
				t.Errorf("asked %d times, want %d", len(requests), tt.asked)
			}
			body := string(requests[len(requests)-1].Raw)
			for _, s := range tt.has {
				if !strings.Contains(body, s) {
					t.Errorf("no %s in %s", s, body)
				}
			}
			for _, s := range tt.lacks {
				if strings.Contains(body, s) {
					t.Errorf("%s in %s", s, body)
				}
			}
			// What was learned is not asked again.
			r.run(l).expect(t, "assistant(ok) final")
			if n := len(srv.Requests()); n != tt.asked+1 {
				t.Errorf("asked %d times for the second turn", n-tt.asked)
			}
			// Another chat is told once, too.
			other, err := r.adapter.Open(nil)
			if err != nil {
				t.Fatal(err)
			}
			rec = newRecorder()
			if _, err := other.Launch(t.Context(), l, rec); err != nil {
				t.Fatal(err)
			}
			rec.wait(t)
			rec.expect(t, append(rows, "assistant(ok) final")...)
			// Another server at the same endpoint is another matter.
			r.endpoint.BaseURL += "/"
			r.run(l)
			if n := len(srv.Requests()); n != 2*tt.asked+2 {
				t.Errorf("asked %d times for the last turn", n-tt.asked-2)
			}
		})
	}
}

func TestWrongValuesAreNotLeftOut(t *testing.T) {
	r, srv := scripted(t, OpenAIChat, reply(400, obj{"error": obj{
		"message": "Unsupported value: 'reasoning_effort' does not support 'max'. Supported values are: 'low', 'high'.",
		"param":   "reasoning_effort", "code": "unsupported_value",
	}}))
	l := r.launch("hi")
	l.Effort = "max"
	r.run(l).failed(t, exec.CodeInvalid, "Supported values are")
	if n := len(srv.Requests()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	for i := range 3 * maxRemembered {
		m.learn(exec.Endpoint{ID: "e"}, fmt.Sprint(i), lesson{model: true, refused: "x"})
		if len(m.known) > maxRemembered {
			t.Fatal("it grows without end")
		}
	}
	if !m.get(exec.Endpoint{ID: "e"}, fmt.Sprint(3*maxRemembered-1)).has("x") {
		t.Error("the last lesson is forgotten")
	}
	if m.get(exec.Endpoint{ID: "e"}, "other").has("x") {
		t.Error("a lesson about one model is applied to another")
	}
	m.learn(exec.Endpoint{ID: "e"}, "a", lesson{refused: "y"})
	if !m.get(exec.Endpoint{ID: "e"}, "b").has("y") {
		t.Error("a lesson about the endpoint is not applied to all models")
	}
}

// The log of a run that goes wrong in every way holds no key and no prompt.
func TestLogHoldsNoSecret(t *testing.T) {
	var log bytes.Buffer
	srv := model.Start(t, model.Script{Steps: []model.Step{
		{Reply: &model.Reply{Status: 500, Message: "you sent " + testKey, Headers: map[string]string{"Retry-After-Ms": "1"}}},
		{Reply: &model.Reply{Status: 401, Message: "you sent " + testKey}},
	}})
	a := newAdapter(provider.Host{
		Credentials: keys{"ep": testKey}, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, OpenAIChat, nil)
	c, err := a.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, adapter: a, chat: c, endpoint: exec.Endpoint{ID: "ep", Protocol: string(OpenAIChat), BaseURL: srv.URL()}}
	t.Cleanup(r.close)
	rec := r.ask("my private question")
	rec.failed(t, exec.CodeRefused)
	if log.Len() == 0 || strings.Contains(log.String(), testKey) || strings.Contains(log.String(), "private") {
		t.Errorf("log is %q", log.String())
	}
	for _, one := range rec.rows {
		if n, ok := one.Body.(*row.Notice); ok && strings.Contains(n.Text, testKey) {
			t.Errorf("the key is in the notice %q", n.Text)
		}
	}
}
