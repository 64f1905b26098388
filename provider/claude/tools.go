package claude

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"garcon/proto/row"
)

// maxCalls bounds the tool calls that a mapper waits for a result of. A turn
// has a handful; calls whose result never came must not add up for ever.
const maxCalls = 4096

// mapper turns the tool calls and results of one native session into canonical
// ones. It is for one goroutine.
type mapper struct {
	// dir is the project directory, for short paths.
	dir   string
	calls map[string]callInfo
	todos todoList
}

// callInfo is what the result of a call needs to know of the call.
type callInfo struct {
	name       string
	tool       row.ToolName
	title      string
	background bool
	// child is the transcript the call was made in, empty for the main one.
	child string
}

func newMapper(dir string) mapper { return mapper{dir: dir, calls: map[string]callInfo{}} }

// call returns the row of a tool_use block and remembers the call.
func (m *mapper) call(b block, child string) *row.Tool {
	tool, in, title := m.canonical(b.Name, b.Input)
	if tool == row.ToolTodo {
		in.Todos = m.todos.apply(b.ID, b.Name, b.Input)
	}
	if len(m.calls) >= maxCalls {
		m.calls = map[string]callInfo{}
	}
	m.calls[b.ID] = callInfo{name: b.Name, tool: tool, title: title, background: in.Background, child: child}
	return &row.Tool{CallID: b.ID, Tool: tool, Name: b.Name, Title: title, Status: row.ToolRunning, Input: in}
}

// toolArgs are the inputs of all tools that have a canonical form.
type toolArgs struct {
	Command         string  `json:"command"`
	Description     string  `json:"description"`
	RunInBackground bool    `json:"run_in_background"`
	Timeout         float64 `json:"timeout"`
	FilePath        string  `json:"file_path"`
	NotebookPath    string  `json:"notebook_path"`
	Path            string  `json:"path"`
	Offset          float64 `json:"offset"`
	Limit           float64 `json:"limit"`
	Content         string  `json:"content"`
	editArgs
	Edits        []editArgs     `json:"edits"`
	NewSource    string         `json:"new_source"`
	Pattern      string         `json:"pattern"`
	Glob         string         `json:"glob"`
	Query        string         `json:"query"`
	URL          string         `json:"url"`
	URI          string         `json:"uri"`
	Server       string         `json:"server"`
	Prompt       string         `json:"prompt"`
	SubagentType string         `json:"subagent_type"`
	Questions    []questionArgs `json:"questions"`
	Plan         string         `json:"plan"`
	Subject      string         `json:"subject"`
	Skill        string         `json:"skill"`
}

