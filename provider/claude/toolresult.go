package claude

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"garcon/proto/row"
)

// structured is the CLI's own form of a tool result. Which members are set
// depends on the tool; for a failed call it is a plain string and all stay zero.
type structured struct {
	// Bash
	Stdout           *string `json:"stdout"`
	Stderr           string  `json:"stderr"`
	Interrupted      bool    `json:"interrupted"`
	BackgroundTaskID string  `json:"backgroundTaskId"`
	PersistedSize    int64   `json:"persistedOutputSize"`
	PersistedPath    string  `json:"persistedOutputPath"`
	CodeMeaning      string  `json:"returnCodeInterpretation"`
	// Write, Edit
	Type            string          `json:"type"`
	FilePath        string          `json:"filePath"`
	StructuredPatch []hunk          `json:"structuredPatch"`
	Content         json.RawMessage `json:"content"`
	// Read
	File struct {
		Content *string `json:"content"`
	} `json:"file"`
	// Agent
	AgentID   string  `json:"agentId"`
	AgentType string  `json:"agentType"`
	Status    string  `json:"status"`
	Duration  float64 `json:"totalDurationMs"`
	// TaskCreate
	Task struct {
		ID string `json:"id"`
	} `json:"task"`
	Success *bool `json:"success"`
}

// The reasons for which a call was not run.
const (
	denialByRule = "permission-rule"
	denialByUser = "user-rejected"
)

// result returns the row of a tool_result block. denial is why the call was not
// run, empty when it was or when the CLI did not say.
func (m *mapper) result(b block, raw json.RawMessage, denial string) *row.ToolResult {
	call := m.calls[b.ToolUseID]
	delete(m.calls, b.ToolUseID)
	var s structured
	if len(raw) > 0 {
		// A string or something new: the block has it too.
		_ = decode(raw, &s)
	}
	out := &row.ToolResult{
		CallID: b.ToolUseID, Output: b.Content.text(), IsError: b.IsError,
		Images: images(b.Content), DurationMs: int64(s.Duration),
	}
	out.Output = appendReferences(out.Output, b.Content)
	if b.IsError {
		out.Output = strings.TrimSuffix(strings.TrimPrefix(out.Output, "<tool_use_error>"), "</tool_use_error>")
	}
	out.Status = resultStatus(b.IsError, s.Interrupted, denial)
	if denial == denialByUser && strings.HasPrefix(out.Output, stoppedText) {
		// It tells the model what the status tells people.
		out.Output = ""
	}
	switch call.tool {
	case row.ToolBash:
		bashResult(out, b, s)
	case row.ToolRead:
		if s.File.Content != nil {
			out.Output = *s.File.Content
		}
	case row.ToolWrite, row.ToolEdit:
		m.editResult(out, s)
	case row.ToolTask:
		if text := agentReport(s); text != "" {
			out.Output = text
		}
	case row.ToolTodo:
		if call.name == "TaskCreate" {
			m.todos.created(b.ToolUseID, s.Task.ID, b.IsError)
		}
	}
	if out.FullSize == 0 && s.PersistedPath != "" {
		out.Truncated, out.FullSize = true, s.PersistedSize
	}
	return out
}

func resultStatus(isError, interrupted bool, denial string) row.ToolStatus {
	switch {
	case interrupted || denial == denialByUser:
		return row.ToolCancelled
	case denial != "":
		return row.ToolDenied
	case isError:
		return row.ToolFailed
	}
	return row.ToolCompleted
}

// stoppedText is how the model is told that a call was stopped.
const stoppedText = "The user doesn't want to proceed with this tool use."

// noOutput is what the CLI tells the model in place of nothing.
const noOutput = "(Bash completed with no output)"

// bashResult tells output, errors and the exit code apart as far as the CLI
// does: a failed command has one text that begins with its code.
func bashResult(out *row.ToolResult, b block, s structured) {
	switch {
	case s.Stdout != nil && s.BackgroundTaskID == "":
		// A text for the model, such as a preview of a large output, is kept
		// when there is nothing else.
		if *s.Stdout != "" || s.Stderr != "" {
			out.Output = *s.Stdout
		}
		out.Stderr = s.Stderr
		if !b.IsError && !s.Interrupted && s.CodeMeaning == "" {
			out.ExitCode = new(int)
		}
	case b.IsError:
		if code, rest, ok := exitCode(out.Output); ok {
			out.ExitCode, out.Output = &code, rest
		}
	}
	if out.Output == noOutput {
		out.Output = ""
	}
}

// exitCode reads "Exit code 3\n…".
func exitCode(text string) (code int, rest string, ok bool) {
	after, found := strings.CutPrefix(text, "Exit code ")
	if !found {
		return 0, "", false
	}
	number, rest, _ := strings.Cut(after, "\n")
	code, err := strconv.Atoi(strings.TrimSpace(number))
	return code, rest, err == nil
}

func (m *mapper) editResult(out *row.ToolResult, s structured) {
	path := m.short(s.FilePath)
	if s.Type == "create" && len(s.StructuredPatch) == 0 {
		var text string
		if err := json.Unmarshal(s.Content, &text); err == nil {
			out.Diff = created(path, text)
		}
		return
	}
	out.Diff = unified(path, s.StructuredPatch)
}

// agentReport is the report of a subagent without the notes around it that are
// for the model.
func agentReport(s structured) string {
	if s.AgentID == "" || len(s.Content) == 0 {
		return ""
	}
	var c content
	if err := json.Unmarshal(s.Content, &c); err != nil {
		return ""
	}
	var texts []string
	for _, b := range c {
		if b.Type == "text" && b.Text != "" && !strings.HasPrefix(strings.TrimSpace(b.Text), "<tools-used-before-summary>") {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// appendReferences adds what blocks other than text and pictures say.
func appendReferences(text string, c content) string {
	for _, b := range c {
		line := ""
		switch b.Type {
		case "tool_reference":
			line = b.ToolName
		case "web_search_result", "search_result":
			line = strings.TrimSpace(b.Title + " " + b.URL)
		}
		if line == "" {
			continue
		}
		if text != "" {
			text += "\n"
		}
		text += line
	}
	return text
}

func images(c content) []row.Image {
	var out []row.Image
	for _, b := range c {
		if b.Type != "image" || b.Source == nil || b.Source.Type != "base64" {
			continue
		}
		size := base64.StdEncoding.DecodedLen(len(b.Source.Data)) - strings.Count(tailOf(b.Source.Data, 2), "=")
		out = append(out, row.Image{MediaType: b.Source.MediaType, Data: b.Source.Data, Size: int64(size)})
	}
	return out
}

func tailOf(s string, n int) string { return s[max(0, len(s)-n):] }
