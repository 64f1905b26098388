package row

import "encoding/json"

// ToolName is a canonical tool. Adapters map every native tool that has a
// canonical form to it; [ToolOther] keeps the provider's name and input for
// display only.
type ToolName string

// The canonical tools.
const (
	ToolBash      ToolName = "bash"
	ToolRead      ToolName = "read"
	ToolWrite     ToolName = "write"
	ToolEdit      ToolName = "edit"
	ToolPatch     ToolName = "patch"
	ToolGlob      ToolName = "glob"
	ToolGrep      ToolName = "grep"
	ToolList      ToolName = "list"
	ToolWebSearch ToolName = "web-search"
	ToolWebFetch  ToolName = "web-fetch"
	ToolTodo      ToolName = "todo"
	ToolTask      ToolName = "task"
	ToolQuestion  ToolName = "question"
	ToolPlan      ToolName = "plan"
	ToolMCP       ToolName = "mcp"
	ToolOther     ToolName = "other"
)

// ToolStatus is how a tool call or a subagent stands.
type ToolStatus string

// The states of a tool call.
const (
	ToolRunning   ToolStatus = "running"
	ToolCompleted ToolStatus = "completed"
	ToolFailed    ToolStatus = "failed"
	ToolDenied    ToolStatus = "denied"
	ToolCancelled ToolStatus = "cancelled"
)

// Tool is a tool call of the agent.
type Tool struct {
	// CallID is unique within the chat and links the result to the call.
	CallID string   `json:"callId"`
	Tool   ToolName `json:"tool"`
	// Name is the provider's own name of the tool.
	Name string `json:"name,omitempty"`
	// Title is a short description for people.
	Title  string     `json:"title,omitempty"`
	Status ToolStatus `json:"status,omitempty"`
	Input  ToolInput  `json:"input"`
}

// ToolInput is the typed input of a canonical tool. Which members are set
// depends on the tool:
//
//	bash        Command, Description, Cwd, Background, TimeoutMs
//	read        Path, Offset, Limit
//	write       Path, Content
//	edit        Path, Edits
//	patch       Patch, Paths
//	glob, list  Pattern, Path
//	grep        Pattern, Path, Glob
//	web-search  Query
//	web-fetch   URL, Prompt
//	todo        Todos
//	task        Description, Prompt, Agent, Background
//	question    Questions
//	plan        Plan
//	mcp         Server, Method, Arguments
//	other       Arguments
//
// Arguments is set for mcp and other, and for any tool whose input could not
// be understood.
type ToolInput struct {
	Command     string         `json:"command,omitempty"`
	Description string         `json:"description,omitempty"`
	Cwd         string         `json:"cwd,omitempty"`
	Background  bool           `json:"background,omitempty"`
	TimeoutMs   int64          `json:"timeoutMs,omitempty"`
	Path        string         `json:"path,omitempty"`
	Paths       []string       `json:"paths,omitempty"`
	Offset      int64          `json:"offset,omitempty"`
	Limit       int64          `json:"limit,omitempty"`
	Content     string         `json:"content,omitempty"`
	Edits       []Edit         `json:"edits,omitempty"`
	Patch       string         `json:"patch,omitempty"`
	Pattern     string         `json:"pattern,omitempty"`
	Glob        string         `json:"glob,omitempty"`
	Query       string         `json:"query,omitempty"`
	URL         string         `json:"url,omitempty"`
	Prompt      string         `json:"prompt,omitempty"`
	Agent       string         `json:"agent,omitempty"`
	Todos       []Todo         `json:"todos,omitempty"`
	Questions   []QuestionItem `json:"questions,omitempty"`
	Plan        string         `json:"plan,omitempty"`
	Server      string         `json:"server,omitempty"`
	Method      string         `json:"method,omitempty"`
	// Arguments is a JSON value.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Edit replaces one text by another.
type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	// All replaces every occurrence.
	All bool `json:"all,omitempty"`
}

// Todo is one item of the agent's todo list.
type Todo struct {
	Text string `json:"text"`
	// Status is "pending", "in-progress", "completed" or "cancelled".
	Status string `json:"status"`
}

// ToolResult is what a tool call gave.
type ToolResult struct {
	CallID string `json:"callId"`
	// Output is text; ANSI sequences are kept.
	Output string `json:"output,omitempty"`
	// Stderr is set when the provider tells it apart from Output.
	Stderr string `json:"stderr,omitempty"`
	// Diff is a unified diff of what the tool changed.
	Diff string `json:"diff,omitempty"`
	// ExitCode is that of a command, when known.
	ExitCode *int    `json:"exitCode,omitempty"`
	Images   []Image `json:"images,omitempty"`
	// Truncated says that Output is not all there was; FullSize is the whole
	// in bytes, zero when the provider did not say.
	Truncated bool       `json:"truncated,omitempty"`
	FullSize  int64      `json:"fullSize,omitempty"`
	IsError   bool       `json:"isError,omitempty"`
	Status    ToolStatus `json:"status,omitempty"`
	// DurationMs is in milliseconds, zero when unknown.
	DurationMs int64 `json:"durationMs,omitempty"`
}

// Image is a picture inside a tool result.
type Image struct {
	MediaType string `json:"mediaType"`
	// Data is base64. It is empty and Omitted set when the picture was too
	// large to keep.
	Data    string `json:"data,omitempty"`
	Omitted bool   `json:"omitted,omitempty"`
	// Size is in bytes, decoded.
	Size int64 `json:"size,omitempty"`
}

// Kind implements [Body].
func (*Tool) Kind() Kind { return KindTool }

// Kind implements [Body].
func (*ToolResult) Kind() Kind { return KindToolResult }

func (t *Tool) clean(budget int) {
	c := cleaner{budget}
	c.text(&t.CallID)
	c.text(&t.Name)
	c.text(&t.Title)
	c.input(&t.Input)
}

func (c *cleaner) input(in *ToolInput) {
	for _, s := range []*string{
		&in.Path, &in.Cwd, &in.Pattern, &in.Glob, &in.URL, &in.Server, &in.Method, &in.Agent,
		&in.Description, &in.Query, &in.Command, &in.Prompt, &in.Plan, &in.Patch, &in.Content,
	} {
		c.text(s)
	}
	for i := range in.Paths {
		c.text(&in.Paths[i])
	}
	for i := range in.Edits {
		c.text(&in.Edits[i].Old)
		c.text(&in.Edits[i].New)
	}
	for i := range in.Todos {
		c.text(&in.Todos[i].Text)
		c.text(&in.Todos[i].Status)
	}
	c.questions(in.Questions)
	if len(in.Arguments) == 0 {
		return
	}
	if len(in.Arguments) > c.left || !json.Valid(in.Arguments) {
		s := string(in.Arguments)
		c.text(&s)
		in.Arguments, _ = json.Marshal(s)
		return
	}
	c.left = max(c.left-len(in.Arguments), minText)
}

func (t *ToolResult) clean(budget int) {
	c := cleaner{budget}
	c.text(&t.CallID)
	// Pictures first: base64 must not be cut, so one that does not fit goes.
	for i := range t.Images {
		img := &t.Images[i]
		c.text(&img.MediaType)
		if len(img.Data) > c.left/2 {
			img.Data, img.Omitted = "", true
		}
		c.left -= len(img.Data)
	}
	for _, s := range []*string{&t.Stderr, &t.Diff, &t.Output} {
		before := len(*s)
		c.text(s)
		if len(*s) < before && s == &t.Output {
			t.Truncated = true
			t.FullSize = max(t.FullSize, int64(before))
		}
	}
}
