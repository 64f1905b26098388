package model

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// answer is one answer in the making.
type answer struct {
	server  *Server
	request *Request
	step    Step
	w       http.ResponseWriter
	ctx     context.Context
	stream  *stream
}

// encoder spells an answer in one protocol.
type encoder interface {
	// whole returns the answer as one JSON object.
	whole() any
	// begin sends what comes before the blocks.
	begin() error
	// block sends one block of text, thinking, refusal or tool.
	block(i int, b Block) error
	// end sends what comes after the blocks.
	end() error
	// fail sends the protocol's error event.
	fail(f Fail) error
}

func (a *answer) serve(step *Step, route *Route) {
	r := a.request
	switch {
	case route != nil:
		a.must(a.server.pass(a.ctx, route.Wait))
		a.reply(route.Reply)
	case r.Call == CallOther:
		a.other()
	case !a.server.authorized(r):
		a.reply(Reply{
			Status: http.StatusUnauthorized, Type: "authentication_error",
			Message: "invalid x-api-key", Code: "invalid_api_key",
		})
	case r.Call == CallModels:
		a.models()
	case r.Call == CallCount:
		a.server.mu.Lock()
		n := a.server.script.CountTokens
		a.server.mu.Unlock()
		if n == 0 {
			n = 100
		}
		a.json(http.StatusOK, map[string]any{"input_tokens": n})
	case len(r.Messages) == 0:
		a.reply(Reply{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: "messages: field required"})
	case step == nil:
		a.reply(Reply{
			Status: http.StatusBadRequest, Type: "invalid_request_error",
			Message: fmt.Sprintf("the script has no step for this request: %.200q", r.LastUser),
		})
	default:
		a.run(*step)
	}
}

func (a *answer) run(step Step) {
	if step.Answer != nil {
		step = step.Answer(a.request)
		if err := step.validate(); err != nil {
			a.reply(Reply{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: err.Error()})
			return
		}
	}
	a.step = step
	a.must(a.server.pass(a.ctx, step.Wait))
	if step.Reply != nil {
		a.reply(*step.Reply)
		return
	}
	enc := a.encoder()
	if !a.request.Stream || step.Wire.JSON {
		a.wholeJSON(enc)
		return
	}
	a.stream = newStream(a.ctx, a.w, step.Wire, a.request.N)
	defer a.stream.close()
	a.must(a.streamBlocks(enc))
	switch step.End {
	case "":
		a.must(enc.end())
	case EndError:
		a.must(enc.fail(*step.Fail))
	case EndStall:
		<-a.ctx.Done()
		a.must(a.ctx.Err())
	case EndTruncate:
	case EndCut, EndReset:
		a.drop(step.End == EndReset)
	}
}

// must ends the handler when err is not nil: the client is gone or the server
// closes. Returning would make net/http end the body as if it were complete.
func (a *answer) must(err error) {
	if err != nil {
		// A write can fail before the request's context has noticed.
		a.server.hungUp(a.request)
		panic(http.ErrAbortHandler)
	}
}

func (a *answer) encoder() encoder {
	switch a.request.Protocol {
	case Anthropic:
		return &anthropicEncoder{a}
	case Chat:
		return &chatEncoder{answer: a}
	default:
		return &responsesEncoder{answer: a}
	}
}

func (a *answer) wholeJSON(enc encoder) {
	for _, b := range a.step.Blocks {
		a.must(a.server.pass(a.ctx, b.Wait))
		a.must(a.server.pass(a.ctx, b.Hold))
	}
	switch a.step.End {
	case EndStall:
		<-a.ctx.Done()
		a.must(a.ctx.Err())
	case EndCut, EndReset:
		a.drop(a.step.End == EndReset)
	case EndError:
		a.reply(Reply{Type: a.step.Fail.Type, Message: a.step.Fail.Message, Code: a.step.Fail.Code})
	default:
		setHeaders(a.w.Header(), a.step.Wire.Headers)
		a.json(http.StatusOK, enc.whole())
	}
}