type editArgs struct {
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

func (e editArgs) edit() row.Edit {
	return row.Edit{Old: e.OldString, New: e.NewString, All: e.ReplaceAll}
}

type questionArgs struct {
	Question    string `json:"question"`
	Header      string `json:"header"`
	MultiSelect bool   `json:"multiSelect"`
	Options     []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
}

// canonical maps a native tool and its input. The input is kept as it came
// when some of it could not be understood.
func (m *mapper) canonical(name string, input json.RawMessage) (tool row.ToolName, in row.ToolInput, title string) {
	var a toolArgs
	err := json.Unmarshal(input, &a)
	tool, in, title = m.known(name, a)
	if tool == row.ToolOther || tool == row.ToolMCP || err != nil {
		in.Arguments = arguments(input)
	}
	if title == "" {
		title = name
	}
	return tool, in, oneLine(title)
}

// known maps the arguments of the tools that this version knows.
func (m *mapper) known(name string, a toolArgs) (row.ToolName, row.ToolInput, string) {
	switch name {
	case "Bash", "PowerShell", "Monitor":
		return row.ToolBash, row.ToolInput{
			Command: a.Command, Description: a.Description, TimeoutMs: int64(a.Timeout),
			Background: a.RunInBackground || name == "Monitor",
		}, first(a.Description, a.Command)
	case "Read", "NotebookRead":
		path := first(a.FilePath, a.NotebookPath)
		return row.ToolRead, row.ToolInput{Path: path, Offset: int64(a.Offset), Limit: int64(a.Limit)}, m.short(path)
	case "Write":
		return row.ToolWrite, row.ToolInput{Path: a.FilePath, Content: a.Content}, m.short(a.FilePath)
	case "Edit":
		return row.ToolEdit, row.ToolInput{Path: a.FilePath, Edits: []row.Edit{a.edit()}}, m.short(a.FilePath)
	case "MultiEdit":
		in := row.ToolInput{Path: a.FilePath}
		for _, e := range a.Edits {
			in.Edits = append(in.Edits, e.edit())
		}
		return row.ToolEdit, in, m.short(a.FilePath)
	case "NotebookEdit":
		return row.ToolEdit, row.ToolInput{
			Path: a.NotebookPath, Edits: []row.Edit{{New: a.NewSource}},
		}, m.short(a.NotebookPath)
	case "Glob":
		return row.ToolGlob, row.ToolInput{Pattern: a.Pattern, Path: a.Path}, a.Pattern
	case "LS":
		return row.ToolList, row.ToolInput{Path: a.Path}, m.short(a.Path)
	case "Grep":
		return row.ToolGrep, row.ToolInput{Pattern: a.Pattern, Path: a.Path, Glob: a.Glob}, a.Pattern
	case "WebSearch", "web_search":
		return row.ToolWebSearch, row.ToolInput{Query: a.Query}, a.Query
	case "WebFetch", "web_fetch":
		return row.ToolWebFetch, row.ToolInput{URL: a.URL, Prompt: a.Prompt}, a.URL
	case "TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet":
		return row.ToolTodo, row.ToolInput{}, a.Subject
	case "Task", "Agent":
		return row.ToolTask, row.ToolInput{
			Description: a.Description, Prompt: a.Prompt, Agent: a.SubagentType, Background: a.RunInBackground,
		}, a.Description
	case "AskUserQuestion":
		items := questionItems(a.Questions)
		title := ""
		if len(items) > 0 {
			title = first(items[0].Header, items[0].Text)
		}
		return row.ToolQuestion, row.ToolInput{Questions: items}, title
	case "ExitPlanMode":
		return row.ToolPlan, row.ToolInput{Plan: a.Plan}, "Plan"
	case "ListMcpResourcesTool", "ListMcpResources":
		return row.ToolMCP, row.ToolInput{Server: a.Server, Method: "resources/list"}, ""
	case "ReadMcpResourceTool", "ReadMcpResource":
		return row.ToolMCP, row.ToolInput{Server: a.Server, Method: "resources/read"}, a.URI
	case "Skill":
		return row.ToolOther, row.ToolInput{}, a.Skill
	}
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		server, method, _ := strings.Cut(rest, "__")
		return row.ToolMCP, row.ToolInput{Server: server, Method: method}, server + ": " + method
	}
	return row.ToolOther, row.ToolInput{}, a.Description
}

// questionItems gives the questions ids by position: answers are keyed by id,
// and nothing says that the texts are different.
func questionItems(args []questionArgs) []row.QuestionItem {
	items := make([]row.QuestionItem, len(args))
	for i, q := range args {
		items[i] = row.QuestionItem{
			ID: "q" + strconv.Itoa(i+1), Header: q.Header, Text: q.Question,
			Multi: q.MultiSelect, FreeText: true,
		}
		for _, o := range q.Options {
			items[i].Options = append(items[i].Options, row.QuestionOption{Label: o.Label, Description: o.Description})
		}
	}
	return items
}

// arguments returns input as a JSON value of its own.
func arguments(input json.RawMessage) json.RawMessage {
	if len(input) == 0 {
		return nil
	}
	if !json.Valid(input) {
		text, err := json.Marshal(string(input))
		if err != nil {
			return nil
		}
		return text
	}
	return append(json.RawMessage(nil), input...)
}

// short returns path as seen from the project directory, when it is inside.
func (m *mapper) short(path string) string {
	if m.dir == "" || !filepath.IsAbs(path) {
		return path
	}
	rel, err := filepath.Rel(m.dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return path
	}
	return rel
}

// maxTitle bounds titles in bytes: they are one line in a list.
const maxTitle = 200

// oneLine returns the first line of s that says something, cut to a title.
func oneLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			if len(line) > maxTitle {
				line = row.Prefix(line, maxTitle-len("…")) + "…"
			}
			return line
		}
	}
	return ""
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
