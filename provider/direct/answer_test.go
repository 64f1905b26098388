package direct

import (
	"fmt"
	"strings"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"

	"github.com/google/go-cmp/cmp"
)

func text(s string) model.Block     { return model.Block{Text: s} }
func thinking(s string) model.Block { return model.Block{Thinking: s} }

func TestAnswerBecomesRows(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		r, srv := scripted(t, p, model.Step{
			Blocks: []model.Block{{Thinking: "Let me see.", Chunks: 4}, {Text: "Grüße, 世界 😀.", Chunks: 7}},
			Usage:  &model.Usage{Input: 10, Output: 8, CacheRead: 5, Reasoning: 3},
		})
		rec := r.ask("Say hello")
		rec.expect(t, "reasoning(Let me see.)", "assistant(Grüße, 世界 😀.) final")
		want := &row.Usage{InputTokens: 10, OutputTokens: 8, CacheReadTokens: 5, ReasoningTokens: 3, ContextTokens: 23}
		if p == Anthropic {
			want.ReasoningTokens = 0
		}
		if diff := cmp.Diff(want, rec.terminal.Usage); diff != "" {
			t.Errorf("usage (-want +got):\n%s", diff)
		}
		req := srv.Requests()[0]
		if req.LastUser != "Say hello" || req.Model != "m1" || !req.Stream {
			t.Errorf("request is %s", req.Raw)
		}
		// Not one of each: it streamed.
		if n := len(rec.live); n < 8 {
			t.Errorf("%d live parts", n)
		}
	})
}

func TestRequestsOnTheWire(t *testing.T) {
	image := exec.AttachmentData{Attachment: row.Attachment{Name: "a.png", MediaType: "image/png"}, Data: []byte("PNG")}
	paper := exec.AttachmentData{Attachment: row.Attachment{Name: "b.pdf", MediaType: "application/pdf"}, Data: []byte("PDF")}
	lost := exec.AttachmentData{Attachment: row.Attachment{Name: "c.png", MediaType: "image/png"}}
	for p, want := range map[Protocol]string{
		OpenAIChat: `{"model":"m1","messages":[{"role":"system","content":"Be brief."},` +
			`{"role":"user","content":"one\n\ntwo"},{"role":"assistant","content":"<b> & 1"},` +
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,UE5H"}},` +
			`{"type":"text","text":"[The attachment \"b.pdf\" (application/pdf) is not included.]"},` +
			`{"type":"text","text":"[The attachment \"c.png\" (image/png) is not included.]"},` +
			`{"type":"text","text":"three"}]}],` +
			`"stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high","max_tokens":500}`,
		OpenAIResponses: `{"model":"m1","instructions":"Be brief.","input":[` +
			`{"role":"user","content":[{"type":"input_text","text":"one"},{"type":"input_text","text":"two"}]},` +
			`{"role":"assistant","content":[{"type":"output_text","text":"<b> & 1"}]},` +
			`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,UE5H"},` +
			`{"type":"input_text","text":"[The attachment \"b.pdf\" (application/pdf) is not included.]"},` +
			`{"type":"input_text","text":"[The attachment \"c.png\" (image/png) is not included.]"},` +
			`{"type":"input_text","text":"three"}]}],` +
			`"stream":true,"store":false,"reasoning":{"effort":"high","summary":"auto"},"max_output_tokens":500}`,
		Anthropic: `{"model":"m1","max_tokens":500,"system":"Be brief.","messages":[` +
			`{"role":"user","content":"one\n\ntwo"},{"role":"assistant","content":"<b> & 1"},` +
			`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}},` +
			`{"type":"text","text":"[The attachment \"b.pdf\" (application/pdf) is not included.]"},` +
			`{"type":"text","text":"[The attachment \"c.png\" (image/png) is not included.]"},` +
			`{"type":"text","text":"three"}]}],` +
			`"stream":true,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`,
	} {
		t.Run(string(p), func(t *testing.T) {
			r, srv := scripted(t, p, model.Step{Blocks: []model.Block{text("ok")}})
			l := r.launch("three")
			l.Effort = "high"
			l.Settings = map[string]string{settingInstructions: " Be brief. ", settingMaxTokens: "500"}
			l.Conversation = []exec.Message{
				{Role: "user", Text: "one"},
				{Role: "assistant", Text: " \n "},
				{Role: "user", Text: "two"},
				{Role: "assistant", Text: "<b> & 1"},
			}
			l.Prompt.Attachments = []exec.AttachmentData{image, paper, lost}
			rec := r.run(l)
			rec.expect(t, "notice(attachments-left-out)", "assistant(ok) final")
			req := srv.Requests()[0]
			if diff := cmp.Diff(want, string(req.Raw)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			header, value := "Authorization", "Bearer "+testKey
			if p == Anthropic {
				header, value = "X-Api-Key", testKey
				if req.Header.Get("Anthropic-Version") != "2023-06-01" || req.Header.Get("Authorization") != "" {
					t.Errorf("headers %v", req.Header)
				}
			}
			if req.Header.Get(header) != value || req.Header.Get("Content-Type") != "application/json" ||
				!strings.HasPrefix(req.Header.Get("Accept"), "text/event-stream") {
				t.Errorf("headers %v", req.Header)
			}
		})
	}
}

func TestLeanRequest(t *testing.T) {
	for p, want := range map[Protocol]string{
		OpenAIChat:      `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
		OpenAIResponses: `{"model":"m1","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true,"store":false}`,
		Anthropic:       `{"model":"m1","max_tokens":16384,"messages":[{"role":"user","content":"hi"}],"stream":true}`,
	} {
		t.Run(string(p), func(t *testing.T) {
			srv := model.Start(t, model.Script{Steps: []model.Step{{Blocks: []model.Block{text("ok")}}}})
			r := newRig(t, p, baseOf(p, srv.URL()), nil)
			// An endpoint without a key gets no header for one.
			r.endpoint.ID = "open"
			r.ask("hi").expect(t, "assistant(ok) final")
			req := srv.Requests()[0]
			if diff := cmp.Diff(want, string(req.Raw)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if req.Header.Get("Authorization")+req.Header.Get("X-Api-Key") != "" {
				t.Errorf("headers %v", req.Header)
			}
		})
	}
}

func TestConversationThatBeginsWithAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		r, srv := scripted(t, p, model.Step{Blocks: []model.Block{text("ok")}})
		l := r.launch("go on")
		l.Conversation = []exec.Message{{Role: "assistant", Text: "as I said"}}
		r.run(l).expect(t, "assistant(ok) final")
		messages := srv.Requests()[0].Messages
		if len(messages) != 3 || messages[0].Role != "user" || messages[0].Text != earlierOmitted || messages[1].Text != "as I said" {
			t.Errorf("messages are %+v", messages)
		}
	})
}

