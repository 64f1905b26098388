package model

import "fmt"

type responsesEncoder struct {
	*answer
	sequence int
	output   []any
}

func (e *responsesEncoder) response(status string) object {
	return object{
		"id": fmt.Sprintf("resp_scripted_%d", e.request.N), "object": "response", "created_at": 1700000000,
		"status": status, "model": e.request.Model, "output": []any{}, "error": nil,
		"incomplete_details": nil, "usage": nil,
	}
}

// final is the response at its end, with the output so far.
func (e *responsesEncoder) final() (kind string, r object) {
	kind, r = "response.completed", e.response("completed")
	if e.step.Stop != "" {
		kind, r = "response.incomplete", e.response("incomplete")
		r["incomplete_details"] = object{"reason": e.step.Stop}
	}
	if e.output != nil {
		r["output"] = e.output
	}
	// Codex goes on by itself when the turn is said not to have ended.
	r["end_turn"] = !e.hasTool()
	u := e.usage()
	input := u.Input + u.CacheRead + u.CacheWrite
	r["usage"] = object{
		"input_tokens": input, "input_tokens_details": object{"cached_tokens": u.CacheRead},
		"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
		"total_tokens": input + u.Output,
	}
	return kind, r
}

// item is the finished output item of a block.
func (e *responsesEncoder) item(i int, b Block) object {
	n := e.request.N
	switch {
	case b.Tool != nil:
		return e.toolItem(i, b.Tool)
	case b.Thinking != "" && e.step.Wire.Reasoning == "text":
		return object{
			"type": "reasoning", "id": fmt.Sprintf("rs_%d_%d", n, i), "summary": []any{},
			"content":           []any{object{"type": "reasoning_text", "text": b.text()}},
			"encrypted_content": nil,
		}
	case b.Thinking != "":
		return object{
			"type": "reasoning", "id": fmt.Sprintf("rs_%d_%d", n, i), "content": nil,
			"summary":           []any{object{"type": "summary_text", "text": b.text()}},
			"encrypted_content": nil,
		}
	}
	part := object{"type": "output_text", "text": b.text(), "annotations": []any{}}
	if b.Refusal != "" {
		part = object{"type": "refusal", "refusal": b.text()}
	}
	return object{
		"type": "message", "id": fmt.Sprintf("msg_%d_%d", n, i), "role": "assistant", "status": "completed",
		"content": []any{part},
	}
}

func (e *responsesEncoder) toolItem(i int, t *Tool) object {
	item := object{
		"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", e.request.N, i), "status": "completed",
		"call_id": e.toolID("call", i, t), "name": t.Name, "arguments": t.arguments(),
	}
	if t.Namespace != "" {
		item["namespace"] = t.Namespace
	}
	if s, ok := t.Input.(string); ok {
		delete(item, "arguments")
		item["type"], item["input"] = "custom_tool_call", s
	}
	return item
}

func (e *responsesEncoder) whole() any {
	for i, b := range e.step.Blocks {
		if b.Tool != nil || b.text() != "" {
			e.output = append(e.output, e.item(i, b))
		}
	}
	_, r := e.final()
	return r
}

func (e *responsesEncoder) send(kind string, data object) error {
	data["type"] = kind
	data["sequence_number"] = e.sequence
	e.sequence++
	return e.stream.event(kind, data)
}

func (e *responsesEncoder) begin() error {
	if err := e.send("response.created", object{"response": e.response("in_progress")}); err != nil {
		return err
	}
	return e.send("response.in_progress", object{"response": e.response("in_progress")})
}

func (e *responsesEncoder) block(i int, b Block) error {
	item := e.item(i, b)
	e.output = append(e.output, item)
	if e.step.Wire.NoDeltas {
		return e.chunks(b, b.text(), func(string) error { return nil })
	}
	if err := e.send("response.output_item.added", object{"output_index": i, "item": started(item)}); err != nil {
		return err
	}
	var err error
	switch {
	case b.Tool != nil:
		err = e.toolDeltas(i, item, b)
	case b.Thinking != "":
		err = e.reasoning(i, item, b)
	default:
		err = e.text(i, item, b)
	}
	if err != nil || e.step.End != "" && i == e.lastBlock() {
		return err
	}
	return e.send("response.output_item.done", object{"output_index": i, "item": item})
}

