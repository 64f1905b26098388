package direct

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"garcon/proto/row"
)

// responsesCodec is Responses, without state on the server.
type responsesCodec struct{}

const (
	fieldReasoning = "reasoning"
	fieldSummary   = "reasoning.summary"
	fieldStore     = "store"
	fieldMaxOutput = "max_output_tokens"
)

func (responsesCodec) address(base *url.URL) *url.URL {
	if strings.HasSuffix(base.Path, "/responses") {
		return base
	}
	return base.JoinPath("responses")
}

func (responsesCodec) models(base *url.URL) *url.URL {
	base = withPath(base, strings.TrimSuffix(base.Path, "/responses"))
	return base.JoinPath("models")
}

func (responsesCodec) authorize(h http.Header, key string, _ quirks) { bearer(h, key) }

type responsesRequest struct {
	Model        string              `json:"model"`
	Instructions string              `json:"instructions,omitempty"`
	Input        []responsesItem     `json:"input"`
	Stream       bool                `json:"stream"`
	Store        *bool               `json:"store,omitempty"`
	Reasoning    *responsesReasoning `json:"reasoning,omitempty"`
	MaxOutput    int                 `json:"max_output_tokens,omitempty"`
}

type responsesReasoning struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary,omitempty"`
}

type responsesItem struct {
	Role    string          `json:"role"`
	Content []responsesPart `json:"content"`
}

type responsesPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

func (responsesCodec) body(t turn, q quirks, _ string) any {
	r := responsesRequest{Model: t.model, Instructions: t.system, Stream: t.stream}
	for _, m := range t.messages {
		item := responsesItem{Role: m.role}
		for _, p := range m.parts {
			switch {
			case p.image != nil:
				item.Content = append(item.Content, responsesPart{Type: "input_image", ImageURL: p.image.dataURL()})
			case m.role == roleAssistant:
				item.Content = append(item.Content, responsesPart{Type: "output_text", Text: p.text})
			default:
				item.Content = append(item.Content, responsesPart{Type: "input_text", Text: p.text})
			}
		}
		r.Input = append(r.Input, item)
	}
	if !q.has(fieldStore) {
		r.Store = new(bool)
	}
	if t.effort != "" && !q.has(fieldReasoning) {
		r.Reasoning = &responsesReasoning{Effort: t.effort}
		if !q.has(fieldSummary) {
			r.Reasoning.Summary = "auto"
		}
	}
	if !q.has(fieldMaxOutput) {
		r.MaxOutput = t.maxTokens
	}
	return r
}

func (responsesCodec) adapt(t turn, q quirks, _ string, e apiError) (lesson, bool) {
	if t.effort != "" && !q.has(fieldReasoning) {
		// Organizations that are not verified may not have summaries.
		if !q.has(fieldSummary) && (e.refusesField(fieldSummary) || e.refusesField("summary") ||
			e.status == http.StatusBadRequest && e.says("reasoning summaries")) {
			return lesson{model: true, refused: fieldSummary}, true
		}
		if e.refusesField(fieldReasoning) {
			return lesson{model: true, refused: fieldReasoning}, true
		}
	}
	if !q.has(fieldStore) && e.refusesField(fieldStore) {
		return lesson{refused: fieldStore}, true
	}
	if t.maxTokens > 0 && !q.has(fieldMaxOutput) && e.refusesField(fieldMaxOutput) {
		return lesson{model: true, refused: fieldMaxOutput}, true
	}
	return lesson{}, false
}

func (responsesCodec) omits(t turn, q quirks, _ string) (notes []string) {
	if t.effort != "" && q.has(fieldReasoning) {
		notes = append(notes, noteEffort)
	}
	if t.maxTokens > 0 && q.has(fieldMaxOutput) {
		notes = append(notes, noteLimit)
	}
	return notes
}

// responsesEvent holds what is used of all kinds of events.
type responsesEvent struct {
	Type         string          `json:"type"`
	ItemID       string          `json:"item_id"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        json.RawMessage `json:"delta"`
	Text         json.RawMessage `json:"text"`
	Item         *responsesOut   `json:"item"`
	Response     json.RawMessage `json:"response"`
}

// responsesOut is an output item.
type responsesOut struct {
	Type    string `json:"type"`
	Content []struct {
		Type    string      `json:"type"`
		Text    lenientText `json:"text"`
		Refusal lenientText `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text lenientText `json:"text"`
	} `json:"summary"`
}

