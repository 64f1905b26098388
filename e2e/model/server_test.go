package model_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"garcon/e2e/model"
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