func (a *answer) streamBlocks(enc encoder) error {
	if err := enc.begin(); err != nil {
		return err
	}
	index := 0
	for _, b := range a.step.Blocks {
		if err := a.server.pass(a.ctx, b.Wait); err != nil {
			return err
		}
		if b.Comment != "" || b.Raw != "" {
			for range max(b.Repeat, 1) {
				if err := a.sleep(b.DelayMs); err != nil {
					return err
				}
				raw := b.Raw
				if raw == "" {
					raw = ": " + b.Comment + a.stream.eol + a.stream.eol
				}
				if err := a.stream.write([]byte(raw)); err != nil {
					return err
				}
			}
			continue
		}
		if b.Tool == nil && b.text() == "" {
			continue
		}
		if err := enc.block(index, b); err != nil {
			return err
		}
		index++
	}
	return nil
}

// chunks hands the text of a block to send in pieces, with the block's delays
// and gates.
func (a *answer) chunks(b Block, text string, send func(string) error) error {
	for i, piece := range split(text, b.Chunks) {
		if b.Hold != "" && i == b.HoldAfter {
			if err := a.server.pass(a.ctx, b.Hold); err != nil {
				return err
			}
		}
		if err := a.sleep(b.DelayMs); err != nil {
			return err
		}
		if err := send(piece); err != nil {
			return err
		}
	}
	if b.Hold != "" {
		// A hold behind the last chunk keeps the block open.
		return a.server.pass(a.ctx, b.Hold)
	}
	return nil
}

// defaultChunks is in how many pieces a text goes when the script does not
// say.
const defaultChunks = 2

// split cuts s into at most n pieces of about equal size, between runes.
func split(s string, n int) []string {
	if n == 0 {
		n = defaultChunks
	}
	size := max((len(s)+n-1)/n, 1)
	var out []string
	for len(s) > 0 {
		end := min(size, len(s))
		for end < len(s) && !utf8.RuneStart(s[end]) {
			end++
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out
}

// text is the block's text, repeated as asked.
func (b Block) text() string {
	return strings.Repeat(b.Text+b.Thinking+b.Refusal, max(b.Repeat, 1))
}

func (a *answer) sleep(ms int) error {
	if ms == 0 {
		return a.ctx.Err()
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// drop ends the connection without an end of the body.
func (a *answer) drop(reset bool) {
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (a *answer) other() {
	if a.request.Method == http.MethodHead || a.request.Path == "/api/hello" {
		a.json(http.StatusOK, map[string]any{"message": "hello"})
		return
	}
	a.json(http.StatusNotFound, map[string]any{
		"type":  "error",
		"error": map[string]any{"type": "not_found_error", "message": "no such path", "code": "not_found"},
	})
}

// models answers in a form that clients of all protocols understand.
func (a *answer) models() {
	a.server.mu.Lock()
	ids := slices.Clone(a.server.script.Models)
	a.server.mu.Unlock()
	if len(ids) == 0 {
		ids = []string{"scripted-1"}
	}
	data := []any{}
	for _, id := range ids {
		data = append(data, map[string]any{
			"id": id, "object": "model", "created": 1700000000, "owned_by": "scripted",
			"type": "model", "display_name": id, "created_at": "2023-11-14T22:13:20Z",
		})
	}
	a.json(http.StatusOK, map[string]any{
		"object": "list", "data": data, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1],
	})
}

// reply sends a plain answer; without a body, an error in the protocol's form.
func (a *answer) reply(p Reply) {
	status := p.Status
	if status == 0 {
		status = http.StatusOK
	}
	setHeaders(a.w.Header(), p.Headers)
	switch {
	case p.Text != nil:
		a.w.WriteHeader(status)
		_, _ = a.w.Write([]byte(*p.Text))
	case p.Body != nil:
		a.json(status, p.Body)
	default:
		a.json(status, errorBody(a.request.Protocol, p))
	}
}

func errorBody(protocol Protocol, p Reply) any {
	message := first(p.Message, fmt.Sprintf("scripted status %d", p.Status))
	if protocol == Anthropic || protocol == "" {
		return map[string]any{
			"type": "error", "request_id": "req_scripted",
			"error": map[string]any{"type": first(p.Type, "api_error"), "message": message},
		}
	}
	return map[string]any{"error": map[string]any{
		"message": message, "type": first(p.Type, "api_error"), "param": nil, "code": p.Code,
	}}
}

func (a *answer) json(status int, v any) {
	data, err := encode(v)
	if err != nil {
		http.Error(a.w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := a.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Request-Id", fmt.Sprintf("req_scripted_%d", a.request.N))
	a.w.WriteHeader(status)
	if a.request.Method != http.MethodHead {
		_, _ = a.w.Write([]byte(data))
	}
}
