package direct

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"garcon/proto/row"
)

// chatCodec is Chat Completions.
type chatCodec struct{}

// openAIHost is the one server whose newer models refuse max_tokens; most
// others know nothing else.
const openAIHost = "api.openai.com"

const (
	fieldStreamOptions = "stream_options"
	fieldEffort        = "reasoning_effort"
	fieldMaxTokens     = "max_tokens"
	fieldMaxCompletion = "max_completion_tokens"

	noteEffort = "The reasoning effort was left out: the model does not take one."
	noteLimit  = "The limit for answers was left out: the endpoint does not take one."
)

func (chatCodec) address(base *url.URL) *url.URL {
	if strings.HasSuffix(base.Path, "/chat/completions") {
		return base
	}
	return base.JoinPath("chat", "completions")
}

func (chatCodec) models(base *url.URL) *url.URL {
	base = withPath(base, strings.TrimSuffix(base.Path, "/chat/completions"))
	return base.JoinPath("models")
}

func (chatCodec) authorize(h http.Header, key string, _ quirks) { bearer(h, key) }

func bearer(h http.Header, key string) {
	// Local servers want no key, and some refuse an empty one.
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

type chatRequest struct {
	Model               string             `json:"model"`
	Messages            []chatMessage      `json:"messages"`
	Stream              bool               `json:"stream"`
	StreamOptions       *chatStreamOptions `json:"stream_options,omitempty"`
	ReasoningEffort     string             `json:"reasoning_effort,omitempty"`
	MaxTokens           int                `json:"max_tokens,omitempty"`
	MaxCompletionTokens int                `json:"max_completion_tokens,omitempty"`
}

type chatStreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role string `json:"role"`
	// Content is a string, or a list of parts when there are pictures: many
	// servers know only strings.
	Content any `json:"content"`
}

type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

func (chatCodec) body(t turn, q quirks, host string) any {
	r := chatRequest{Model: t.model, Stream: t.stream}
	if t.system != "" {
		r.Messages = append(r.Messages, chatMessage{"system", t.system})
	}
	for _, m := range t.messages {
		r.Messages = append(r.Messages, chatMessage{m.role, chatContent(m)})
	}
	if t.stream && !q.has(fieldStreamOptions) {
		r.StreamOptions = &chatStreamOptions{IncludeUsage: true}
	}
	if !q.has(fieldEffort) {
		r.ReasoningEffort = t.effort
	}
	switch chatLimitField(t, q, host) {
	case fieldMaxTokens:
		r.MaxTokens = t.maxTokens
	case fieldMaxCompletion:
		r.MaxCompletionTokens = t.maxTokens
	}
	return r
}

// chatLimitField returns the field that carries the limit for the answer, ""
// when there is no limit or the server takes neither.
func chatLimitField(t turn, q quirks, host string) string {
	fields := []string{fieldMaxTokens, fieldMaxCompletion}
	if host == openAIHost {
		fields = []string{fieldMaxCompletion, fieldMaxTokens}
	}
	for _, f := range fields {
		if t.maxTokens > 0 && !q.has(f) {
			return f
		}
	}
	return ""
}

func chatContent(m message) any {
	if text, ok := m.onlyText(); ok {
		return text
	}
	parts := make([]chatPart, 0, len(m.parts))
	for _, p := range m.parts {
		if p.image != nil {
			parts = append(parts, chatPart{Type: "image_url", ImageURL: &chatImage{p.image.dataURL()}})
			continue
		}
		parts = append(parts, chatPart{Type: "text", Text: p.text})
	}
	return parts
}

func (chatCodec) adapt(t turn, q quirks, host string, e apiError) (lesson, bool) {
	if t.stream && !q.has(fieldStreamOptions) && e.refusesField(fieldStreamOptions) {
		return lesson{refused: fieldStreamOptions}, true
	}
	if t.effort != "" && !q.has(fieldEffort) && e.refusesField(fieldEffort) {
		return lesson{model: true, refused: fieldEffort}, true
	}
	if f := chatLimitField(t, q, host); f != "" && e.refusesField(f) {
		return lesson{model: true, refused: f}, true
	}
	return lesson{}, false
}

