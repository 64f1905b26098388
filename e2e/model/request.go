package model

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Protocol is one of the protocols the server speaks.
type Protocol string

// The protocols.
const (
	Anthropic Protocol = "anthropic"
	Chat      Protocol = "openai-chat"
	Responses Protocol = "openai-responses"
)

// Request is one request as it arrived. It does not change once it can be
// seen; only its channels close.
type Request struct {
	// N counts requests from 1, in the order of their arrival.
	N      int
	At     time.Time
	Method string
	Path   string
	Query  url.Values
	Header http.Header
	// Raw is the body, Body the same decoded when it is a JSON object.
	Raw  []byte
	Body map[string]any
	// Protocol is empty for requests that are not for a model.
	Protocol Protocol
	Call     Call
	Model    string
	// Stream says that a stream was asked for.
	Stream bool
	// System is the system prompt, Messages the conversation without it.
	System   string
	Messages []Message
	// LastUser is the last text that the user wrote: system reminders and
	// tool results are not part of it.
	LastUser string
	// Tools are the names of the tools on offer.
	Tools []string

	step string
	done chan struct{}
	gone chan struct{}
	// goneOnce closes gone.
	goneOnce sync.Once
}

// Message is one message of a request.
type Message struct {
	Role string
	// Text is the text of all parts, reminders included.
	Text string
	// ToolCalls are the names of the tools an assistant message calls.
	ToolCalls []string
	// ToolResults are the texts of the results a message brings.
	ToolResults []string
	// Images is how many pictures came along.
	Images int
}

// Step returns the name of the step that answered, "default", "route", or
// "auto" for what the server answers by itself, "" when nothing would.
func (r *Request) Step() string { return r.step }

// Done is closed when the answer has ended, however it did.
func (r *Request) Done() <-chan struct{} { return r.done }

// Gone is closed when the client hung up before the answer had ended.
func (r *Request) Gone() <-chan struct{} { return r.gone }

// HasToolResult says whether the request brings the result of a tool call that
// the assistant made last.
func (r *Request) HasToolResult() bool {
	for _, m := range slices.Backward(r.Messages) {
		if len(m.ToolResults) > 0 {
			return true
		}
		if m.Role == "assistant" {
			return false
		}
	}
	return false
}

// LastToolResult returns the text of the last tool result, "" without any.
func (r *Request) LastToolResult() string {
	for _, m := range slices.Backward(r.Messages) {
		if n := len(m.ToolResults); n > 0 {
			return m.ToolResults[n-1]
		}
	}
	return ""
}

// parseRequest fills in what a body says. Clients differ, so everything is
// optional and what is not understood is left out.
func parseRequest(r *Request) {
	if json.Unmarshal(r.Raw, &r.Body) != nil {
		r.Body = nil
	}
	var b struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		System       json.RawMessage `json:"system"`
		Instructions string          `json:"instructions"`
		Messages     []rawMessage    `json:"messages"`
		Input        json.RawMessage `json:"input"`
		Tools        []struct {
			Type     string `json:"type"`
			Name     string `json:"name"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if json.Unmarshal(r.Raw, &b) != nil {
		return
	}
	r.Model, r.Stream = b.Model, b.Stream
	system := []string{textOf(b.System), b.Instructions}
	for _, t := range b.Tools {
		r.Tools = append(r.Tools, first(t.Name, t.Function.Name, t.Type))
	}
	if len(b.Input) > 0 {
		var text string
		if json.Unmarshal(b.Input, &text) == nil {
			b.Messages = append(b.Messages, rawMessage{Role: "user", Content: b.Input})
		} else if json.Unmarshal(b.Input, &b.Messages) != nil {
			return
		}
	}
	for _, m := range b.Messages {
		msg := m.message()
		// Claude Code puts system messages between the others.
		if (msg.Role == "system" || msg.Role == "developer") && len(r.Messages) == 0 {
			system = append(system, msg.Text)
			continue
		}
		r.Messages = append(r.Messages, msg)
		if msg.Role == "user" {
			if text := m.authored(); text != "" {
				r.LastUser = text
			}
		}
	}
	r.System = strings.TrimSpace(strings.Join(system, "\n"))
}

// rawMessage is a message or an input item of any of the protocols.
type rawMessage struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Name      string          `json:"name"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
	ToolCalls []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tool_calls"`
}

type rawPart struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`
	Content json.RawMessage `json:"content"`
}

func (m rawMessage) message() Message {
	out := Message{Role: m.Role}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, c.Function.Name)
	}
	switch {
	case strings.HasSuffix(m.Type, "_call_output"):
		out.Role = "tool"
		out.ToolResults = append(out.ToolResults, textOf(m.Output))
		return out
	case strings.HasSuffix(m.Type, "_call"):
		out.Role = "assistant"
		out.ToolCalls = append(out.ToolCalls, m.Name)
		return out
	case m.Type == "reasoning":
		out.Role = "assistant"
		return out
	case m.Role == "tool":
		out.ToolResults = append(out.ToolResults, textOf(m.Content))
		return out
	}
	out.Text = textOf(m.Content)
	for _, p := range parts(m.Content) {
		switch p.Type {
		case "tool_use":
			out.ToolCalls = append(out.ToolCalls, p.Name)
		case "tool_result":
			out.ToolResults = append(out.ToolResults, textOf(p.Content))
		case "image", "image_url", "input_image":
			out.Images++
		}
	}
	return out
}

// contextPrefixes begin texts that an agent adds to what the user wrote.
var contextPrefixes = []string{
	"<system-reminder>", "<environment_context>", "<turn_aborted>", "<user_instructions>", "# AGENTS.md",
}

// authored returns the text a person wrote in the message.
func (m rawMessage) authored() string {
	var texts []string
	for _, p := range parts(m.Content) {
		if p.Text == "" || slices.ContainsFunc(contextPrefixes, func(prefix string) bool {
			return strings.HasPrefix(strings.TrimSpace(p.Text), prefix)
		}) {
			continue
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// parts returns content as parts; a string is one text part.
func parts(content json.RawMessage) []rawPart {
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return nil
	}
	if content[0] == '"' {
		var s string
		if json.Unmarshal(content, &s) != nil {
			return nil
		}
		return []rawPart{{Type: "text", Text: s}}
	}
	var list []rawPart
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	return list
}

func textOf(content json.RawMessage) string {
	var texts []string
	for _, p := range parts(content) {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func contains(list []string, s string) bool { return slices.Contains(list, s) }
