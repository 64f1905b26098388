package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// envelope is what lines have in common. The rest of a line is decoded by who
// handles its type.
type envelope struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	UUID      string `json:"uuid"`
	SessionID string `json:"session_id"`
	// Parent is the tool call of the subagent the line belongs to, empty for
	// the main conversation.
	Parent string `json:"parent_tool_use_id"`

	// data is the whole line. It is valid only until the next line is read.
	data []byte
}

// parseLine reads the envelope of one line of output.
func parseLine(data []byte) (envelope, error) {
	var e envelope
	if err := decode(data, &e); err != nil {
		return envelope{}, err
	}
	if e.Type == "" {
		return envelope{}, errors.New("line has no type")
	}
	e.data = data
	return e, nil
}

// decode is json.Unmarshal that takes what it can: members of an unexpected
// type stay zero, since a newer CLI may change one that matters little.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}

// messageLine is an "assistant" or "user" line.
type messageLine struct {
	Message     apiMessage `json:"message"`
	AgentID     string     `json:"agent_id"`
	Timestamp   string     `json:"timestamp"`
	IsReplay    bool       `json:"isReplay"`
	IsSynthetic bool       `json:"isSynthetic"`
	// ToolUseResult is the structured form of the one tool result in a user
	// line: an object, or a string for an error.
	ToolUseResult  json.RawMessage `json:"tool_use_result"`
	ToolResultMeta []resultMeta    `json:"tool_result_meta"`
	// Aborted marks an assistant block that an interrupt cut off.
	Aborted bool `json:"aborted"`

	Error          string `json:"error"`
	APIError       string `json:"api_error"`
	APIErrorStatus int    `json:"api_error_status"`

	LocalCommand struct {
		Command string `json:"command"`
	} `json:"local_command_run"`
	LocalOutcome struct {
		Kind string `json:"kind"`
	} `json:"local_command_outcome"`
}

// resultMeta says how the permission for a tool call went.
type resultMeta struct {
	ID               string `json:"id"`
	NonExecutionKind string `json:"non_execution_kind"`
}

// syntheticModel is the model of assistant messages that the CLI made itself.
const syntheticModel = "<synthetic>"

type apiMessage struct {
	ID         string    `json:"id"`
	Role       string    `json:"role"`
	Model      string    `json:"model"`
	StopReason string    `json:"stop_reason"`
	Content    content   `json:"content"`
	Usage      *apiUsage `json:"usage"`
}

type apiUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	Details    struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// context is how many tokens the request and its answer took.
func (u *apiUsage) context() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// content is the content of a message or of a tool result: a text, or blocks.
type content []block

