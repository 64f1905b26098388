package model

import "fmt"

type chatEncoder struct {
	*answer
	tools int
}

// chunk returns one chunk with the given choices.
func (e *chatEncoder) chunk(choices ...any) object {
	if choices == nil {
		choices = []any{}
	}
	c := object{
		"id": fmt.Sprintf("chatcmpl-scripted-%d", e.request.N), "object": "chat.completion.chunk",
		"created": 1700000000, "model": e.request.Model, "choices": choices,
	}
	switch e.step.Wire.Usage {
	case "every":
		c["usage"] = e.usageObject()
	case "null":
		c["usage"] = nil
	}
	return c
}

func (e *chatEncoder) usageObject() object {
	u := e.usage()
	input := u.Input + u.CacheRead + u.CacheWrite
	return object{
		"prompt_tokens": input, "completion_tokens": u.Output, "total_tokens": input + u.Output,
		"prompt_tokens_details":     object{"cached_tokens": u.CacheRead},
		"completion_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}

func (e *chatEncoder) delta(delta object) error {
	return e.stream.event("", e.chunk(object{"index": 0, "delta": delta, "finish_reason": nil}))
}

func (e *chatEncoder) stop() string {
	if e.step.Stop != "" {
		return e.step.Stop
	}
	if e.hasTool() {
		return "tool_calls"
	}
	return "stop"
}

// content spells answer text.
func (e *chatEncoder) content(text string) object {
	if e.step.Wire.Content == "parts" {
		return object{"content": []any{object{"type": "text", "text": text}}}
	}
	return object{"content": text}
}

// reasoning spells thinking text the way the script asks for.
func (e *chatEncoder) reasoning(text string) object {
	switch e.step.Wire.Reasoning {
	case "reasoning":
		return object{"content": nil, "reasoning": text}
	case "both":
		return object{"content": "", "reasoning": text, "reasoning_content": text}
	case "reasoning_details":
		return object{"reasoning_details": []any{object{"type": "reasoning.text", "text": text}}}
	case "parts":
		return object{"content": []any{object{
			"type": "thinking", "thinking": []any{object{"type": "text", "text": text}},
		}}}
	case "think":
		return e.content(text)
	}
	return object{"reasoning_content": text}
}

func (e *chatEncoder) whole() any {
	var content, reasoning, refusal string
	var calls []any
	for i, b := range e.step.Blocks {
		switch {
		case b.Tool != nil:
			calls = append(calls, e.call(i, b.Tool, b.Tool.arguments()))
		case b.Thinking != "" && e.step.Wire.Reasoning == "think":
			content += "<think>" + b.text() + "</think>"
		case b.Thinking != "":
			reasoning += b.text()
		case b.Refusal != "":
			refusal += b.text()
		default:
			content += b.text()
		}
	}
	message := e.content(content)
	message["role"] = "assistant"
	if reasoning != "" {
		for k, v := range e.reasoning(reasoning) {
			if k != "content" {
				message[k] = v
			}
		}
	}
	if refusal != "" {
		message["refusal"] = refusal
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	c := e.chunk(object{"index": 0, "message": message, "finish_reason": e.stop()})
	c["object"] = "chat.completion"
	if e.step.Wire.Usage == "" {
		c["usage"] = e.usageObject()
	}
	return c
}

func (e *chatEncoder) call(i int, t *Tool, arguments string) object {
	return object{
		"id": e.toolID("call", i, t), "type": "function",
		"function": object{"name": t.Name, "arguments": arguments},
	}
}

func (e *chatEncoder) begin() error {
	return e.delta(object{"role": "assistant", "content": ""})
}

func (e *chatEncoder) block(i int, b Block) error {
	switch {
	case b.Tool != nil:
		return e.tool(i, b)
	case b.Refusal != "":
		return e.chunks(b, b.text(), func(s string) error { return e.delta(object{"refusal": s}) })
	case b.Thinking == "":
		return e.chunks(b, b.text(), func(s string) error { return e.delta(e.content(s)) })
	}
	text := b.text()
	if e.step.Wire.Reasoning == "think" {
		text = "<think>" + text + "</think>"
	}
	return e.chunks(b, text, func(s string) error { return e.delta(e.reasoning(s)) })
}

func (e *chatEncoder) tool(i int, b Block) error {
	call := e.call(i, b.Tool, "")
	index := e.tools
	call["index"] = index
	e.tools++
	if err := e.delta(object{"tool_calls": []any{call}}); err != nil {
		return err
	}
	return e.chunks(b, b.Tool.arguments(), func(s string) error {
		return e.delta(object{"tool_calls": []any{object{"index": index, "function": object{"arguments": s}}}})
	})
}

func (e *chatEncoder) end() error {
	c := e.chunk(object{"index": 0, "delta": object{}, "finish_reason": e.stop()})
	if e.step.Wire.Usage == "finish" {
		c["usage"] = e.usageObject()
	}
	if err := e.stream.event("", c); err != nil {
		return err
	}
	if e.step.Wire.Usage == "" || e.step.Wire.Usage == "last" {
		c := e.chunk()
		c["usage"] = e.usageObject()
		if err := e.stream.event("", c); err != nil {
			return err
		}
	}
	if e.step.Wire.NoDone {
		return nil
	}
	return e.stream.event("", "[DONE]")
}

func (e *chatEncoder) fail(f Fail) error {
	c := e.chunk()
	if f.Response {
		c = e.chunk(object{"index": 0, "delta": object{"content": ""}, "finish_reason": "error"})
	}
	c["error"] = object{
		"message": first(f.Message, "Provider returned error"), "type": first(f.Type, "server_error"), "code": f.Code,
	}
	return e.stream.event("", c)
}