func TestChatWire(t *testing.T) {
	answer := "a😀b"
	for name, tt := range map[string]struct {
		wire   model.Wire
		blocks []model.Block
		rows   []string
		usage  bool
	}{
		"without [DONE]":         {wire: model.Wire{NoDone: true}, usage: true},
		"usage on finish chunk":  {wire: model.Wire{Usage: "finish"}, usage: true},
		"usage on every chunk":   {wire: model.Wire{Usage: "every"}, usage: true},
		"usage null":             {wire: model.Wire{Usage: "null"}},
		"usage missing":          {wire: model.Wire{Usage: "none"}},
		"content in parts":       {wire: model.Wire{Content: "parts"}, usage: true},
		"CRLF":                   {wire: model.Wire{LineEnd: "\r\n"}, usage: true},
		"CR":                     {wire: model.Wire{LineEnd: "\r"}, usage: true},
		"byte order mark":        {wire: model.Wire{BOM: true}, usage: true},
		"one byte at a time":     {wire: model.Wire{Drip: 1}, usage: true},
		"gzip":                   {wire: model.Wire{Gzip: true}, usage: true},
		"JSON instead of SSE":    {wire: model.Wire{JSON: true}, usage: true},
		"JSON in an SSE costume": {wire: model.Wire{JSON: true, Headers: map[string]string{"Content-Type": "text/event-stream"}}, usage: true},
		"SSE without its type":   {wire: model.Wire{Headers: map[string]string{"Content-Type": "text/plain"}}, usage: true},
		"comments": {
			blocks: []model.Block{{Comment: "OPENROUTER PROCESSING", Repeat: 3}, {Text: answer, Chunks: 1}, {Comment: "x"}}, usage: true,
		},
		"null content and unknown members": {
			blocks: []model.Block{
				{Raw: "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null,\"x\":1}}],\"y\":[]}\n\n"},
				{Raw: "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other choice\"}}]}\n\nid: 7\nretry: 10\nevent: ping\ndata: {}\n\n"},
				text(answer),
			}, usage: true,
		},
		"garbage in between": {
			blocks: []model.Block{{Raw: "data: {not json\n\ndata: also not\n\n"}, text(answer)},
			rows:   []string{"notice(malformed-output)", "assistant(" + answer + ") final"}, usage: true,
		},
		"no text at all": {
			blocks: []model.Block{thinking("hmm")}, rows: []string{"reasoning(hmm)", "notice(empty-answer)"}, usage: true,
		},
		"[DONE] without a finish reason": {
			blocks: []model.Block{{Raw: "data: {\"choices\":[{\"delta\":{\"content\":\"" + answer + "\"}}]}\n\ndata: [DONE]\n\n"}},
		},
		"last event without its blank line": {
			blocks: []model.Block{{Raw: "data: {\"choices\":[{\"delta\":{\"content\":\"" + answer + "\"},\"finish_reason\":\"stop\"}]}"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.blocks == nil {
				tt.blocks = []model.Block{{Text: answer, Chunks: 3}}
			}
			if tt.rows == nil {
				tt.rows = []string{"assistant(" + answer + ") final"}
			}
			end := model.End("")
			if strings.HasPrefix(name, "last event") {
				end = model.EndTruncate
			}
			r, _ := scripted(t, OpenAIChat, model.Step{Blocks: tt.blocks, Wire: tt.wire, End: end})
			rec := r.ask("hi")
			rec.expect(t, tt.rows...)
			if got := rec.terminal.Usage; (got != nil) != tt.usage || tt.usage && got.InputTokens != 42 {
				t.Errorf("usage is %+v", got)
			}
		})
	}
}

func TestSpellingsOfReasoning(t *testing.T) {
	for _, spelling := range []string{"reasoning_content", "reasoning", "both", "reasoning_details", "parts", "think"} {
		for _, drip := range []int{0, 1} {
			for _, whole := range []bool{false, true} {
				name := fmt.Sprintf("%s drip=%d json=%v", spelling, drip, whole)
				t.Run(name, func(t *testing.T) {
					if whole && spelling == "parts" {
						// A whole answer has one content, and it holds the text.
						return
					}
					r, _ := scripted(t, OpenAIChat, model.Step{
						Blocks: []model.Block{{Thinking: "2 < 3 </thin", Chunks: 6}, {Text: "yes <think>", Chunks: 5}},
						Wire:   model.Wire{Reasoning: spelling, Drip: drip, JSON: whole},
					})
					r.ask("hi").expect(t, "reasoning(2 < 3 </thin)", "assistant(yes <think>) final")
				})
			}
		}
	}
	t.Run("responses reasoning text", func(t *testing.T) {
		r, _ := scripted(t, OpenAIResponses, model.Step{
			Blocks: []model.Block{thinking("hmm"), text("yes")}, Wire: model.Wire{Reasoning: "text"},
		})
		r.ask("hi").expect(t, "reasoning(hmm)", "assistant(yes) final")
	})
}

func TestWiresOfTheOtherProtocols(t *testing.T) {
	for _, p := range []Protocol{OpenAIResponses, Anthropic} {
		for name, wire := range map[string]model.Wire{
			"without event lines": {NoEvent: true},
			"CRLF":                {LineEnd: "\r\n"},
			"one byte at a time":  {Drip: 1},
			"gzip":                {Gzip: true},
			"JSON instead of SSE": {JSON: true},
			"with [DONE]":         {Done: true},
			"without deltas":      {NoDeltas: true},
		} {
			t.Run(string(p)+" "+name, func(t *testing.T) {
				r, _ := scripted(t, p, model.Step{
					Blocks: []model.Block{
						{Raw: "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: future\ndata: {\"type\":\"future_event\",\"x\":1}\n\n"},
						thinking("hmm"), text("a😀b"),
					}, Wire: wire,
				})
				rec := r.ask("hi")
				rec.expect(t, "reasoning(hmm)", "assistant(a😀b) final")
				if rec.terminal.Usage == nil || rec.terminal.Usage.InputTokens != 42 {
					t.Errorf("usage is %+v", rec.terminal.Usage)
				}
			})
		}
	}
}

func TestPartsOfAnAnswer(t *testing.T) {
	t.Run("text blocks of one message are one answer", func(t *testing.T) {
		r, _ := scripted(t, Anthropic, model.Step{Blocks: []model.Block{text("It is "), text("blue.")}})
		r.ask("hi").expect(t, "assistant(It is blue.) final")
	})
	t.Run("messages of one response are parts", func(t *testing.T) {
		r, _ := scripted(t, OpenAIResponses, model.Step{Blocks: []model.Block{text("Looking."), thinking("hmm"), text("Blue.")}})
		r.ask("hi").expect(t, "assistant(Looking.)", "reasoning(hmm)", "assistant(Blue.) final")
	})
	t.Run("the last answer is final even before reasoning", func(t *testing.T) {
		r, _ := scripted(t, OpenAIChat, model.Step{Blocks: []model.Block{text("Blue."), thinking("done")}})
		r.ask("hi").expect(t, "assistant(Blue.) final", "reasoning(done)")
	})
	t.Run("blank space around reasoning is nothing", func(t *testing.T) {
		r, _ := scripted(t, OpenAIChat, model.Step{Blocks: []model.Block{text("\n\n"), thinking("hmm"), text("\n\n"), text("    code")}})
		r.ask("hi").expect(t, "reasoning(hmm)", "assistant(    code) final")
	})
	t.Run("summary parts are paragraphs", func(t *testing.T) {
		part := func(i int, s string) string {
			return fmt.Sprintf("data: {\"type\":\"response.reasoning_summary_part.added\",\"output_index\":0,\"summary_index\":%d}\n\n"+
				"data: {\"type\":\"response.reasoning_summary_text.delta\",\"output_index\":0,\"summary_index\":%d,\"delta\":%q}\n\n", i, i, s)
		}
		r, _ := scripted(t, OpenAIResponses, model.Step{Blocks: []model.Block{{Raw: part(0, "one") + part(1, "two")}, text("ok")}})
		rec := r.ask("hi")
		if got := rec.briefs(); got[0] != "reasoning(one\n\ntwo)" {
			t.Errorf("rows are %q", got)
		}
	})
	t.Run("NUL is replaced", func(t *testing.T) {
		r, _ := scripted(t, OpenAIChat, model.Step{Blocks: []model.Block{text("a\x00b")}})
		r.ask("hi").expect(t, "assistant(a\uFFFDb) final")
	})
}

func TestHugeLine(t *testing.T) {
	const size = 20 << 20
	each(t, func(t *testing.T, p Protocol) {
		r, _ := scripted(t, p, model.Step{
			Blocks: []model.Block{{Text: "0123456789abcdef", Repeat: size / 16, Chunks: 1}}, Wire: model.Wire{NoDeltas: true},
		})
		rec := r.ask("hi")
		if rec.terminal.Phase != row.RunCompleted {
			t.Fatalf("ended as %+v", rec.terminal.Error)
		}
		a, ok := rec.rows[0].Body.(*row.Assistant)
		if !ok || !a.Final || len(a.Text) > row.MaxBytes || len(a.Text) < row.MaxBytes/2 ||
			!strings.Contains(a.Text[len(a.Text)-100:], fmt.Sprintf("%d bytes in all", size)) {
			t.Errorf("the row has %d bytes", len(a.Text))
		}
	})
}

func TestStopReasons(t *testing.T) {
	for _, tt := range []struct {
		protocol Protocol
		stop     string
		code     exec.Code
	}{
		{OpenAIChat, "length", exec.CodeTruncated},
		{OpenAIChat, "content_filter", exec.CodeContentRefused},
		{OpenAIChat, "tool_calls", exec.CodeModelError},
		{OpenAIChat, "eos", ""},
		{OpenAIResponses, "max_output_tokens", exec.CodeTruncated},
		{OpenAIResponses, "content_filter", exec.CodeContentRefused},
		{Anthropic, "max_tokens", exec.CodeTruncated},
		{Anthropic, "refusal", exec.CodeContentRefused},
		{Anthropic, "pause_turn", exec.CodeTruncated},
		{Anthropic, "model_context_window_exceeded", exec.CodeContextOverflow},
		{Anthropic, "tool_use", exec.CodeModelError},
		{Anthropic, "stop_sequence", ""},
		{Anthropic, "something new", ""},
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s json=%v", tt.protocol, tt.stop, whole), func(t *testing.T) {
				r, srv := scripted(t, tt.protocol, model.Step{
					Blocks: []model.Block{text("so far")}, Stop: tt.stop, Wire: model.Wire{JSON: whole},
				})
				rec := r.ask("hi")
				if tt.code == "" {
					rec.expect(t, "assistant(so far) final")
					return
				}
				rec.failed(t, tt.code)
				rec.expectRows(t, "assistant(so far) partial")
				if rec.terminal.Usage == nil {
					t.Error("no usage")
				}
				if n := len(srv.Requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
	t.Run("refusals", func(t *testing.T) {
		for _, p := range []Protocol{OpenAIChat, OpenAIResponses} {
			for _, wire := range []model.Wire{{}, {JSON: true}, {NoDeltas: true}} {
				r, _ := scripted(t, p, model.Step{Blocks: []model.Block{{Refusal: "I cannot help."}}, Wire: wire})
				rec := r.ask("hi")
				rec.failed(t, exec.CodeContentRefused)
				rec.expectRows(t, "assistant(I cannot help.) partial")
			}
		}
	})
}
