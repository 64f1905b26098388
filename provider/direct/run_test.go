package direct

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

func TestStreamsThatEndTooEarly(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		for _, tt := range []struct {
			name  string
			step  model.Step
			code  exec.Code
			words string
		}{
			{"truncated", model.Step{End: model.EndTruncate}, exec.CodeTruncated, "ended the answer in the middle"},
			{"cut", model.Step{End: model.EndCut}, exec.CodeTruncated, "broke in the middle"},
			{"error", model.Step{End: model.EndError, Fail: &model.Fail{Type: "overloaded_error", Message: "Overloaded now"}}, exec.CodeOverloaded, "Overloaded now"},
			{"failed", model.Step{End: model.EndError, Fail: &model.Fail{Type: "rate_limit_error", Code: "rate_limit_exceeded", Message: "Slow down", Response: true}}, exec.CodeRateLimited, "Slow down"},
			{"echo of the key", model.Step{End: model.EndError, Fail: &model.Fail{Type: "authentication_error", Message: "bad " + testKey}}, exec.CodeRefused, "bad [redacted]"},
			{"unknown error", model.Step{End: model.EndError, Fail: &model.Fail{Type: "odd", Message: "Odd"}}, exec.CodeModelError, "Odd"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				tt.step.Blocks = []model.Block{thinking("hmm"), {Text: "so far", Chunks: 1}}
				r, srv := scripted(t, p, tt.step)
				rec := r.ask("hi")
				rec.failed(t, tt.code, tt.words)
				rec.expectRows(t, "reasoning(hmm)", "assistant(so far) partial")
				if n := len(srv.Requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		}
		t.Run("reset", func(t *testing.T) {
			// The text must have arrived: a reset throws away what has not.
			r, srv := scripted(t, p, model.Step{
				Blocks: []model.Block{{Text: "so far", Chunks: 1}, {Wait: "go"}}, End: model.EndReset,
			})
			rec, _ := r.start(r.launch("hi"))
			rec.waitLive(t, "so far")
			srv.Open("go")
			rec.wait(t)
			rec.failed(t, exec.CodeTruncated, "broke in the middle")
			rec.expectRows(t, "assistant(so far) partial")
		})
		t.Run("text in half a tag", func(t *testing.T) {
			r, _ := scripted(t, p, model.Step{Blocks: []model.Block{{Text: "<thin", Chunks: 1}}, End: model.EndTruncate})
			rec := r.ask("hi")
			if got := rec.briefs(); got[len(got)-1] != "assistant(<thin) partial" {
				t.Errorf("rows are %q", got)
			}
		})
	})
}

func TestErrorWithStatus200AndJSON(t *testing.T) {
	for p, body := range map[Protocol]any{
		OpenAIChat:      obj{"error": obj{"message": "bad key", "code": "invalid_api_key"}},
		OpenAIResponses: obj{"status": "failed", "error": obj{"message": "bad key", "code": "invalid_api_key"}, "output": []any{}},
		Anthropic:       obj{"type": "error", "error": obj{"type": "authentication_error", "message": "bad key"}},
	} {
		t.Run(string(p), func(t *testing.T) {
			srv := model.Start(t, model.Script{Steps: []model.Step{reply(200, body)}})
			newRig(t, p, baseOf(p, srv.URL()), nil).ask("hi").failed(t, exec.CodeRefused, "bad key")
		})
	}
	t.Run("bare", func(t *testing.T) {
		r, _ := scripted(t, OpenAIResponses, reply(200, obj{"error": obj{"message": "bad key", "code": "invalid_api_key"}}))
		r.ask("hi").failed(t, exec.CodeRefused, "bad key")
	})
}

func TestAnswersThatAreNone(t *testing.T) {
	page := "<!DOCTYPE html><html>Welcome</html>"
	each(t, func(t *testing.T, p Protocol) {
		for name, r := range map[string]*model.Reply{
			"web page":      {Text: &page, Headers: map[string]string{"Content-Type": "text/html"}},
			"other JSON":    {Body: obj{"hello": "world"}},
			"list":          {Body: []any{1}},
			"broken JSON":   {Text: new("{\"choices\":"), Headers: map[string]string{"Content-Type": "application/json"}},
			"odd encoding":  {Body: obj{}, Headers: map[string]string{"Content-Encoding": "br"}},
			"empty choices": {Body: obj{"choices": []any{}}},
		} {
			t.Run(name, func(t *testing.T) {
				rig, srv := scripted(t, p, model.Step{Reply: r, Times: -1})
				rec := rig.ask("hi")
				if rec.terminal.Phase != row.RunFailed || len(srv.Requests()) != 1 {
					t.Errorf("ended as %s after %d requests", rec.terminal.Phase, len(srv.Requests()))
				}
				want := exec.CodeUnreachable
				if name == "odd encoding" {
					want = exec.CodeModelError
				}
				if err := rec.terminal.Error; err.Code != want {
					t.Errorf("failure %s %q", err.Code, err.Message)
				}
				rec.expectRows(t)
			})
		}
	})
}

