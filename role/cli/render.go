package cli

import (
	"fmt"
	"strings"
	"time"

	"garcon/proto/row"
)

// Lines of tool output and of a file that a transcript shows unless it is asked
// for all of it.
const shownLines = 12

// renderer turns transcript rows into text for people.
type renderer struct {
	// full shows tool output and inputs whole.
	full bool
	// reasoning shows the agent's thinking.
	reasoning bool
	// thread is how a permission or question is answered, for the hint.
	answerHint func(kind row.Kind, occurrence string) string
}

// row returns the text of one row, without a line feed at its end, and "" for a
// row that is not shown.
func (r *renderer) row(x row.Row) string {
	switch b := x.Body.(type) {
	case *row.User:
		return r.user(x, b)
	case *row.Assistant:
		return heading("assistant", x.Time) + "\n" + Visible(b.Text) + partial(b.Partial)
	case *row.Reasoning:
		if !r.reasoning {
			return ""
		}
		return heading("reasoning", x.Time) + "\n" + Visible(b.Text) + partial(b.Partial)
	case *row.Tool:
		return r.tool(b)
	case *row.ToolResult:
		return r.result(b)
	case *row.Run:
		return run(b)
	case *row.Session:
		return ""
	}
	return r.other(x)
}

func (r *renderer) other(x row.Row) string {
	switch b := x.Body.(type) {
	case *row.Permission:
		text := fmt.Sprintf("[permission] the agent asks to run %s: %s", VisibleLine(string(b.Tool)), VisibleLine(summary(b.Tool, b.Title, b.Input)))
		return text + r.hint(row.KindPermission, b.Occurrence)
	case *row.PermissionResolved:
		return fmt.Sprintf("[permission] %s", VisibleLine(resolution(string(b.Decision), b.Outcome)))
	case *row.Question:
		return questionText(b) + r.hint(row.KindQuestion, b.Occurrence)
	case *row.QuestionResolved:
		return "[question] " + VisibleLine(answersText(b))
	case *row.Compaction:
		return fmt.Sprintf("[compaction] the context was compacted (%s), %d to %d tokens", VisibleLine(b.Trigger), b.TokensBefore, b.TokensAfter)
	case *row.Handoff:
		return fmt.Sprintf("[handoff] from %s to %s", owner(b.From), owner(b.To))
	case *row.Subagent:
		return fmt.Sprintf("[subagent %s] %s: %s", VisibleLine(b.ChildID), VisibleLine(string(b.Status)), VisibleLine(b.Title))
	case *row.Notice:
		return remark("notice", b.Code, b.Title, b.Text)
	case *row.Error:
		return remark("error", b.Code, b.Title, b.Text)
	}
	return fmt.Sprintf("[%s] not understood by this version", VisibleLine(string(x.Kind())))
}

func (r *renderer) hint(kind row.Kind, occurrence string) string {
	if r.answerHint == nil {
		return ""
	}
	return "\n  " + r.answerHint(kind, occurrence)
}

func (r *renderer) user(x row.Row, b *row.User) string {
	title := "user"
	if b.Steered {
		title = "user, steering"
	}
	text := heading(title, x.Time) + "\n" + Visible(b.Text)
	for _, a := range b.Attachments {
		text += fmt.Sprintf("\n[attachment] %s (%s, %d bytes)", VisibleLine(a.Name), VisibleLine(a.MediaType), a.Size)
	}
	return text
}

func (r *renderer) tool(b *row.Tool) string {
	text := fmt.Sprintf("[%s] %s", VisibleLine(string(b.Tool)), VisibleLine(summary(b.Tool, b.Title, b.Input)))
	if b.Status == row.ToolDenied || b.Status == row.ToolCancelled || b.Status == row.ToolFailed {
		text += " (" + string(b.Status) + ")"
	}
	if b.Tool == row.ToolTodo {
		for _, t := range b.Input.Todos {
			text += fmt.Sprintf("\n  %s %s", todoMark(t.Status), VisibleLine(t.Text))
		}
	}
	if !r.full {
		return text
	}
	for _, body := range []string{b.Input.Content, b.Input.Patch, b.Input.Plan, b.Input.Prompt, string(b.Input.Arguments)} {
		if body != "" {
			text += "\n" + indent(Visible(body))
		}
	}
	for _, e := range b.Input.Edits {
		text += "\n" + indent("- "+Visible(e.Old)) + "\n" + indent("+ "+Visible(e.New))
	}
	return text
}