func (chatCodec) omits(t turn, q quirks, host string) (notes []string) {
	if t.effort != "" && q.has(fieldEffort) {
		notes = append(notes, noteEffort)
	}
	if t.maxTokens > 0 && chatLimitField(t, q, host) == "" {
		notes = append(notes, noteLimit)
	}
	return notes
}

// chatChunk is a chunk of a stream, or the whole answer. Members whose type
// differs between servers are kept raw.
type chatChunk struct {
	Choices []struct {
		Index        int             `json:"index"`
		Delta        *chatDelta      `json:"delta"`
		Message      *chatDelta      `json:"message"`
		FinishReason json.RawMessage `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatDelta struct {
	Content          json.RawMessage `json:"content"`
	Refusal          json.RawMessage `json:"refusal"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
}

type chatDecoder struct {
	sink  sink
	think thinkSplitter
	// spelling is the member that reasoning came in first. Servers that send
	// two mean the same text twice.
	spelling string
	finished bool
	done     bool
	refused  bool
	out      finish
}

func (chatCodec) stream(s sink) decoder { return &chatDecoder{sink: s} }

func (d *chatDecoder) ended() bool    { return d.done }
func (d *chatDecoder) settled() bool  { return d.finished || d.done }
func (d *chatDecoder) result() finish { return d.out }

// close may fail only because the answer is too large by the few bytes of half
// a tag.
func (d *chatDecoder) close() { _ = d.flush() }

func (d *chatDecoder) event(e event) *failure {
	data := strings.TrimSpace(string(e.data[:min(len(e.data), len("[DONE]")+2)]))
	if data == "[DONE]" {
		d.done = true
		return d.flush()
	}
	var c chatChunk
	if json.Unmarshal(e.data, &c) != nil {
		return errMalformed
	}
	return d.chunk(c, e.data, e.name)
}

// chunk takes a chunk. raw is the chunk itself and name that of its event.
func (d *chatDecoder) chunk(c chatChunk, raw []byte, name string) *failure {
	// The text of a chunk that also brings an error is still the model's.
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		delta := choice.Delta
		if delta == nil {
			delta = choice.Message
		}
		if delta != nil {
			if f := d.delta(*delta); f != nil {
				return f
			}
		}
		if f := d.reason(textOf(choice.FinishReason)); f != nil {
			return f
		}
	}
	if isSet(c.Usage) {
		d.usage(c.Usage)
	}
	if isSet(c.Error) || name == "error" || len(c.Choices) == 0 && !isSet(c.Usage) {
		var e apiError
		if jsonError(raw, &e) {
			return &failure{api: &e}
		}
	}
	return nil
}

func (d *chatDecoder) delta(m chatDelta) *failure {
	if text := d.reasoning(m); text != "" {
		if f := d.sink.add(row.KindReasoning, "", text); f != nil {
			return f
		}
	}
	if text := textOf(m.Refusal); text != "" {
		d.refused = true
		if f := d.sink.add(row.KindAssistant, "", text); f != nil {
			return f
		}
	}
	return d.content(m.Content)
}

// reasoning returns the reasoning of a delta in the spelling the server began
// with.
func (d *chatDecoder) reasoning(m chatDelta) string {
	for _, s := range []struct {
		name string
		text string
	}{
		{"reasoning_content", textOf(m.ReasoningContent)},
		{"reasoning", textOf(m.Reasoning)},
		{"reasoning_details", detailsText(m.ReasoningDetails)},
	} {
		if s.text != "" && (d.spelling == "" || d.spelling == s.name) {
			d.spelling = s.name
			return s.text
		}
	}
	return ""
}