func TestStop(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		r, srv := scripted(t, p,
			model.Step{Blocks: []model.Block{thinking("hmm"), {Text: "so far", Chunks: 1}}, End: model.EndStall},
			model.Step{Blocks: []model.Block{text("next")}},
		)
		rec, active := r.start(r.launch("hi"))
		rec.waitLive(t, "so far")
		req := srv.Requests()[0]
		select {
		case <-req.Gone():
			t.Fatal("the client is gone already")
		default:
		}
		if err := active.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec.wait(t)
		if rec.terminal.Phase != row.RunInterrupted || rec.terminal.Error != nil {
			t.Errorf("ended as %+v", rec.terminal)
		}
		rec.expectRows(t, "reasoning(hmm)", "assistant(so far) partial")
		<-req.Gone()
		// Stopping again changes nothing, and the chat goes on.
		if err := active.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.ask("more").expect(t, "assistant(next) final")
	})
}

func TestStopBeforeTheAnswer(t *testing.T) {
	r, srv := scripted(t, OpenAIChat, model.Step{Wait: "never"})
	rec, active := r.start(r.launch("hi"))
	req, err := srv.WaitRequest(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := active.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec.wait(t)
	if rec.terminal.Phase != row.RunInterrupted {
		t.Errorf("ended as %+v", rec.terminal)
	}
	rec.expectRows(t)
	<-req.Gone()
}

// The context of the launch is not that of the run.
func TestRunOutlivesItsLaunch(t *testing.T) {
	r, srv := scripted(t, OpenAIChat, model.Step{Wait: "go", Blocks: []model.Block{text("ok")}})
	ctx, cancel := context.WithCancel(t.Context())
	rec := newRecorder()
	if _, err := r.chat.Launch(ctx, r.launch("hi"), rec); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := srv.WaitRequest(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	srv.Open("go")
	rec.wait(t)
	rec.expect(t, "assistant(ok) final")
}

func TestCloseEndsTheRun(t *testing.T) {
	r, srv := scripted(t, OpenAIChat, model.Step{Blocks: []model.Block{{Text: "so far", Chunks: 1}}, End: model.EndStall})
	rec, _ := r.start(r.launch("hi"))
	rec.waitLive(t, "so far")
	if err := r.chat.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-rec.done:
	default:
		t.Error("Close returned before the run had ended")
	}
	<-srv.Requests()[0].Gone()
	if _, err := r.chat.Launch(t.Context(), r.launch("hi"), newRecorder()); exec.CodeOf(err) != exec.CodeStaleResource {
		t.Errorf("a launch after Close gave %v", err)
	}
	if err := r.chat.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOneRunAtATime(t *testing.T) {
	r, srv := scripted(t, OpenAIChat, model.Step{Wait: "go", Blocks: []model.Block{text("ok")}})
	rec, active := r.start(r.launch("hi"))
	if _, err := r.chat.Launch(t.Context(), r.launch("two"), newRecorder()); exec.CodeOf(err) != exec.CodeSessionBusy {
		t.Errorf("a second launch gave %v", err)
	}
	if err := active.Steer(t.Context(), exec.Steer{}); exec.CodeOf(err) != exec.CodeUnsupported {
		t.Errorf("steering gave %v", err)
	}
	srv.Open("go")
	rec.wait(t)
	rec.expect(t, "assistant(ok) final")
}

// A run may be launched from within the terminal of the one before.
func TestNextLaunchFromTheTerminal(t *testing.T) {
	r, _ := scripted(t, OpenAIChat, model.Step{Times: 2, Blocks: []model.Block{text("ok")}})
	second := newRecorder()
	first := &chainRun{recorder: newRecorder(), next: func() error {
		_, err := r.chat.Launch(context.Background(), r.launch("two"), second)
		return err
	}}
	if _, err := r.chat.Launch(t.Context(), r.launch("one"), first); err != nil {
		t.Fatal(err)
	}
	first.wait(t)
	if first.err != nil {
		t.Fatal(first.err)
	}
	second.wait(t)
	second.expect(t, "assistant(ok) final")
}

type chainRun struct {
	*recorder
	next func() error
	err  error
}

func (c *chainRun) Finish(t exec.Terminal) {
	c.err = c.next()
	c.recorder.Finish(t)
}

type brokenKeys struct{ err error }

func (b brokenKeys) Resolve(context.Context, string, string) (exec.Credential, error) {
	return exec.Credential{}, b.err
}

func TestLaunchesThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *rig, l *exec.Launch)
		code   exec.Code
	}{
		{"no model", func(_ *rig, l *exec.Launch) { l.Model = "" }, exec.CodeUnknownModel},
		{"no endpoint", func(_ *rig, l *exec.Launch) { l.Endpoint = nil }, exec.CodeInvalid},
		{"endpoint of another protocol", func(_ *rig, l *exec.Launch) { l.Endpoint.Protocol = "anthropic" }, exec.CodeInvalid},
		{"endpoint of somebody else", func(_ *rig, l *exec.Launch) { l.Endpoint.ID = "x" }, exec.CodeInvalid},
		{"no controller", func(r *rig, _ *exec.Launch) { r.adapter.host.Credentials = nil }, exec.CodeUnavailable},
		{"controller away", func(r *rig, _ *exec.Launch) { r.adapter.host.Credentials = brokenKeys{errors.New("x")} }, exec.CodeInternal},
		{"empty prompt", func(_ *rig, l *exec.Launch) { l.Prompt.Text = " \n" }, exec.CodeInvalid},
		{"empty prompt behind an answer", func(_ *rig, l *exec.Launch) {
			l.Prompt.Text = ""
			l.Conversation = []exec.Message{{Role: "user", Text: "a"}, {Role: "assistant", Text: "b"}}
		}, exec.CodeInvalid},
		{"limit that is none", func(_ *rig, l *exec.Launch) { l.Settings = map[string]string{settingMaxTokens: "many"} }, exec.CodeInvalid},
		{"limit of zero", func(_ *rig, l *exec.Launch) { l.Settings = map[string]string{settingMaxTokens: "0"} }, exec.CodeInvalid},
		{"no URL", func(_ *rig, l *exec.Launch) { l.Endpoint.BaseURL = "api.example.com" }, exec.CodeInvalid},
		{"bad URL", func(_ *rig, l *exec.Launch) { l.Endpoint.BaseURL = "http://a b:x" }, exec.CodeInvalid},
		{"file", func(_ *rig, l *exec.Launch) { l.Endpoint.BaseURL = "file:///etc" }, exec.CodeInvalid},
		{"password in the URL", func(_ *rig, l *exec.Launch) { l.Endpoint.BaseURL = "https://u:" + testKey + "@example.com" }, exec.CodeInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, srv := scripted(t, OpenAIChat)
			l := r.launch("hi")
			tt.change(r, &l)
			rec := newRecorder()
			_, err := r.chat.Launch(t.Context(), l, rec)
			if exec.CodeOf(err) != tt.code {
				t.Fatalf("launch gave %v", err)
			}
			e := exec.AsError(err)
			if e.Dispatched != exec.NotDispatched || strings.Contains(e.Message+e.Hint+e.Detail, testKey) {
				t.Errorf("error %+v", e)
			}
			if rec.terminal != nil || len(rec.rows) > 0 || len(srv.Requests()) > 0 {
				t.Error("something happened all the same")
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		protocol     Protocol
		base         string
		turn, models string
	}{
		{OpenAIChat, "https://h/v1", "https://h/v1/chat/completions", "https://h/v1/models"},
		{OpenAIChat, " https://h/v1// ", "https://h/v1/chat/completions", "https://h/v1/models"},
		{OpenAIChat, "https://h", "https://h/chat/completions", "https://h/models"},
		{OpenAIChat, "https://h/v1/chat/completions", "https://h/v1/chat/completions", "https://h/v1/models"},
		{OpenAIChat, "https://h/v1?api-version=2#x", "https://h/v1/chat/completions?api-version=2", "https://h/v1/models?api-version=2"},
		{OpenAIResponses, "https://h/v1/", "https://h/v1/responses", "https://h/v1/models"},
		{OpenAIResponses, "https://h/v1/responses", "https://h/v1/responses", "https://h/v1/models"},
		{Anthropic, "https://h", "https://h/v1/messages", "https://h/v1/models?limit=1000"},
		{Anthropic, "https://h/v1", "https://h/v1/messages", "https://h/v1/models?limit=1000"},
		{Anthropic, "https://h/api/v1/messages/", "https://h/api/v1/messages", "https://h/api/v1/models?limit=1000"},
		{Anthropic, "https://h/anthropic?a=b", "https://h/anthropic/v1/messages?a=b", "https://h/anthropic/v1/models?a=b&limit=1000"},
	} {
		base, bad := baseURL(exec.Endpoint{BaseURL: tt.base})
		if bad != nil {
			t.Errorf("%s: %v", tt.base, bad)
			continue
		}
		info, _ := infoOf(tt.protocol)
		if turn, models := info.codec.address(base).String(), info.codec.models(base).String(); turn != tt.turn || models != tt.models {
			t.Errorf("%s %q: %s, %s", tt.protocol, tt.base, turn, models)
		}
	}
}

func TestRedirects(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("%s %s reached another server, with %v", req.Method, req.URL, req.Header)
	}))
	defer stranger.Close()
	to := func(status int, location string) model.Step {
		return model.Step{Reply: &model.Reply{Status: status, Headers: map[string]string{"Location": location}}, Times: -1}
	}
	each(t, func(t *testing.T, p Protocol) {
		for _, tt := range []struct {
			name  string
			step  model.Step
			words string
		}{
			{"to another host", to(307, stranger.URL+"/v1/chat/completions"), "redirects to another server"},
			{"to another host for good", to(308, stranger.URL), "redirects to another server"},
			{"to another host without a scheme", to(307, strings.TrimPrefix(stranger.URL, "http:")), "redirects to another server"},
			{"found elsewhere", to(302, stranger.URL), "redirects to another server"},
			{"to nowhere", to(307, ""), "redirects to nowhere"},
			{"to nonsense", to(307, "http://[::1"), "redirects to nowhere"},
			{"as GET", to(301, "/v2/messages"), "moved to"},
			{"without end", to(307, "/v2/messages"), "redirects without end"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				srv := model.Start(t, model.Script{Steps: []model.Step{tt.step}, Routes: []model.Route{
					{Path: "/v2/messages", Reply: *to(307, "/v2/messages").Reply},
				}})
				newRig(t, p, baseOf(p, srv.URL()), nil).ask("hi").failed(t, exec.CodeUnreachable, tt.words)
			})
		}
		t.Run("within the server", func(t *testing.T) {
			path := "/v3" + strings.TrimPrefix(infoPath(t, p), "/v1")
			srv := model.Start(t, model.Script{Key: testKey, Routes: []model.Route{
				{Path: infoPath(t, p), Reply: *to(308, path).Reply},
			}, Default: &model.Step{Blocks: []model.Block{text("ok")}}})
			newRig(t, p, baseOf(p, srv.URL()), nil).ask("hi").expect(t, "assistant(ok) final")
			if len(srv.Requests()) != 2 {
				t.Fatalf("%d requests", len(srv.Requests()))
			}
			if got := srv.Requests()[1]; got.Path != path || got.LastUser != "hi" {
				t.Errorf("the second request is %s %s", got.Path, got.Raw)
			}
		})
	})
	t.Run("rules", func(t *testing.T) {
		for _, tt := range []struct {
			from, to string
			ok       bool
		}{
			{"https://a/x", "/y", true},
			{"https://a/x", "https://a/y", true},
			{"http://a/x", "https://a/x", true},
			{"https://a/x", "http://a/x", false},
			{"http://a:80/x", "https://a:81/x", false},
			{"https://a/x", "https://a:8443/x", false},
			{"https://a/x", "https://a.evil/x", false},
			{"https://a/x", "https://b@a.evil/x", false},
		} {
			base, bad := baseURL(exec.Endpoint{BaseURL: tt.from})
			if bad != nil {
				t.Fatal(bad)
			}
			if _, err := redirect(exec.Endpoint{}, base, tt.to, 307); (err == nil) != tt.ok {
				t.Errorf("%s to %s: %v", tt.from, tt.to, err)
			}
		}
	})
}

func infoPath(t *testing.T, p Protocol) string {
	t.Helper()
	base, bad := baseURL(exec.Endpoint{BaseURL: baseOf(p, "http://h")})
	if bad != nil {
		t.Fatal(bad)
	}
	info, _ := infoOf(p)
	return info.codec.address(base).Path
}

func TestManifest(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		a := New(provider.Host{}, p)
		m := a.Manifest()
		if m.ID != string(p) || m.Protocol != string(p) || m.Conversation != exec.ConversationController || !m.NeedsEndpoint ||
			len(m.Efforts) == 0 || len(m.Attachments.MediaTypes) == 0 || m.Attachments.MaxBytes == 0 {
			t.Errorf("manifest %+v", m)
		}
		f := a.Facets()
		if f.Execution == nil || f.Catalog == nil || f.SingleQuery == nil || !f.Compaction ||
			f.History != nil || f.Forking != nil || f.Steering || f.Permissions || f.Auth != nil || f.Commands != nil {
			t.Errorf("facets %+v", f)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	defer func() {
		if recover() == nil {
			t.Error("an unknown protocol was taken")
		}
	}()
	New(provider.Host{}, "telepathy")
}