func (r *renderer) result(b *row.ToolResult) string {
	var parts []string
	if b.ExitCode != nil && *b.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("exit code %d", *b.ExitCode))
	}
	if b.IsError {
		parts = append(parts, "failed")
	}
	for _, out := range []string{b.Diff, b.Output, b.Stderr} {
		if out = strings.TrimRight(out, "\n"); out != "" {
			parts = append(parts, r.cut(Visible(out)))
		}
	}
	if n := len(b.Images); n > 0 {
		parts = append(parts, fmt.Sprintf("(%d images)", n))
	}
	if b.Truncated {
		parts = append(parts, fmt.Sprintf("(cut; %d bytes in all)", b.FullSize))
	}
	if len(parts) == 0 {
		return ""
	}
	return indent(strings.Join(parts, "\n"))
}

// cut leaves out the lines after the first few.
func (r *renderer) cut(text string) string {
	lines := strings.Split(text, "\n")
	if r.full || len(lines) <= shownLines {
		return text
	}
	return strings.Join(lines[:shownLines], "\n") + fmt.Sprintf("\n… %d lines more", len(lines)-shownLines)
}

// summary says in a line what a tool call is about.
func summary(tool row.ToolName, title string, in row.ToolInput) string {
	for _, s := range []string{in.Command, in.Path, in.Query, in.URL, in.Pattern} {
		if s != "" {
			return s
		}
	}
	switch {
	case tool == row.ToolMCP:
		return in.Server + " " + in.Method
	case title != "":
		return title
	case len(in.Paths) > 0:
		return strings.Join(in.Paths, ", ")
	case in.Description != "":
		return in.Description
	case tool == row.ToolTodo:
		return fmt.Sprintf("%d items", len(in.Todos))
	}
	return row.Prefix(string(in.Arguments), 200)
}

func run(b *row.Run) string {
	switch b.Phase {
	case row.RunFailed, row.RunInterrupted:
		text := "[run] " + string(b.Phase)
		if b.Detail != "" {
			text += ": " + VisibleLine(b.Detail)
		}
		if b.Hint != "" {
			text += "\n  " + VisibleLine(b.Hint)
		}
		return text
	case row.RunCompleted:
		text := "[run] completed"
		if b.DurationMs > 0 {
			text += " in " + time.Duration(b.DurationMs*int64(time.Millisecond)).Round(100*time.Millisecond).String()
		}
		if b.Usage != nil {
			text += fmt.Sprintf(", %d tokens in, %d out", b.Usage.InputTokens, b.Usage.OutputTokens)
		}
		return text
	}
	return ""
}

func questionText(b *row.Question) string {
	var parts []string
	for _, q := range b.Questions {
		parts = append(parts, fmt.Sprintf("[question %s] %s", VisibleLine(q.ID), VisibleLine(q.Text)))
		for _, o := range q.Options {
			line := "  - " + VisibleLine(o.Label)
			if o.Description != "" {
				line += ": " + VisibleLine(o.Description)
			}
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "\n")
}

func resolution(decision string, o row.Outcome) string {
	if o == row.Answered && decision != "" {
		return decision
	}
	return string(o)
}

func answersText(b *row.QuestionResolved) string {
	if b.Declined {
		return "declined"
	}
	if len(b.Answers) == 0 {
		return string(b.Outcome)
	}
	var parts []string
	for _, id := range sortedKeys(b.Answers) {
		parts = append(parts, id+": "+strings.Join(b.Answers[id], ", "))
	}
	return strings.Join(parts, "; ")
}

func owner(o row.Owner) string {
	text := VisibleLine(o.Agent) + " on " + VisibleLine(o.Executor)
	if o.Model != "" {
		text += " (" + VisibleLine(o.Model) + ")"
	}
	return text
}

func remark(kind, code, title, text string) string {
	out := "[" + kind + "]"
	if title == "" && text == "" {
		return out + " " + VisibleLine(code)
	}
	if title != "" {
		out += " " + VisibleLine(title)
	}
	if text != "" {
		out += "\n" + indent(Visible(text))
	}
	return out
}

func heading(who string, ms int64) string {
	return "── " + who + " ── " + clock(ms)
}

// clock returns the time of a row in the reader's zone.
func clock(ms int64) string {
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05")
}

func partial(cut bool) string {
	if cut {
		return "\n(cut off)"
	}
	return ""
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}

func todoMark(status string) string {
	switch status {
	case "completed":
		return "[x]"
	case "in-progress":
		return "[>]"
	case "cancelled":
		return "[-]"
	}
	return "[ ]"
}
