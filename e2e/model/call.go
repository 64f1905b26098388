package model

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Call is what a request is for.
type Call string

// The kinds of calls.
const (
	// CallMain is a step of the conversation.
	CallMain Call = "main"
	// CallSubagent is a step of a subagent's conversation. Only agents that
	// mark it are recognised; else it is [CallMain].
	CallSubagent Call = "subagent"
	// CallTitle asks for a title of the session.
	CallTitle Call = "title"
	// CallCompaction asks for a summary that replaces the conversation.
	CallCompaction Call = "compaction"
	// CallProbe tries whether a model exists, or whether there is a server at
	// all: then it holds no message and is refused.
	CallProbe Call = "probe"
	// CallQuery is another call without tools of an agent that always offers
	// tools in its conversation.
	CallQuery Call = "query"
	// CallCount asks for the number of tokens.
	CallCount Call = "count-tokens"
	// CallModels asks for the list of models.
	CallModels Call = "models"
	// CallOther is anything that is not for a model.
	CallOther Call = "other"
)

// Phrases by which agents' own prompts are recognised.
var (
	compactionPhrases = []string{
		"CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
		"CONTEXT CHECKPOINT COMPACTION",
		"context summarization assistant",
		"tasked with summarizing conversations",
		"You summarize conversations so that they can be continued",
	}
	titlePhrases = []string{
		"Generate a concise, sentence-case title",
		"You are naming a coding session",
		"generates concise session titles",
		"You are a title generator",
		"Name this conversation.",
	}
	// toolAgents are the user agents of programs whose conversation always
	// offers tools.
	toolAgents = []string{"claude-cli/", "factory-cli/", "opencode/"}
)

// garconAgent is the user agent of garcon's own chats with a model API. They
// offer no tools; what they do not stream is a query beside a conversation.
const garconAgent = "garcon"

// classify says what a model request is for. Its protocol is known.
func classify(r *Request) Call {
	if len(r.Messages) == 0 {
		return CallProbe
	}
	if containsAny(r.LastUser, compactionPhrases) || containsAny(r.System, compactionPhrases) {
		return CallCompaction
	}
	if len(r.Tools) == 0 {
		if containsAny(r.System, titlePhrases) || containsAny(r.LastUser, titlePhrases) {
			return CallTitle
		}
		if n, ok := r.Body["max_tokens"].(float64); ok && n == 1 {
			return CallProbe
		}
		agent := r.Header.Get("User-Agent")
		if slices.ContainsFunc(toolAgents, func(p string) bool { return strings.HasPrefix(agent, p) }) ||
			agent == garconAgent && !r.Stream {
			return CallQuery
		}
	}
	if r.Header.Get("X-Claude-Code-Agent-Id") != "" || strings.Contains(r.System, "cc_is_subagent=true") {
		return CallSubagent
	}
	return CallMain
}

func containsAny(s string, phrases []string) bool {
	for _, p := range phrases {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// automatic is how a call that no step takes is answered; nil leaves it to the
// script's default.
func automatic(r *Request) *Step {
	claude := r.Protocol == Anthropic && strings.HasPrefix(r.Header.Get("User-Agent"), "claude-cli/")
	text := ""
	switch r.Call {
	case CallTitle:
		text = "Scripted title"
		if claude {
			text = `{"title":"Scripted title"}`
		}
	case CallCompaction:
		text = "Scripted summary."
		if claude {
			text = "<analysis>Scripted analysis.</analysis>\n<summary>Scripted summary.</summary>"
		}
	case CallSubagent:
		text = "Scripted report."
	case CallProbe, CallQuery:
		text = "Scripted answer."
	default:
		return nil
	}
	return &Step{Blocks: []Block{{Text: text}}}
}

// Match says which requests a step takes. All members that are set must hold.
type Match struct {
	// Call is [CallMain] when empty; "any" is any call to a model.
	Call     Call     `json:"call,omitempty"`
	Protocol Protocol `json:"protocol,omitempty"`
	// Model is the whole model id.
	Model string `json:"model,omitempty"`
	// LastUser, System, ToolResult and Body are parts of the last user text,
	// the system prompt, the last tool result and the raw body.
	LastUser   string `json:"lastUser,omitempty"`
	System     string `json:"system,omitempty"`
	ToolResult string `json:"toolResult,omitempty"`
	Body       string `json:"body,omitempty"`
	// HasToolResult asks for, or against, a new tool result.
	HasToolResult *bool `json:"hasToolResult,omitempty"`
	// Header holds parts of header values; "" asks that the header is there.
	Header map[string]string `json:"header,omitempty"`
}

// callAny matches every call to a model.
const callAny Call = "any"

func (m *Match) validate() error {
	switch m.Call {
	case "", callAny, CallMain, CallSubagent, CallTitle, CallCompaction, CallProbe, CallQuery:
	default:
		return fmt.Errorf("a step cannot match call %q", m.Call)
	}
	switch m.Protocol {
	case "", Anthropic, Chat, Responses:
		return nil
	}
	return fmt.Errorf("unknown protocol %q", m.Protocol)
}

func (m *Match) matches(r *Request) bool {
	if m == nil {
		return r.Call == CallMain
	}
	want := m.Call
	if want == "" {
		want = CallMain
	}
	switch {
	case want != callAny && want != r.Call,
		m.Protocol != "" && m.Protocol != r.Protocol,
		m.Model != "" && m.Model != r.Model,
		!strings.Contains(r.LastUser, m.LastUser),
		!strings.Contains(r.System, m.System),
		!strings.Contains(r.LastToolResult(), m.ToolResult),
		!bytes.Contains(r.Raw, []byte(m.Body)),
		m.HasToolResult != nil && *m.HasToolResult != r.HasToolResult():
		return false
	}
	for name, part := range m.Header {
		values := r.Header.Values(name)
		if len(values) == 0 || !strings.Contains(strings.Join(values, ","), part) {
			return false
		}
	}
	return true
}
