package direct

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"garcon/proto/row"
)

// anthropicCodec is Anthropic Messages.
type anthropicCodec struct{}

const (
	anthropicVersion = "2023-06-01"
	anthropicHost    = "api.anthropic.com"

	// anthropicMaxTokens is the limit for an answer, which the protocol wants,
	// when the user sets none. Older models allow less and say how much.
	anthropicMaxTokens = 16384
	// answerRoom is what is left for the answer beside a budget for thinking,
	// in tokens.
	answerRoom = 8192
	// minBudget is the smallest budget for thinking that the protocol allows.
	minBudget = 1024

	// fieldAdaptive stands for thinking of the newer form: an effort instead
	// of a budget. fieldThinking stands for thinking at all.
	fieldAdaptive = "adaptive"
	fieldThinking = "thinking"
)

// budgets are what the efforts mean to models that want a budget, in tokens.
var budgets = map[string]int{"low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 32768}

// root returns the base without what users append to it.
func (anthropicCodec) root(base *url.URL) *url.URL {
	path := strings.TrimRight(base.Path, "/")
	path = strings.TrimSuffix(path, "/messages")
	return withPath(base, strings.TrimSuffix(path, "/v1"))
}

func (c anthropicCodec) address(base *url.URL) *url.URL {
	return c.root(base).JoinPath("v1", "messages")
}

func (c anthropicCodec) models(base *url.URL) *url.URL {
	u := c.root(base).JoinPath("v1", "models")
	q := u.Query()
	q.Set("limit", "1000")
	u.RawQuery = q.Encode()
	return u
}

func (anthropicCodec) authorize(h http.Header, key string, q quirks) {
	h.Set("Anthropic-Version", anthropicVersion)
	switch {
	case key == "":
	case q.bearer:
		bearer(h, key)
	default:
		h.Set("X-Api-Key", key)
	}
}

type anthropicRequest struct {
	Model        string             `json:"model"`
	MaxTokens    int                `json:"max_tokens"`
	System       string             `json:"system,omitempty"`
	Messages     []anthropicMessage `json:"messages"`
	Stream       bool               `json:"stream"`
	Thinking     *anthropicThinking `json:"thinking,omitempty"`
	OutputConfig *anthropicOutput   `json:"output_config,omitempty"`
}

type anthropicThinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens,omitempty"`
}

type anthropicOutput struct {
	Effort string `json:"effort"`
}

type anthropicMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type anthropicBlock struct {
	Type   string           `json:"type"`
	Text   string           `json:"text,omitempty"`
	Source *anthropicSource `json:"source,omitempty"`
}

type anthropicSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

func (anthropicCodec) body(t turn, q quirks, _ string) any {
	r := anthropicRequest{Model: t.model, System: t.system, Stream: t.stream}
	for _, m := range t.messages {
		r.Messages = append(r.Messages, anthropicMessage{m.role, anthropicContent(m)})
	}
	limit, explicit := t.maxTokens, t.maxTokens > 0
	if !explicit {
		limit = anthropicMaxTokens
	}
	if q.maxTokens > 0 {
		limit, explicit = min(limit, q.maxTokens), true
	}
	switch {
	case t.effort == "" || q.has(fieldThinking):
	case !q.has(fieldAdaptive):
		r.Thinking, r.OutputConfig = &anthropicThinking{Type: fieldAdaptive}, &anthropicOutput{t.effort}
	default:
		budget, ok := budgets[t.effort]
		if !ok {
			budget = budgets["medium"]
		}
		if !explicit {
			limit = max(limit, budget+answerRoom)
		}
		if budget = min(budget, max(limit-answerRoom, limit/2)); budget >= minBudget {
			r.Thinking = &anthropicThinking{Type: "enabled", Budget: budget}
		}
	}
	r.MaxTokens = limit
	return r
}

func anthropicContent(m message) any {
	if text, ok := m.onlyText(); ok {
		return text
	}
	blocks := make([]anthropicBlock, 0, len(m.parts))
	for _, p := range m.parts {
		if p.image != nil {
			blocks = append(blocks, anthropicBlock{
				Type: "image", Source: &anthropicSource{"base64", p.image.mediaType, p.image.base64()},
			})
			continue
		}
		blocks = append(blocks, anthropicBlock{Type: "text", Text: p.text})
	}
	return blocks
}

// tokenLimit finds the largest answer in a complaint such as "max_tokens:
// 16384 > 8192, which is the maximum allowed number of output tokens".
var tokenLimit = regexp.MustCompile(`max_tokens: (\d+) > (\d+)`)

func (c anthropicCodec) adapt(t turn, q quirks, host string, e apiError) (lesson, bool) {
	if q.maxTokens == 0 && e.status == http.StatusBadRequest {
		if m := tokenLimit.FindStringSubmatch(e.message); m != nil {
			if n, err := strconv.Atoi(m[2]); err == nil && n > 0 {
				return lesson{model: true, max: n}, true
			}
		}
	}
	// Servers that took over the protocol often want a bearer token.
	if e.status == http.StatusUnauthorized && !q.bearer && host != anthropicHost {
		return lesson{bearer: true}, true
	}
	if t.effort == "" || q.has(fieldThinking) {
		return lesson{}, false
	}
	refused := func(fields ...string) bool { return slices.ContainsFunc(fields, e.refusesField) }
	if !q.has(fieldAdaptive) {
		return lesson{model: true, refused: fieldAdaptive},
			refused(fieldAdaptive, fieldThinking, "thinking.type", "output_config", "effort")
	}
	return lesson{model: true, refused: fieldThinking}, refused(fieldThinking, "budget_tokens")
}