// started is an item as it is announced: without its content.
func started(item object) object {
	out := object{}
	for k, v := range item {
		switch k {
		case "content", "summary":
			v = []any{}
		case "arguments", "input":
			v = ""
		case "status":
			v = "in_progress"
		}
		out[k] = v
	}
	return out
}

func (e *responsesEncoder) text(i int, item object, b Block) error {
	at := func(o object) object {
		o["item_id"], o["output_index"], o["content_index"] = item["id"], i, 0
		return o
	}
	kind, field, empty := "response.output_text", "text", object{"type": "output_text", "text": "", "annotations": []any{}}
	if b.Refusal != "" {
		kind, field, empty = "response.refusal", "refusal", object{"type": "refusal", "refusal": ""}
	}
	if err := e.send("response.content_part.added", at(object{"part": empty})); err != nil {
		return err
	}
	err := e.chunks(b, b.text(), func(s string) error { return e.send(kind+".delta", at(object{"delta": s})) })
	if err != nil || e.step.End != "" && i == e.lastBlock() {
		return err
	}
	if err := e.send(kind+".done", at(object{field: b.text()})); err != nil {
		return err
	}
	part := item["content"].([]any)[0]
	return e.send("response.content_part.done", at(object{"part": part}))
}

func (e *responsesEncoder) reasoning(i int, item object, b Block) error {
	if e.step.Wire.Reasoning == "text" {
		at := func(o object) object {
			o["item_id"], o["output_index"], o["content_index"] = item["id"], i, 0
			return o
		}
		return e.chunks(b, b.text(), func(s string) error {
			return e.send("response.reasoning_text.delta", at(object{"delta": s}))
		})
	}
	at := func(o object) object {
		o["item_id"], o["output_index"], o["summary_index"] = item["id"], i, 0
		return o
	}
	part := func(text string) object { return object{"type": "summary_text", "text": text} }
	if err := e.send("response.reasoning_summary_part.added", at(object{"part": part("")})); err != nil {
		return err
	}
	err := e.chunks(b, b.text(), func(s string) error {
		return e.send("response.reasoning_summary_text.delta", at(object{"delta": s}))
	})
	if err != nil || e.step.End != "" && i == e.lastBlock() {
		return err
	}
	if err := e.send("response.reasoning_summary_text.done", at(object{"text": b.text()})); err != nil {
		return err
	}
	return e.send("response.reasoning_summary_part.done", at(object{"part": part(b.text())}))
}

func (e *responsesEncoder) toolDeltas(i int, item object, b Block) error {
	kind := "response.function_call_arguments"
	field := "arguments"
	if item["type"] == "custom_tool_call" {
		kind, field = "response.custom_tool_call_input", "input"
	}
	at := func(o object) object {
		o["item_id"], o["output_index"] = item["id"], i
		return o
	}
	text := b.Tool.arguments()
	err := e.chunks(b, text, func(s string) error { return e.send(kind+".delta", at(object{"delta": s})) })
	if err != nil {
		return err
	}
	return e.send(kind+".done", at(object{field: text}))
}

func (e *responsesEncoder) end() error {
	kind, r := e.final()
	if err := e.send(kind, object{"response": r}); err != nil {
		return err
	}
	if e.step.Wire.Done {
		return e.stream.event("", "[DONE]")
	}
	return nil
}

func (e *responsesEncoder) fail(f Fail) error {
	code, message := f.Code, first(f.Message, "The server had an error")
	if code == nil {
		code = first(f.Type, "server_error")
	}
	if f.Response {
		r := e.response("failed")
		r["error"] = object{"code": code, "message": message}
		return e.send("response.failed", object{"response": r})
	}
	return e.send("error", object{"code": code, "message": message, "param": nil})
}
