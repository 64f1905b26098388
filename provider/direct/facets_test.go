package direct

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"

	"github.com/google/go-cmp/cmp"
)

func TestCompaction(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		r, srv := scripted(t, p, model.Step{
			Match:  &model.Match{Call: model.CallCompaction},
			Blocks: []model.Block{thinking("hmm"), text("They want a blue door.")},
			Usage:  &model.Usage{Input: 900, CacheRead: 100, Output: 20, Reasoning: 5},
		})
		l := r.launch("keep the colours")
		l.Effort = "high"
		l.Settings = map[string]string{settingInstructions: "Be brief."}
		l.Conversation = []exec.Message{
			{Role: "user", Text: "Paint the door"},
			{Role: "assistant", Text: "Which colour?"},
			{Role: "user", Text: "Blue"},
		}
		rec := newRecorder()
		if _, err := r.chat.Compact(t.Context(), l, rec); err != nil {
			t.Fatal(err)
		}
		rec.wait(t)
		rec.expect(t, "compaction(They want a blue door.)")
		b := rec.rows[0].Body.(*row.Compaction)
		after := int64(15)
		if p == Anthropic {
			// It does not say how much of the output was thinking.
			after = 20
		}
		if b.Trigger != "manual" || b.TokensBefore != 1000 || b.TokensAfter != after || rec.terminal.Usage.ContextTokens != after {
			t.Errorf("compaction %+v, usage %+v", b, rec.terminal.Usage)
		}
		if len(rec.live) > 0 {
			t.Error("the summary was shown as an answer")
		}
		req := srv.Requests()[0]
		if req.System != compactSystem || !strings.Contains(req.LastUser, "Blue") ||
			!strings.Contains(req.LastUser, compactPrompt) || !strings.HasSuffix(req.LastUser, "The user adds: keep the colours") ||
			strings.Contains(string(req.Raw), "effort") {
			t.Errorf("request %s", req.Raw)
		}
	})
}

func TestCompactionFailures(t *testing.T) {
	l := func(r *rig) exec.Launch {
		l := r.launch("")
		l.Conversation = []exec.Message{{Role: "user", Text: "a"}, {Role: "assistant", Text: "b"}}
		return l
	}
	for _, tt := range []struct {
		name string
		step model.Step
		code exec.Code
	}{
		{"empty", model.Step{Blocks: []model.Block{text(" \n")}}, exec.CodeModelError},
		{"cut short", model.Step{Blocks: []model.Block{text("half")}, Stop: "length"}, exec.CodeTruncated},
		{"refused", reply(400, obj{"error": obj{"code": "context_length_exceeded", "message": "too long"}}), exec.CodeContextOverflow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.step.Match = &model.Match{Call: model.CallCompaction}
			r, _ := scripted(t, OpenAIChat, tt.step)
			rec := newRecorder()
			if _, err := r.chat.Compact(t.Context(), l(r), rec); err != nil {
				t.Fatal(err)
			}
			rec.wait(t)
			rec.failed(t, tt.code)
			rec.expectRows(t)
		})
	}
	t.Run("nothing to compact", func(t *testing.T) {
		r, _ := scripted(t, OpenAIChat)
		if _, err := r.chat.Compact(t.Context(), r.launch(""), newRecorder()); exec.CodeOf(err) != exec.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		r, srv := scripted(t, OpenAIChat, model.Step{
			Match: &model.Match{Call: model.CallCompaction}, Blocks: []model.Block{text("half")}, End: model.EndStall,
		})
		rec := newRecorder()
		active, err := r.chat.Compact(t.Context(), l(r), rec)
		if err != nil {
			t.Fatal(err)
		}
		req, err := srv.WaitCall(t.Context(), model.CallCompaction, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := active.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec.wait(t)
		rec.expectRows(t)
		if rec.terminal.Phase != row.RunInterrupted {
			t.Errorf("ended as %+v", rec.terminal)
		}
		<-req.Gone()
	})
	// A stream that broke half way is begun again: nothing of it was shown.
	t.Run("begun again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			handler, asked := failFirst(1, func(w http.ResponseWriter, _ *http.Request) { sse(w, chatText("half")) })
			r := inMemory(t, OpenAIChat, handler)
			rec := newRecorder()
			if _, err := r.chat.Compact(t.Context(), l(r), rec); err != nil {
				t.Fatal(err)
			}
			rec.wait(t)
			rec.expect(t, "notice(retrying)", "compaction(ok)")
			if n := asked.Load(); n != 2 {
				t.Errorf("asked %d times", n)
			}
		})
	})
}