func (anthropicCodec) omits(t turn, q quirks, _ string) (notes []string) {
	if t.effort != "" && q.has(fieldThinking) {
		notes = append(notes, noteEffort)
	}
	if q.maxTokens > 0 && t.maxTokens > q.maxTokens {
		notes = append(notes, fmt.Sprintf("The limit for answers was lowered to %d tokens, the most the model allows.", q.maxTokens))
	}
	return notes
}

// anthropicEvent holds what is used of all kinds of events.
type anthropicEvent struct {
	Type    string                 `json:"type"`
	Index   int                    `json:"index"`
	Message *anthropicReply        `json:"message"`
	Block   *anthropicContentBlock `json:"content_block"`
	Delta   struct {
		Type       string      `json:"type"`
		Text       lenientText `json:"text"`
		Thinking   lenientText `json:"thinking"`
		StopReason lenientText `json:"stop_reason"`
	} `json:"delta"`
	Usage *anthropicUsage `json:"usage"`
}

type anthropicContentBlock struct {
	Type     string      `json:"type"`
	Text     lenientText `json:"text"`
	Thinking lenientText `json:"thinking"`
}

// anthropicReply is a message as a whole.
type anthropicReply struct {
	Type       string                  `json:"type"`
	Content    []anthropicContentBlock `json:"content"`
	StopReason lenientText             `json:"stop_reason"`
	Usage      *anthropicUsage         `json:"usage"`
}

// anthropicUsage is cumulative: a later one replaces what it has.
type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	Output     *int64 `json:"output_tokens"`
}

type anthropicDecoder struct {
	sink    sink
	stopped bool
	done    bool
	out     finish
}

func (anthropicCodec) stream(s sink) decoder { return &anthropicDecoder{sink: s} }

func (d *anthropicDecoder) ended() bool    { return d.done }
func (d *anthropicDecoder) settled() bool  { return d.stopped || d.done }
func (d *anthropicDecoder) result() finish { return d.out }
func (d *anthropicDecoder) close()         {}

func (d *anthropicDecoder) event(raw event) *failure {
	var e anthropicEvent
	if json.Unmarshal(raw.data, &e) != nil {
		return errMalformed
	}
	kind := e.Type
	if kind == "" {
		kind = raw.name
	}
	switch kind {
	case "message_start":
		if e.Message != nil {
			d.usage(e.Message.Usage)
		}
	case "content_block_start":
		if e.Block != nil {
			return d.block(e.Index, *e.Block)
		}
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta":
			return d.text(string(e.Delta.Text))
		case "thinking_delta":
			return d.thinking(e.Index, string(e.Delta.Thinking))
		}
	case "message_delta":
		d.usage(e.Usage)
		d.reason(string(e.Delta.StopReason))
	case "message_stop":
		d.done = true
	case "error":
		var api apiError
		if !jsonError(raw.data, &api) {
			return errMalformed
		}
		return &failure{api: &api}
	}
	return nil
}

// text adds to the answer. Blocks are not told apart: a citation or a server
// tool cuts one answer into many.
func (d *anthropicDecoder) text(text string) *failure {
	return d.sink.add(row.KindAssistant, "", text)
}

func (d *anthropicDecoder) thinking(index int, text string) *failure {
	return d.sink.add(row.KindReasoning, strconv.Itoa(index), text)
}

func (d *anthropicDecoder) block(index int, b anthropicContentBlock) *failure {
	switch b.Type {
	case "text":
		return d.text(string(b.Text))
	case "thinking":
		return d.thinking(index, string(b.Thinking))
	}
	return nil
}

func (d *anthropicDecoder) reason(reason string) {
	if reason == "" {
		return
	}
	d.stopped = true
	switch reason {
	case "max_tokens":
		d.out.stop = stopLength
	case "refusal":
		d.out.stop = stopRefused
	case "pause_turn":
		d.out.stop = stopPaused
	case "model_context_window_exceeded":
		d.out.stop = stopContext
	case "tool_use":
		d.out.stop = stopTool
	}
}

func (d *anthropicDecoder) usage(u *anthropicUsage) {
	if u == nil {
		return
	}
	if d.out.usage == nil {
		d.out.usage = &row.Usage{}
	}
	out := d.out.usage
	for _, c := range []struct {
		from *int64
		to   *int64
	}{
		{u.Input, &out.InputTokens},
		{u.CacheWrite, &out.CacheWriteTokens},
		{u.CacheRead, &out.CacheReadTokens},
		{u.Output, &out.OutputTokens},
	} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	out.ContextTokens = out.InputTokens + out.CacheWriteTokens + out.CacheReadTokens + out.OutputTokens
}

func (anthropicCodec) whole(data []byte, s sink) (finish, *failure) {
	var r anthropicReply
	if json.Unmarshal(data, &r) != nil {
		return finish{}, errMalformed
	}
	var api apiError
	if r.Content == nil && jsonError(data, &api) {
		return finish{}, &failure{api: &api}
	}
	if r.Content == nil {
		return finish{}, errMalformed
	}
	d := &anthropicDecoder{sink: s}
	for i, b := range r.Content {
		if f := d.block(i, b); f != nil {
			return d.out, f
		}
	}
	d.usage(r.Usage)
	d.reason(string(r.StopReason))
	return d.out, nil
}
