package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/store/ledger"
)

// exportSchema is the version of the JSON export.
const exportSchema = 1

// ExportMarkdown writes a transcript as Markdown.
func (s *Service) ExportMarkdown(ctx context.Context, id string, w io.Writer) error {
	c, err := s.Show(id)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s\n\n%s · %s · %s\n", c.Title, c.Agent, c.ProjectPath, time.UnixMilli(c.CreatedAt).UTC().Format(time.RFC3339))
	err = s.eachRow(ctx, id, "", func(r ledger.Stored) error {
		writeMarkdown(out, r.Row)
		return nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// ExportJSON writes a chat and its rows as one JSON document.
func (s *Service) ExportJSON(ctx context.Context, id string, w io.Writer) error {
	c, err := s.Show(id)
	if err != nil {
		return err
	}
	head, err := json.Marshal(struct {
		Schema int      `json:"schema"`
		Chat   api.Chat `json:"chat"`
	}{exportSchema, c})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	_, _ = out.Write(head[:len(head)-1])
	_, _ = out.WriteString(`,"rows":[`)
	first := true
	err = s.eachRow(ctx, id, "", func(r ledger.Stored) error {
		if r.Row.Kind() == row.KindSession {
			return nil
		}
		if !first {
			_ = out.WriteByte(',')
		}
		first = false
		_ = out.WriteByte('\n')
		_, err := out.Write(r.JSON)
		return err
	})
	if err != nil {
		return err
	}
	_, _ = out.WriteString("\n]}\n")
	return out.Flush()
}

// writeMarkdown writes one row. Errors stay in w until it is flushed.
func writeMarkdown(w *bufio.Writer, r row.Row) {
	switch b := r.Body.(type) {
	case *row.User:
		fmt.Fprintf(w, "\n## User\n\n%s\n", b.Text)
		for _, a := range b.Attachments {
			fmt.Fprintf(w, "\n- attached: %s (%s, %d bytes)\n", a.Name, a.MediaType, a.Size)
		}
	case *row.Assistant:
		fmt.Fprintf(w, "\n## Assistant\n\n%s\n", b.Text)
		if b.Partial {
			fmt.Fprint(w, "\n*(cut off)*\n")
		}
	case *row.Reasoning:
		fmt.Fprintf(w, "\n%s\n", quoted(b.Text))
	case *row.Tool:
		fmt.Fprintf(w, "\n### %s %s\n", b.Tool, b.Title)
		writeInput(w, b.Input)
	case *row.ToolResult:
		writeResult(w, b)
	case *row.Permission:
		fmt.Fprintf(w, "\n*Permission asked: %s %s*\n", b.Tool, b.Title)
	case *row.PermissionResolved:
		fmt.Fprintf(w, "\n*Permission: %s*\n", firstOf(string(b.Decision), string(b.Outcome)))
	case *row.Question:
		for _, q := range b.Questions {
			fmt.Fprintf(w, "\n*Question: %s*\n", q.Text)
		}
	case *row.QuestionResolved:
		for id, answers := range b.Answers {
			fmt.Fprintf(w, "\n*Answer to %s: %s*\n", id, strings.Join(answers, ", "))
		}
	case *row.Run:
		if b.Phase == row.RunFailed || b.Phase == row.RunInterrupted {
			fmt.Fprintf(w, "\n*Turn %s: %s*\n", b.Phase, b.Detail)
		}
	case *row.Compaction:
		fmt.Fprintf(w, "\n---\n\n*Context compacted*\n\n%s\n", quoted(b.Summary))
	case *row.Notice:
		fmt.Fprintf(w, "\n*%s %s*\n", b.Title, b.Text)
	case *row.Error:
		fmt.Fprintf(w, "\n**%s** %s\n", b.Title, b.Text)
	case *row.Subagent:
		fmt.Fprintf(w, "\n*Subagent %s: %s*\n", b.Title, b.Status)
	case *row.Handoff:
		fmt.Fprintf(w, "\n---\n\n*Handed from %s to %s*\n", b.From.Agent, b.To.Agent)
	case *row.Opaque:
		fmt.Fprintf(w, "\n*(a row of kind %q, not understood by this version)*\n", b.Type)
	}
}

func writeInput(w *bufio.Writer, in row.ToolInput) {
	for _, text := range []string{in.Command, in.Patch, in.Content, in.Prompt, in.Plan} {
		if text != "" {
			fence(w, "", text)
		}
	}
	for _, e := range in.Edits {
		fence(w, "diff", "-"+strings.ReplaceAll(e.Old, "\n", "\n-")+"\n+"+strings.ReplaceAll(e.New, "\n", "\n+"))
	}
	for _, t := range in.Todos {
		fmt.Fprintf(w, "\n- %s (%s)", t.Text, t.Status)
	}
}

func writeResult(w *bufio.Writer, b *row.ToolResult) {
	if b.Diff != "" {
		fence(w, "diff", b.Diff)
	}
	for _, text := range []string{b.Output, b.Stderr} {
		if text != "" {
			fence(w, "", text)
		}
	}
	if b.ExitCode != nil && *b.ExitCode != 0 {
		fmt.Fprintf(w, "\n*exit code %d*\n", *b.ExitCode)
	}
}

// fence writes a code block whose fence the text does not contain.
func fence(w *bufio.Writer, language, text string) {
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	fmt.Fprintf(w, "\n%s%s\n%s\n%s\n", mark, language, strings.TrimSuffix(text, "\n"), mark)
}

func quoted(text string) string {
	return "> " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n> ")
}
