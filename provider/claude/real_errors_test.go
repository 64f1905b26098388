package claude_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestErrorsOfTheModel(t *testing.T) {
	cases := []struct {
		name    string
		reply   model.Reply
		code    exec.Code
		retried bool
	}{
		// First, since with something to compact it is compacted.
		{"the 413", model.Reply{Status: 413, Type: "request_too_large", Message: "Request too large"}, exec.CodeTooLarge, false},
		{"the 401", model.Reply{Status: 401, Type: "authentication_error", Message: "invalid x-api-key"}, exec.CodeRefused, true},
		{"the 403", model.Reply{Status: 403, Type: "permission_error", Message: "forbidden"}, exec.CodeRefused, false},
		{"the 400", model.Reply{Status: 400, Type: "invalid_request_error", Message: "something is wrong"}, exec.CodeModelError, false},
		{"the credit", model.Reply{Status: 400, Type: "invalid_request_error", Message: "Your credit balance is too low to access the Anthropic API."}, exec.CodeQuota, false},
		{"the 404", model.Reply{Status: 404, Type: "not_found_error", Message: "model: claude-x"}, exec.CodeUnknownModel, false},
		{"the 429", model.Reply{Status: 429, Type: "rate_limit_error", Message: "Too many requests", Headers: map[string]string{"retry-after": "1"}}, exec.CodeRateLimited, true},
		{"the 500", model.Reply{Status: 500, Type: "api_error", Message: "Internal server error"}, exec.CodeModelError, true},
		{"the 529", model.Reply{Status: 529, Type: "overloaded_error", Message: "Overloaded"}, exec.CodeOverloaded, true},
	}
	each(t, func(t *testing.T, c cli) {
		s := script()
		s.Steps = append(s.Steps, model.Step{Match: &model.Match{LastUser: "and now"}, Blocks: []model.Block{{Text: "recovered"}}})
		// The messages that failed stay in the conversation, so the last counts.
		for _, tt := range slices.Backward(cases) {
			s.Steps = append(s.Steps, model.Step{Times: -1, Match: &model.Match{LastUser: tt.name}, Reply: &tt.reply})
		}
		w := newWorld(t, c, s)
		ch := w.chat()
		for _, tt := range cases {
			run := ch.start(tt.name)
			end := ch.rec.waitEnd(run)
			e := end.Error
			if end.Phase != row.RunFailed || e.Code != tt.code {
				t.Fatalf("%s: %s %+v, want %s", tt.name, end.Phase, e, tt.code)
			}
			if e.Message == "" || e.Dispatched != exec.WasDispatched || strings.Contains(e.Message, "key-of-the-test") {
				t.Errorf("%s: %+v", tt.name, e)
			}
			if e.Hint == "" && tt.name != "the 400" {
				t.Errorf("%s has no hint: %+v", tt.name, e)
			}
			if tt.code == exec.CodeRateLimited && e.RetryAfterMs <= 0 {
				t.Errorf("%s has no time to wait: %+v", tt.name, e)
			}
			want := ""
			if tt.retried {
				want = "notice API_RETRY\n"
			}
			if got := brief(ch.rec.rows(run)); got != want {
				t.Errorf("%s: rows %q", tt.name, got)
			}
		}
		// The process lives through all of it.
		if got := brief(ch.rec.rows(ch.say("and now"))); got != "assistant \"recovered\" final\n" {
			t.Error(got)
		}
		if n := len(w.pids()); n != 1 {
			t.Errorf("%d processes", n)
		}
	})
}

func TestPromptTooLong(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(model.Step{Times: -1, Reply: &model.Reply{
			Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 210000 tokens > 200000 maximum",
		}}))
		ch := w.chat()
		ch.wantFailure(ch.start("go"), exec.CodeContextOverflow)
	})
}

func TestStreamCut(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		const stop = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
		for name, step := range map[string]model.Step{
			"truncated": {Times: -1, Blocks: []model.Block{{Text: "half an"}, {Raw: stop}}, End: model.EndTruncate},
			"error":     {Times: -1, Blocks: []model.Block{{Text: "half an"}, {Raw: stop}}, End: model.EndError, Fail: &model.Fail{Type: "api_error", Message: "broken"}},
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, c, script(step))
				ch := w.chat()
				run := ch.start("go")
				end := ch.wantEnd(run, row.RunFailed)
				if end.Error.Code != exec.CodeTruncated && (name != "error" || end.Error.Code != exec.CodeModelError) {
					t.Errorf("%+v", end.Error)
				}
				got := brief(ch.rec.rows(run))
				if !strings.Contains(got, "half an") && name == "truncated" {
					t.Errorf("what had arrived is lost: %s", got)
				}
				if strings.Contains(got, "final") {
					t.Errorf("half an answer is final: %s", got)
				}
			})
		}
	})
}

func TestBrokenStreamIsAskedForAgain(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		// The stream ends inside a block; the program then asks without one.
		w := newWorld(t, c, script(model.Step{Times: -1, Blocks: []model.Block{{Text: "the answer"}}, End: model.EndTruncate}))
		ch := w.chat()
		run := ch.say("go")
		got := strings.ReplaceAll(brief(ch.rec.rows(run)), "notice API_RETRY\n", "")
		if got != "assistant \"the answer\" final\n" {
			t.Error(got)
		}
		// Nothing of the broken attempts is shown any more.
		shown := map[string]string{}
		ch.rec.mu.Lock()
		defer ch.rec.mu.Unlock()
		for _, e := range ch.rec.events {
			if e.live != nil {
				shown[e.live.PartID] = shown[e.live.PartID][:e.live.Offset] + e.live.Text
			}
		}
		for part, text := range shown {
			if text != "" {
				t.Errorf("%s still shows %q", part, text)
			}
		}
	})
}

func TestUnreachable(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		w := newWorld(t, c, model.Script{}, "ANTHROPIC_BASE_URL=http://"+l.Addr().String())
		ch := w.chat()
		e := ch.wantFailure(ch.start("go"), exec.CodeUnreachable)
		if e.Hint == "" {
			t.Errorf("%+v", e)
		}
	})
}

func TestNotSignedIn(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, model.Script{}, "ANTHROPIC_API_KEY")
		ch := w.chat()
		e := ch.wantFailure(ch.start("go"), exec.CodeNotSignedIn)
		if !strings.Contains(e.Hint, "claude auth login") {
			t.Errorf("%+v", e)
		}
		if n := len(w.model.Calls(model.CallMain)); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestStopWhileRetrying(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(model.Step{Times: -1, Reply: &model.Reply{
			Status: 429, Type: "rate_limit_error", Message: "slow down", Headers: map[string]string{"retry-after": "60"},
		}}), "CLAUDE_CODE_MAX_RETRIES=5")
		ch := w.chat()
		run := ch.start("go")
		ch.rec.waitRow("notice", func(r row.Row) bool { n, ok := r.Body.(*row.Notice); return ok && n.Code == "API_RETRY" })
		if err := ch.steer(run, "are you there?"); err != nil {
			t.Errorf("steer while waiting: %v", err)
		}
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
	})
}
