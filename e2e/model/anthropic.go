package model

import "fmt"

// signature stands for the opaque signature of a thinking block.
const signature = "c2NyaXB0ZWQ="

type object = map[string]any

type anthropicEncoder struct{ *answer }

func (e *anthropicEncoder) id() string { return fmt.Sprintf("msg_scripted_%d", e.request.N) }

func (a *answer) usage() Usage {
	if a.step.Usage != nil {
		return *a.step.Usage
	}
	return defaultUsage
}

func (a *answer) hasTool() bool {
	for _, b := range a.step.Blocks {
		if b.Tool != nil {
			return true
		}
	}
	return false
}

func (a *answer) toolID(prefix string, i int, t *Tool) string {
	if t.ID != "" {
		return t.ID
	}
	return fmt.Sprintf("%s_%d_%d", prefix, a.request.N, i)
}

// arguments is a tool's input as text.
func (t *Tool) arguments() string {
	if s, ok := t.Input.(string); ok {
		return s
	}
	if t.Input == nil {
		return "{}"
	}
	text, err := encode(t.Input)
	if err != nil {
		return "{}"
	}
	return text
}

func (e *anthropicEncoder) message(content []any, stop any, output int) object {
	u := e.usage()
	return object{
		"id": e.id(), "type": "message", "role": "assistant", "model": e.request.Model,
		"content": content, "stop_reason": stop, "stop_sequence": nil,
		"usage": object{
			"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite,
			"cache_read_input_tokens": u.CacheRead, "output_tokens": output,
		},
	}
}

func (e *anthropicEncoder) stop() string {
	if e.step.Stop != "" {
		return e.step.Stop
	}
	if e.hasTool() {
		return "tool_use"
	}
	return "end_turn"
}

func (e *anthropicEncoder) whole() any {
	content := []any{}
	for i, b := range e.step.Blocks {
		switch {
		case b.Tool != nil:
			content = append(content, object{
				"type": "tool_use", "id": e.toolID("toolu", i, b.Tool), "name": b.Tool.Name, "input": b.Tool.Input,
			})
		case b.Thinking != "":
			content = append(content, object{"type": "thinking", "thinking": b.text(), "signature": signature})
		case b.text() != "":
			content = append(content, object{"type": "text", "text": b.text()})
		}
	}
	return e.message(content, e.stop(), e.usage().Output)
}

func (e *anthropicEncoder) send(kind string, data object) error {
	data["type"] = kind
	return e.stream.event(kind, data)
}

func (e *anthropicEncoder) begin() error {
	return e.send("message_start", object{"message": e.message([]any{}, nil, 1)})
}

func (e *anthropicEncoder) block(i int, b Block) error {
	start, text := object{"type": "text", "text": ""}, b.text()
	delta := func(piece string) object { return object{"type": "text_delta", "text": piece} }
	switch {
	case b.Tool != nil:
		start = object{"type": "tool_use", "id": e.toolID("toolu", i, b.Tool), "name": b.Tool.Name, "input": object{}}
		text = b.Tool.arguments()
		delta = func(piece string) object { return object{"type": "input_json_delta", "partial_json": piece} }
	case b.Thinking != "":
		start = object{"type": "thinking", "thinking": "", "signature": ""}
		delta = func(piece string) object { return object{"type": "thinking_delta", "thinking": piece} }
	}
	if err := e.send("content_block_start", object{"index": i, "content_block": start}); err != nil {
		return err
	}
	err := e.chunks(b, text, func(piece string) error {
		return e.send("content_block_delta", object{"index": i, "delta": delta(piece)})
	})
	if err != nil {
		return err
	}
	if b.Thinking != "" {
		sig := object{"type": "signature_delta", "signature": signature}
		if err := e.send("content_block_delta", object{"index": i, "delta": sig}); err != nil {
			return err
		}
	}
	if e.step.End != "" && i == e.lastBlock() {
		// A stream that ends badly ends inside its last block.
		return nil
	}
	return e.send("content_block_stop", object{"index": i})
}

// lastBlock is the index of the last block that has content.
func (a *answer) lastBlock() int {
	n := -1
	for _, b := range a.step.Blocks {
		if b.Tool != nil || b.text() != "" {
			n++
		}
	}
	return n
}

func (e *anthropicEncoder) end() error {
	err := e.send("message_delta", object{
		"delta": object{"stop_reason": e.stop(), "stop_sequence": nil},
		"usage": object{"output_tokens": e.usage().Output},
	})
	if err != nil {
		return err
	}
	return e.send("message_stop", object{})
}

func (e *anthropicEncoder) fail(f Fail) error {
	return e.send("error", object{"error": object{
		"type": first(f.Type, "overloaded_error"), "message": first(f.Message, "Overloaded"),
	}})
}
