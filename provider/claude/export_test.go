package claude

import (
	"fmt"
	"strings"

	"garcon/proto/row"
)

// Brief renders rows for comparison: one line each, without what differs from
// run to run.
func Brief(rows []row.Row) string {
	var b strings.Builder
	for _, r := range rows {
		if r.Child != "" {
			b.WriteString("  [child] ")
		}
		briefBody(&b, r)
		b.WriteByte('\n')
	}
	return b.String()
}

func briefBody(b *strings.Builder, r row.Row) {
	flag := func(on bool, name string) {
		if on {
			b.WriteString(" " + name)
		}
	}
	switch body := r.Body.(type) {
	case *row.User:
		fmt.Fprintf(b, "user %q", body.Text)
		flag(body.Steered, "steered")
		flag(body.Origin != "", "by "+string(body.Origin))
		for _, a := range body.Attachments {
			fmt.Fprintf(b, " +%s(%d)", a.MediaType, a.Size)
		}
	case *row.Assistant:
		fmt.Fprintf(b, "assistant %q", body.Text)
		flag(body.Final, "final")
		flag(body.Partial, "partial")
	case *row.Reasoning:
		fmt.Fprintf(b, "reasoning %q", body.Text)
		flag(body.Partial, "partial")
	case *row.Tool:
		fmt.Fprintf(b, "tool %s %s %s %q %s", body.CallID, body.Tool, body.Name, body.Title, body.Status)
	case *row.ToolResult:
		fmt.Fprintf(b, "result %s %s %q", body.CallID, body.Status, body.Output)
		if body.ExitCode != nil {
			fmt.Fprintf(b, " exit %d", *body.ExitCode)
		}
		for _, i := range body.Images {
			fmt.Fprintf(b, " +%s(%d)", i.MediaType, i.Size)
		}
	case *row.Subagent:
		fmt.Fprintf(b, "subagent %s %s %s %q %s %q", body.CallID, body.Mode, body.Type, body.Title, body.Status, body.Summary)
	case *row.Compaction:
		fmt.Fprintf(b, "compaction %s %q", body.Trigger, body.Summary)
	case *row.Notice:
		fmt.Fprintf(b, "notice %s", body.Code)
	case *row.Error:
		fmt.Fprintf(b, "error %s %q", body.Code, body.Text)
	case *row.Permission:
		fmt.Fprintf(b, "permission %s %s %q", body.CallID, body.Tool, body.Title)
		for _, o := range body.Options {
			fmt.Fprintf(b, " [%s]", o.Label)
		}
	case *row.Question:
		fmt.Fprintf(b, "question %s %d", body.CallID, len(body.Questions))
	default:
		b.WriteString(string(r.Kind()))
	}
}