// responsesBody is a response as a whole.
type responsesBody struct {
	Status     string          `json:"status"`
	Output     []responsesOut  `json:"output"`
	Error      json.RawMessage `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage json.RawMessage `json:"usage"`
}

type responsesDecoder struct {
	sink sink
	// given holds the output items whose text, or reasoning, has come already,
	// so that it is not taken again from the event that repeats it.
	given map[string]bool
	// thinking is the event type that reasoning came in first: some servers
	// send a summary besides the reasoning itself.
	thinking string
	refused  bool
	called   bool
	done     bool
	out      finish
}

func (responsesCodec) stream(s sink) decoder {
	return &responsesDecoder{sink: s, given: map[string]bool{}}
}

func (d *responsesDecoder) ended() bool    { return d.done }
func (d *responsesDecoder) settled() bool  { return d.done }
func (d *responsesDecoder) result() finish { return d.out }
func (d *responsesDecoder) close()         {}

func (d *responsesDecoder) event(raw event) *failure {
	if strings.TrimSpace(string(raw.data[:min(len(raw.data), len("[DONE]")+2)])) == "[DONE]" {
		// Some servers borrow it from the other protocol. It proves nothing.
		return nil
	}
	var e responsesEvent
	if json.Unmarshal(raw.data, &e) != nil {
		return errMalformed
	}
	kind := e.Type
	if kind == "" {
		kind = raw.name
	}
	key := strconv.Itoa(e.OutputIndex)
	switch kind {
	case "response.output_text.delta":
		return d.text(key, textOf(e.Delta))
	case "response.refusal.delta":
		d.refused = true
		return d.text(key, textOf(e.Delta))
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 && d.given["reasoning"+key] {
			return d.reasoning(key, "response.reasoning_summary_text.delta", "\n\n")
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return d.reasoning(key, kind, textOf(e.Delta))
	case "response.output_item.done":
		if e.Item != nil {
			return d.item(key, *e.Item)
		}
	case "response.completed", "response.done", "response.incomplete", "response.failed", "response.cancelled":
		return d.terminal(kind, e.Response)
	case "error":
		var api apiError
		if !jsonError(raw.data, &api) {
			return errMalformed
		}
		return &failure{api: &api}
	}
	return nil
}

func (d *responsesDecoder) text(key, text string) *failure {
	if text == "" {
		return nil
	}
	d.given["text"+key] = true
	return d.sink.add(row.KindAssistant, key, text)
}

func (d *responsesDecoder) reasoning(key, kind, text string) *failure {
	if text == "" || d.thinking != "" && d.thinking != kind {
		return nil
	}
	d.thinking = kind
	d.given["reasoning"+key] = true
	return d.sink.add(row.KindReasoning, key, text)
}

// item takes a finished item, for what no delta has brought.
func (d *responsesDecoder) item(key string, item responsesOut) *failure {
	if strings.HasSuffix(item.Type, "_call") {
		d.called = true
	}
	if item.Type == "reasoning" && !d.given["reasoning"+key] {
		var texts []string
		for _, s := range item.Summary {
			texts = append(texts, string(s.Text))
		}
		if texts == nil {
			for _, c := range item.Content {
				texts = append(texts, string(c.Text))
			}
		}
		return d.reasoning(key, d.thinking, strings.Join(texts, "\n\n"))
	}
	if item.Type != "message" || d.given["text"+key] {
		return nil
	}
	for _, c := range item.Content {
		if c.Type == "refusal" {
			d.refused = true
		}
		if f := d.text(key, string(c.Text)+string(c.Refusal)); f != nil {
			return f
		}
	}
	return nil
}

// terminal takes the event that ends a response.
func (d *responsesDecoder) terminal(kind string, data json.RawMessage) *failure {
	var r responsesBody
	if json.Unmarshal(data, &r) != nil {
		return errMalformed
	}
	d.usage(r.Usage)
	if kind == "response.failed" || r.Status == "failed" {
		var api apiError
		if isSet(r.Error) {
			errorValue(r.Error, &api)
		}
		return &failure{api: &api}
	}
	for i, item := range r.Output {
		if f := d.item(strconv.Itoa(i), item); f != nil {
			return f
		}
	}
	d.done = true
	switch {
	case r.Incomplete.Reason == "content_filter":
		d.out.stop = stopRefused
	case kind == "response.incomplete" || r.Status == "incomplete":
		d.out.stop = stopLength
	case kind == "response.cancelled" || r.Status == "cancelled":
		return &failure{api: &apiError{message: "the response was cancelled at the server"}}
	case d.refused:
		d.out.stop = stopRefused
	case d.called:
		d.out.stop = stopTool
	}
	return nil
}

func (d *responsesDecoder) usage(data json.RawMessage) {
	var u struct {
		Input  int64 `json:"input_tokens"`
		InputD struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output  int64 `json:"output_tokens"`
		OutputD struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	if !isSet(data) || json.Unmarshal(data, &u) != nil || u.Input == 0 && u.Output == 0 {
		return
	}
	d.out.usage = openAIUsage(u.Input, u.InputD.Cached, u.Output, u.OutputD.Reasoning)
}

func (c responsesCodec) whole(data []byte, s sink) (finish, *failure) {
	var r responsesBody
	if json.Unmarshal(data, &r) != nil {
		return finish{}, errMalformed
	}
	d := &responsesDecoder{sink: s, given: map[string]bool{}}
	if r.Output == nil && r.Status == "" {
		var api apiError
		if jsonError(data, &api) {
			return finish{}, &failure{api: &api}
		}
		return finish{}, errMalformed
	}
	return d.finishWhole(data)
}

func (d *responsesDecoder) finishWhole(data []byte) (finish, *failure) {
	f := d.terminal("", data)
	return d.out, f
}
