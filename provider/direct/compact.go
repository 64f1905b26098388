package direct

import (
	"context"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// compactSystem and compactPrompt ask for the summary that replaces a
// conversation.
const (
	compactSystem = "You summarize conversations so that they can be continued from the summary alone."

	compactPrompt = "Summarize the conversation so far. The summary will replace it, so keep what is needed to go on: " +
		"what the user wants, what was decided and why, facts, names, numbers and code that matter, " +
		"what is unfinished, and what the user asked for last. " +
		"Write in the language of the conversation. Answer with the summary only."
)

// Compact implements [provider.Conversation].
func (c *chat) Compact(ctx context.Context, l exec.Launch, run provider.Run) (provider.Active, error) {
	if len(l.Conversation) == 0 {
		return nil, exec.Errorf(exec.CodeInvalid, "There is nothing to compact yet.")
	}
	instructions := strings.TrimSpace(l.Prompt.Text)
	l.Prompt = exec.Prompt{Text: compactPrompt}
	if instructions != "" {
		l.Prompt.Text += "\n\nThe user adds: " + instructions
	}
	k, _, err := c.prepare(ctx, l)
	if err != nil {
		return nil, err
	}
	// The effort is for answers; a summary needs none.
	k.turn.effort = ""
	k.turn.system = compactSystem
	return c.start(run, func(ctx context.Context) { c.summarize(ctx, k, run) })
}

func (c *chat) summarize(ctx context.Context, k call, run provider.Run) {
	out := &collector{}
	k.sink = out
	k.notice = func(n row.Notice) { run.Rows(row.Row{Body: &n}) }
	end, err := c.adapter.client.do(ctx, k)
	stopped := err != nil && ctx.Err() != nil
	if err == nil {
		err = end.failure(k.endpoint, k.turn.model)
	}
	summary := out.answer()
	if err == nil && summary == "" {
		err = emptyAnswer(k.turn.model)
	}
	t := exec.Terminal{Phase: row.RunCompleted, Usage: c.withWindow(end.usage, k)}
	switch {
	case stopped:
		t.Phase = row.RunInterrupted
	case err != nil:
		t.Phase, t.Error = row.RunFailed, err
	default:
		b := &row.Compaction{Trigger: "manual", Summary: summary}
		if u := t.Usage; u != nil {
			b.TokensBefore = u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
			b.TokensAfter = u.OutputTokens - u.ReasoningTokens
			// The context now begins with the summary.
			u.ContextTokens = b.TokensAfter
		}
		run.Rows(row.Row{Body: b})
	}
	c.finish(run, t)
}

func emptyAnswer(model string) *exec.Error {
	return exec.Errorf(exec.CodeModelError, "%s ended its answer without saying anything.", model).
		WithHint("Try again, or choose another model.").WithDispatched(exec.WasDispatched)
}