// content takes content: a text, null, or a list of parts.
func (d *chatDecoder) content(data json.RawMessage) *failure {
	if text := textOf(data); text != "" {
		return d.split(text)
	}
	if len(data) == 0 || data[0] != '[' {
		return nil
	}
	var parts []struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		var f *failure
		if p.Type == "thinking" {
			text := textOf(p.Thinking)
			if text == "" {
				text = detailsText(p.Thinking)
			}
			f = d.sink.add(row.KindReasoning, "", text)
		} else if text := textOf(p.Text); text != "" {
			f = d.split(text)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

// split hands content on, with reasoning in tags taken apart.
func (d *chatDecoder) split(text string) *failure {
	var failed *failure
	d.think.add(text, d.emit(&failed))
	return failed
}

func (d *chatDecoder) flush() *failure {
	var failed *failure
	d.think.flush(d.emit(&failed))
	return failed
}

func (d *chatDecoder) emit(failed **failure) func(bool, string) {
	return func(reasoning bool, text string) {
		kind := row.KindAssistant
		if reasoning {
			kind = row.KindReasoning
		}
		if f := d.sink.add(kind, "", text); f != nil {
			*failed = f
		}
	}
}

// reason takes a finish reason; "" is none yet.
func (d *chatDecoder) reason(reason string) *failure {
	if reason == "" {
		return nil
	}
	if reason == "error" {
		// The error itself is in the same chunk or the next.
		return nil
	}
	d.finished = true
	switch reason {
	case "length", "max_tokens":
		d.out.stop = stopLength
	case "content_filter", "refusal":
		d.out.stop = stopRefused
	case "tool_calls", "function_call":
		d.out.stop = stopTool
	default:
		// Servers have more words for a good end than can be listed.
		d.out.stop = stopEnd
	}
	if d.refused && d.out.stop == stopEnd {
		d.out.stop = stopRefused
	}
	return d.flush()
}

func (d *chatDecoder) usage(data json.RawMessage) {
	var u struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		PromptD    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionD struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		// Cost is OpenRouter's, in credits of one US dollar.
		Cost float64 `json:"cost"`
	}
	if json.Unmarshal(data, &u) != nil || u.Prompt == 0 && u.Completion == 0 {
		return
	}
	d.out.usage = openAIUsage(u.Prompt, u.PromptD.Cached, u.Completion, u.CompletionD.Reasoning)
	d.out.usage.CostUSD = u.Cost
}

// openAIUsage counts like the rows do: input is what was not in the cache.
func openAIUsage(input, cached, output, reasoning int64) *row.Usage {
	return &row.Usage{
		InputTokens:     max(input-cached, 0),
		CacheReadTokens: cached,
		OutputTokens:    output,
		ReasoningTokens: reasoning,
		ContextTokens:   input + output,
	}
}

func (c chatCodec) whole(data []byte, s sink) (finish, *failure) {
	var chunk chatChunk
	if json.Unmarshal(data, &chunk) != nil {
		return finish{}, errMalformed
	}
	d := &chatDecoder{sink: s}
	if f := d.chunk(chunk, data, ""); f != nil {
		return d.out, f
	}
	if len(chunk.Choices) == 0 {
		return d.out, errMalformed
	}
	return d.out, d.flush()
}

// textOf returns a JSON text, "" for anything else.
func textOf(data json.RawMessage) string {
	if len(data) == 0 || data[0] != '"' {
		return ""
	}
	var s string
	if json.Unmarshal(data, &s) != nil {
		return ""
	}
	return s
}

// detailsText joins the texts and summaries of a list of parts. Encrypted ones
// have neither.
func detailsText(data json.RawMessage) string {
	var parts []struct {
		Text    lenientText `json:"text"`
		Summary lenientText `json:"summary"`
	}
	if len(data) == 0 || data[0] != '[' || json.Unmarshal(data, &parts) != nil {
		return ""
	}
	var out strings.Builder
	for _, p := range parts {
		if p.Text != "" {
			out.WriteString(string(p.Text))
		} else {
			out.WriteString(string(p.Summary))
		}
	}
	return out.String()
}