func TestQuery(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		r, srv := scripted(t, p, model.Step{
			Match: &model.Match{Call: model.CallQuery}, Blocks: []model.Block{thinking("hmm"), text(" A title\n")},
		})
		got, err := r.adapter.Query(t.Context(), exec.Query{Prompt: "name it", System: "You name things.", Model: "m1", Endpoint: &r.endpoint})
		if err != nil || got != "A title" {
			t.Errorf("got %q, %v", got, err)
		}
		req := srv.Requests()[0]
		if req.Stream || req.System != "You name things." || req.LastUser != "name it" || strings.Contains(string(req.Raw), "stream_options") {
			t.Errorf("request %s", req.Raw)
		}
		if n, ok := req.Body["max_tokens"]; (p == Anthropic) != ok || ok && n != float64(queryMaxTokens) {
			t.Errorf("limit is %v", n)
		}
	})
}

func TestQueryFailures(t *testing.T) {
	for _, tt := range []struct {
		name string
		step model.Step
		q    exec.Query
		code exec.Code
	}{
		{"refused", reply(401, obj{"error": "no"}), exec.Query{Prompt: "x", Model: "m"}, exec.CodeRefused},
		{"empty", model.Step{}, exec.Query{Prompt: "x", Model: "m"}, exec.CodeModelError},
		{"cut short", model.Step{Stop: "length", Blocks: []model.Block{text("half")}}, exec.Query{Prompt: "x", Model: "m"}, exec.CodeTruncated},
		{"no model", model.Step{}, exec.Query{Prompt: "x"}, exec.CodeUnknownModel},
		{"no prompt", model.Step{}, exec.Query{Model: "m"}, exec.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.step.Match = &model.Match{Call: model.CallQuery}
			r, _ := scripted(t, OpenAIChat, tt.step)
			tt.q.Endpoint = &r.endpoint
			if _, err := r.adapter.Query(t.Context(), tt.q); exec.CodeOf(err) != tt.code {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("too slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inMemory(t, OpenAIChat, func(_ http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				<-req.Context().Done()
			})
			began := time.Now()
			_, err := r.adapter.Query(t.Context(), exec.Query{Prompt: "x", Model: "m", Endpoint: &r.endpoint})
			if exec.CodeOf(err) != exec.CodeAgentTimeout || time.Since(began) != queryTimeout {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began = time.Now()
			_, err = r.adapter.Query(ctx, exec.Query{Prompt: "x", Model: "m", Endpoint: &r.endpoint})
			if exec.CodeOf(err) != exec.CodeAgentTimeout || time.Since(began) != time.Second {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("given up", func(t *testing.T) {
		r, _ := scripted(t, OpenAIChat, model.Step{Match: &model.Match{Call: model.CallQuery}, Wait: "never"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		cancel()
		if _, err := r.adapter.Query(ctx, exec.Query{Prompt: "x", Model: "m", Endpoint: &r.endpoint}); exec.CodeOf(err) != exec.CodeCancelled {
			t.Errorf("got %v", err)
		}
	})
}

func TestParseModels(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       []exec.Model
		next       string
		bad        bool
	}{
		{
			name: "OpenAI", body: `{"object":"list","data":[{"id":"gpt-b","object":"model","created":1,"owned_by":"x"},{"id":"gpt-a"},
			{"id":"text-embedding-3-small"},{"id":"whisper-1"},{"id":"tts-1-hd"},{"id":"dall-e-3"},{"id":"gpt-image-1"},
			{"id":"omni-moderation-latest"},{"id":"gpt-4o-transcribe"},{"id":"gpt-realtime"}]}`,
			want: []exec.Model{{ID: "gpt-b"}, {ID: "gpt-a"}},
		},
		{
			name: "OpenRouter", body: `{"data":[{"id":"a/b","name":"A: B","description":"Good\nmodel","context_length":1000,
			"architecture":{"input_modalities":["text","image"],"output_modalities":["text"]},"supported_parameters":["reasoning","tools"]},
			{"id":"a/c-embed-2","context_length":1e3,"architecture":{"input_modalities":["text"],"output_modalities":["text"]}},
			{"id":"a/d","architecture":{"output_modalities":["image"]}}]}`,
			want: []exec.Model{
				{ID: "a/b", Label: "A: B", Description: "Good model", ContextWindow: 1000, Images: true, Efforts: []string{"low", "medium", "high"}},
				{ID: "a/c-embed-2"},
			},
		},
		{name: "vLLM", body: `{"object":"list","data":[{"id":"q","max_model_len":4096,"root":"q","parent":null}]}`, want: []exec.Model{{ID: "q", ContextWindow: 4096}}},
		{
			name: "LM Studio", body: `{"data":[{"id":"v","type":"vlm","max_context_length":8192},{"id":"e","type":"embeddings"},{"id":"l","type":"llm"}]}`,
			want: []exec.Model{{ID: "v", ContextWindow: 8192, Images: true}, {ID: "l"}},
		},
		{name: "llama.cpp", body: `{"models":[{"name":"other"}],"object":"list","data":[{"id":"g","meta":{"n_ctx_train":2048}}]}`, want: []exec.Model{{ID: "g", ContextWindow: 2048}}},
		{name: "Ollama", body: `{"models":[{"name":"llama3:8b","model":"llama3:8b","details":{}}]}`, want: []exec.Model{{ID: "llama3:8b"}}},
		{
			name: "Anthropic", body: `{"data":[{"type":"model","id":"claude-x","display_name":"Claude X","created_at":"2026"}],"has_more":true,"first_id":"claude-x","last_id":"claude-x"}`,
			want: []exec.Model{{ID: "claude-x", Label: "Claude X"}}, next: "claude-x",
		},
		{name: "bare list", body: `[{"id":"a"},"b",{"name":"c"},7,null,{"id":null},{"id":""},{"id":5}]`, want: []exec.Model{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "5"}}},
		{name: "null data", body: `{"object":"list","data":null}`},
		{name: "null data without object", body: `{"data":null}`},
		{name: "empty data", body: `{"data":[]}`},
		{name: "empty list", body: `[]`},
		{name: "null data and models", body: `{"data":null,"models":[{"id":"a"}]}`, want: []exec.Model{{ID: "a"}}},
		{name: "odd members", body: `{"data":[{"id":"a","context_length":"many","architecture":null,"name":7}]}`, want: []exec.Model{{ID: "a", Label: "7"}}},
		{name: "other object", body: `{"hello":"world"}`, bad: true},
		{name: "data of another type", body: `{"data":"x"}`, bad: true},
		{name: "null", body: `null`, bad: true},
		{name: "text", body: `hello`, bad: true},
		{name: "page", body: `<html>`, bad: true},
		{name: "nothing", body: ``, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			models, next, ok := parseModels([]byte(tt.body))
			if ok == tt.bad {
				t.Fatalf("understood: %v", ok)
			}
			var got []exec.Model
			for _, m := range models {
				got = append(got, m.Model)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || next != tt.next {
				t.Errorf("next %q, models (-want +got):\n%s", next, diff)
			}
		})
	}
}

func FuzzParseModels(f *testing.F) {
	for _, s := range []string{`{"data":[{"id":"a","context_length":1}]}`, `[{"id":1},"x"]`, `{"models":null}`, `{"data":[{"architecture":{"input_modalities":[1]}}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		models, _, _ := parseModels([]byte(body))
		for _, m := range models {
			if m.ID == "" || len(m.ID) > maxModelText || m.ContextWindow < 0 {
				t.Errorf("model %+v", m)
			}
		}
	})
}

func ids(models []exec.Model) string {
	var out []string
	for _, m := range models {
		out = append(out, m.ID)
	}
	return strings.Join(out, " ")
}

func TestModels(t *testing.T) {
	list := func(t *testing.T, p Protocol, s model.Script) (string, *model.Server, error) {
		t.Helper()
		srv := model.Start(t, s)
		r := newRig(t, p, baseOf(p, srv.URL()), nil)
		models, err := r.adapter.Models(t.Context(), "", &r.endpoint)
		return ids(models), srv, err
	}
	route := func(r model.Reply) model.Script {
		return model.Script{Routes: []model.Route{{Path: "/v1/models", Reply: r}}}
	}
	each(t, func(t *testing.T, p Protocol) {
		t.Run("in the server's order, each once", func(t *testing.T) {
			got, srv, err := list(t, p, model.Script{Key: testKey, Models: []string{"b", "a", "b", "c"}})
			if err != nil || got != "b a c" {
				t.Errorf("got %q, %v", got, err)
			}
			if a := srv.Requests()[0].Header.Get("Accept"); a != "application/json" {
				t.Errorf("Accept is %q", a)
			}
		})
		for _, status := range []int{404, 405, 501} {
			t.Run(fmt.Sprint("no listing ", status), func(t *testing.T) {
				got, _, err := list(t, p, route(model.Reply{Status: status}))
				if err != nil || got != "" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		page := "<html>"
		for _, tt := range []struct {
			name  string
			reply model.Reply
			code  exec.Code
		}{
			{"refused", model.Reply{Status: 401, Message: "bad " + testKey}, exec.CodeRefused},
			{"broken", model.Reply{Status: 500}, exec.CodeModelError},
			{"page", model.Reply{Text: &page}, exec.CodeUnreachable},
		} {
			t.Run(tt.name, func(t *testing.T) {
				_, _, err := list(t, p, route(tt.reply))
				if exec.CodeOf(err) != tt.code || exec.AsError(err).Hint == "" || strings.Contains(err.Error(), testKey) {
					t.Errorf("got %v", err)
				}
			})
		}
	})
	t.Run("null", func(t *testing.T) {
		got, _, err := list(t, OpenAIChat, route(model.Reply{Body: obj{"data": nil}}))
		if err != nil || got != "" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("many", func(t *testing.T) {
		var data []any
		for i := range 3 * maxModels {
			data = append(data, obj{"id": fmt.Sprint("m", i)})
		}
		got, _, err := list(t, OpenAIChat, route(model.Reply{Body: obj{"data": data}}))
		if err != nil || len(strings.Fields(got)) != maxModels {
			t.Errorf("%d models, %v", len(strings.Fields(got)), err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		big := `{"data":[{"id":"` + longText(maxListBody) + `"}]}`
		_, _, err := list(t, OpenAIChat, route(model.Reply{Text: &big}))
		if exec.CodeOf(err) != exec.CodeModelError {
			t.Errorf("got %v", err)
		}
	})
	t.Run("pages", func(t *testing.T) {
		pages := func(last string) model.Script {
			return model.Script{Routes: []model.Route{
				{Path: "/v1/models", Query: "after_id=b", Reply: model.Reply{Body: obj{"data": []any{obj{"id": "c"}}, "has_more": last != "", "last_id": last}}},
				{Path: "/v1/models", Query: "limit=1000", Reply: model.Reply{Body: obj{"data": []any{obj{"id": "a"}, obj{"id": "b"}}, "has_more": true, "last_id": "b"}}},
			}}
		}
		for _, last := range []string{"", "b"} {
			got, srv, err := list(t, Anthropic, pages(last))
			if err != nil || got != "a b c" || len(srv.Requests()) != 2 {
				t.Errorf("got %q, %v in %d requests", got, err, len(srv.Requests()))
			}
		}
	})
	t.Run("key as bearer token", func(t *testing.T) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Authorization") != "Bearer "+testKey {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = io.WriteString(w, `{"data":[{"id":"a"}]}`)
		}))
		defer srv.Close()
		r := newRig(t, Anthropic, srv.URL, nil)
		if models, err := r.adapter.Models(t.Context(), "", &r.endpoint); err != nil || ids(models) != "a" {
			t.Errorf("got %v, %v", models, err)
		}
	})
	t.Run("no endpoint", func(t *testing.T) {
		r, _ := scripted(t, OpenAIChat)
		if _, err := r.adapter.Models(t.Context(), "", nil); exec.CodeOf(err) != exec.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}

func TestListingIsKeptForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := inMemory(t, OpenAIChat, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			_ = json.NewEncoder(w).Encode(obj{"data": []any{obj{"id": fmt.Sprint("m", asked), "context_length": 1000}}})
		})
		get := func(want string) {
			t.Helper()
			models, err := r.adapter.Models(t.Context(), "", &r.endpoint)
			if err != nil || ids(models) != want {
				t.Errorf("got %q, %v, want %s", ids(models), err, want)
			}
			if len(models) > 0 {
				models[0].ID = "changed by the caller"
			}
		}
		get("m1")
		get("m1")
		<-time.After(listLifetime - time.Second)
		get("m1")
		<-time.After(time.Second)
		get("m2")
		// Another address is another server.
		r.endpoint.BaseURL += "/x"
		get("m3")
	})
}

func TestListingThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, OpenAIChat, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		began := time.Now()
		_, err := r.adapter.Models(t.Context(), "", &r.endpoint)
		if exec.CodeOf(err) != exec.CodeUnreachable || time.Since(began) != listTimeout || !strings.Contains(err.Error(), "within 10s") {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// What the listing says of a model changes what is sent to it.
func TestListingIsUsed(t *testing.T) {
	r, srv := scripted(t, OpenAIChat, model.Step{Times: 2, Blocks: []model.Block{text("ok")}})
	r.adapter.models.put(r.endpoint, []listed{
		{Model: exec.Model{ID: "m1", ContextWindow: 5000}, images: ruledOut},
		{Model: exec.Model{ID: "m2"}},
	}, time.Now())
	l := r.launch("look")
	l.Prompt.Attachments = []exec.AttachmentData{{Attachment: row.Attachment{Name: "a.png", MediaType: "image/png"}, Data: []byte("PNG")}}
	rec := r.run(l)
	rec.expect(t, "notice(attachments-left-out)", "assistant(ok) final")
	if rec.terminal.Usage.ContextWindow != 5000 {
		t.Errorf("usage %+v", rec.terminal.Usage)
	}
	l.Model = "m2"
	r.run(l).expect(t, "assistant(ok) final")
	if a, b := srv.Requests()[0].Messages[0], srv.Requests()[1].Messages[0]; a.Images != 0 || b.Images != 1 || !strings.Contains(a.Text, `"a.png"`) {
		t.Errorf("messages %+v, %+v", a, b)
	}
}

func TestProbe(t *testing.T) {
	page, text := "<html>", "hello"
	models := func(r model.Reply) []model.Route { return []model.Route{{Path: "/v1/models", Reply: r}} }
	each(t, func(t *testing.T, p Protocol) {
		for _, tt := range []struct {
			name   string
			script model.Script
			code   exec.Code
		}{
			{"works", model.Script{Key: testKey}, ""},
			{"works without a listing", model.Script{Key: testKey, Routes: models(model.Reply{Status: 404})}, ""},
			{"refused", model.Script{Key: "other"}, exec.CodeRefused},
			{"refused without a listing", model.Script{Key: "other", Routes: models(model.Reply{Status: 404})}, exec.CodeRefused},
			{"web page", model.Script{Routes: models(model.Reply{Text: &page})}, exec.CodeUnreachable},
			{"something else", model.Script{Routes: models(model.Reply{Text: &text})}, exec.CodeUnreachable},
			{"broken", model.Script{Routes: models(model.Reply{Status: 500})}, exec.CodeModelError},
		} {
			t.Run(tt.name, func(t *testing.T) {
				srv := model.Start(t, tt.script)
				ep := exec.Endpoint{ID: "ep", Label: "Lab", Protocol: string(p), BaseURL: baseOf(p, srv.URL())}
				err := Test(t.Context(), ep, exec.NewCredential(testKey))
				if tt.code == "" && err != nil || exec.CodeOf(err) != tt.code || err != nil && exec.AsError(err).Hint == "" {
					t.Errorf("got %v", err)
				}
			})
		}
		t.Run("another protocol", func(t *testing.T) {
			srv := httptest.NewServer(http.NotFoundHandler())
			defer srv.Close()
			ep := exec.Endpoint{Protocol: string(p), BaseURL: srv.URL}
			if err := Test(t.Context(), ep, exec.Credential{}); exec.CodeOf(err) != exec.CodeUnreachable || !strings.Contains(err.Error(), "nothing of this protocol") {
				t.Errorf("got %v", err)
			}
			ep.BaseURL = srv.URL
			srv.Close()
			if err := Test(t.Context(), ep, exec.Credential{}); exec.CodeOf(err) != exec.CodeUnreachable || !strings.Contains(err.Error(), "Nothing answers") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("certificate", func(t *testing.T) {
			srv := httptest.NewUnstartedServer(http.NotFoundHandler())
			srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			srv.StartTLS()
			defer srv.Close()
			ep := exec.Endpoint{Protocol: string(p), BaseURL: srv.URL}
			if err := Test(t.Context(), ep, exec.Credential{}); exec.CodeOf(err) != exec.CodeUnreachable || !strings.Contains(err.Error(), "not trusted") {
				t.Errorf("got %v", err)
			}
			plain := httptest.NewUnstartedServer(http.NotFoundHandler())
			plain.Config.ErrorLog = log.New(io.Discard, "", 0)
			plain.Start()
			defer plain.Close()
			ep.BaseURL = strings.Replace(plain.URL, "http:", "https:", 1)
			if err := Test(t.Context(), ep, exec.Credential{}); exec.CodeOf(err) != exec.CodeUnreachable || !strings.Contains(err.Error(), "does not speak https") {
				t.Errorf("got %v", err)
			}
		})
	})
	if err := Test(t.Context(), exec.Endpoint{Protocol: "x"}, exec.Credential{}); exec.CodeOf(err) != exec.CodeInvalid {
		t.Errorf("got %v", err)
	}
}

// probeEnv asks the test binary to try an endpoint and print the outcome; the
// proxies of a process are read from its environment once.
const probeEnv = "DIRECT_TEST_PROBE"

func TestMain(m *testing.M) {
	if provider.IsGuard(os.Args) {
		os.Exit(provider.RunGuard(context.Background(), os.Stdin))
	}
	if base := os.Getenv(probeEnv); base != "" {
		ep := exec.Endpoint{Label: "Lab", Protocol: string(OpenAIChat), BaseURL: base}
		fmt.Println(Test(context.Background(), ep, exec.NewCredential(testKey)))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProxies(t *testing.T) {
	seen := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		seen <- req.URL.String()
		_, _ = io.WriteString(w, `{"data":[]}`)
	}))
	defer proxy.Close()
	local := model.Start(t, model.Script{})
	probe := func(base, proxyURL string) string {
		t.Helper()
		cmd := osexec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = []string{probeEnv + "=" + base, "HTTP_PROXY=" + proxyURL, "HTTPS_PROXY=" + proxyURL}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), "hunter2") {
			t.Errorf("the password of the proxy is in %s", out)
		}
		return strings.TrimSpace(string(out))
	}
	if out := probe("http://models.example/v1", proxy.URL); out != "<nil>" {
		t.Errorf("through the proxy: %s", out)
	}
	if got := <-seen; got != "http://models.example/v1/models" {
		t.Errorf("the proxy was asked for %s", got)
	}
	for _, base := range []string{local.URL() + "/v1", strings.Replace(local.URL(), "127.0.0.1", "localhost", 1)} {
		if out := probe(base, proxy.URL); out != "<nil>" {
			t.Errorf("%s: %s", base, out)
		}
	}
	select {
	case got := <-seen:
		t.Errorf("the proxy was asked for %s on loopback", got)
	default:
	}
	if out := probe("http://models.example/v1", "http://u:hunter2@127.0.0.1:1"); !strings.Contains(out, "proxy on the way to Lab cannot be reached") {
		t.Errorf("with a dead proxy: %s", out)
	}
}