// block is one content block.
type block struct {
	Type string `json:"type"`
	// Text and Thinking are of text and thinking blocks.
	Text     string `json:"text"`
	Thinking string `json:"thinking"`
	// ID, Name and Input are of tool_use blocks.
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	// ToolUseID, Content and IsError are of tool_result blocks.
	ToolUseID string  `json:"tool_use_id"`
	Content   content `json:"content"`
	IsError   bool    `json:"is_error"`
	// Source is of image and document blocks.
	Source *source `json:"source"`
	// ToolName is of tool_reference blocks, Title and URL of search results.
	ToolName string `json:"tool_name"`
	Title    string `json:"title"`
	URL      string `json:"url"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// UnmarshalJSON implements [json.Unmarshaler]. It takes a string, a block or an
// array of blocks, and leaves out what is none of them.
func (c *content) UnmarshalJSON(data []byte) error {
	*c = nil
	switch data = bytes.TrimSpace(data); {
	case len(data) == 0:
	case data[0] == '"':
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*c = content{{Type: "text", Text: s}}
	case data[0] == '{':
		var b block
		if err := decode(data, &b); err != nil {
			return err
		}
		*c = content{b}
	case data[0] == '[':
		var raw []json.RawMessage
		if err := json.Unmarshal(data, &raw); err != nil {
			return err
		}
		for _, item := range raw {
			var b block
			if len(item) > 0 && item[0] == '"' {
				b.Type = "text"
				if err := json.Unmarshal(item, &b.Text); err != nil {
					return err
				}
			} else if err := decode(item, &b); err != nil {
				return err
			}
			*c = append(*c, b)
		}
	}
	return nil
}

// text returns the texts of c, one under the other.
func (c content) text() string {
	var out []byte
	for _, b := range c {
		if b.Type != "text" || b.Text == "" {
			continue
		}
		if len(out) > 0 {
			out = append(out, '\n')
		}
		out = append(out, b.Text...)
	}
	return string(out)
}

// streamLine is a "stream_event" line: an event of the Messages API as it
// arrived.
type streamLine struct {
	Event struct {
		Type    string `json:"type"`
		Index   int    `json:"index"`
		Message struct {
			ID string `json:"id"`
		} `json:"message"`
		ContentBlock block `json:"content_block"`
		Delta        struct {
			Type        string `json:"type"`
			Text        string `json:"text"`
			Thinking    string `json:"thinking"`
			PartialJSON string `json:"partial_json"`
		} `json:"delta"`
	} `json:"event"`
}

// resultLine ends a turn.
type resultLine struct {
	IsError        bool     `json:"is_error"`
	Result         string   `json:"result"`
	Errors         []string `json:"errors"`
	StopReason     string   `json:"stop_reason"`
	TerminalReason string   `json:"terminal_reason"`
	APIError       string   `json:"api_error"`
	APIErrorStatus int      `json:"api_error_status"`
	NumTurns       int      `json:"num_turns"`
	LocalCommand   string   `json:"local_command"`
	Usage          apiUsage `json:"usage"`
	// TotalCost counts from the start of the process, SinceLast, in newer
	// CLIs, from the result before.
	TotalCost  float64               `json:"total_cost_usd"`
	ModelUsage map[string]modelUsage `json:"modelUsage"`
	SinceLast  map[string]modelUsage `json:"model_usage_since_last_result"`
	Origin     *struct {
		Kind string `json:"kind"`
	} `json:"origin"`
}

type modelUsage struct {
	CostUSD       float64 `json:"costUSD"`
	ContextWindow int64   `json:"contextWindow"`
}

// aborted reports whether the turn was stopped before its end.
func (r *resultLine) aborted() bool {
	return r.TerminalReason == "aborted_streaming" || r.TerminalReason == "aborted_tools"
}

// systemLine is a "system" line. Which members are set depends on the subtype.
type systemLine struct {
	// session_state_changed
	State string `json:"state"`
	// init
	Model          string   `json:"model"`
	PermissionMode string   `json:"permissionMode"` // and status
	Version        string   `json:"claude_code_version"`
	Capabilities   []string `json:"capabilities"`
	// status
	CompactResult string `json:"compact_result"`
	CompactError  string `json:"compact_error"`
	// compact_boundary
	Compact struct {
		Trigger    string `json:"trigger"`
		PreTokens  int64  `json:"pre_tokens"`
		PostTokens int64  `json:"post_tokens"`
	} `json:"compact_metadata"`
	// api_retry
	Attempt     float64 `json:"attempt"`
	MaxRetries  float64 `json:"max_retries"`
	RetryDelay  float64 `json:"retry_delay_ms"`
	ErrorStatus int     `json:"error_status"`
	Error       string  `json:"error"`
	// task_started, task_updated, task_progress, task_notification
	TaskID       string `json:"task_id"`
	TaskType     string `json:"task_type"`
	ToolUseID    string `json:"tool_use_id"`
	Description  string `json:"description"`
	SubagentType string `json:"subagent_type"`
	Backgrounded *bool  `json:"is_backgrounded"`
	Ambient      bool   `json:"ambient"`
	Status       string `json:"status"`
	Summary      string `json:"summary"`
	Patch        struct {
		Status       string `json:"status"`
		Error        string `json:"error"`
		Backgrounded *bool  `json:"is_backgrounded"`
	} `json:"patch"`
	// background_tasks_changed
	Tasks []struct {
		TaskID      string `json:"task_id"`
		TaskType    string `json:"task_type"`
		Description string `json:"description"`
		Ambient     bool   `json:"ambient"`
	} `json:"tasks"`
	// informational, notification, model_fallback and their like
	Content       string `json:"content"`
	Text          string `json:"text"`
	Level         string `json:"level"`
	Priority      string `json:"priority"`
	OriginalModel string `json:"original_model"`
	FallbackModel string `json:"fallback_model"`
	ErrorCode     string `json:"error_code"`
	// session_title_changed
	Title string `json:"title"`
}

// unixMilli reads an RFC 3339 timestamp as Unix milliseconds, 0 when it is
// none.
func unixMilli(timestamp string) int64 {
	t, err := time.Parse(time.RFC3339Nano, timestamp)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
