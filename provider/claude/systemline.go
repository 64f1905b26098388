package claude

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// system writes what a system line says to people.
func (s *scribe) system(e envelope) {
	var l systemLine
	if decode(e.data, &l) != nil {
		return
	}
	switch e.Subtype {
	case "compact_boundary":
		s.settle()
		s.turn.compacting = false
		s.turn.compaction = &row.Row{Head: head(e.UUID, 0), Body: &row.Compaction{
			Trigger: l.Compact.Trigger, TokensBefore: l.Compact.PreTokens, TokensAfter: l.Compact.PostTokens,
		}}
	case "status":
		switch {
		case l.CompactResult != "failed":
		case s.turn.compacting:
			s.turn.failure = compactionFailure(l.CompactError)
		default:
			s.notice(e, "COMPACTION_FAILED", "Compaction failed", first(l.CompactError, "Claude Code did not say why."))
		}
	case "api_retry":
		s.apiRetry(e, &l)
	case "task_started":
		s.taskStarted(e, &l)
	case "task_updated":
		s.taskUpdated(&l)
	case "task_notification":
		s.taskEnded(&l, l.Status, l.Summary)
	case "background_tasks_changed":
		s.tasksChanged(&l)
	case "local_command_output":
		if text := strings.TrimSpace(l.Content); text != "" {
			s.settle()
			s.turn.answered = true
			s.turn.held = &heldText{row: row.Row{Head: head(e.UUID, 0), Body: &row.Assistant{Text: text}}}
		}
	case "informational":
		if l.Level != "info" && l.Content != "" {
			s.notice(e, "AGENT_NOTICE", "Claude Code", l.Content)
		}
	case "notification":
		if l.Priority == "high" || l.Priority == "immediate" {
			s.notice(e, "AGENT_NOTICE", "Claude Code", l.Text)
		}
	case "model_fallback", "model_refusal_fallback", "model_refusal_no_fallback":
		text := l.Content
		if text == "" {
			text = fmt.Sprintf("%s answered in place of %s.", first(l.FallbackModel, "Another model"), first(l.OriginalModel, "the chosen one"))
		}
		s.notice(e, "MODEL_FALLBACK", "Another model", text)
	case "session_writes_lost":
		s.notice(e, "SESSION_WRITES_LOST", "Not everything was saved",
			"Claude Code could not write all of the conversation to its disk ("+first(l.ErrorCode, "unknown error")+"): resuming it may miss a part.")
	}
}

func (s *scribe) notice(e envelope, code, title, text string) {
	s.emit(head(e.UUID, 0), &row.Notice{Code: code, Title: title, Text: text})
}

// retryNoticeMin is the shortest wait that gets a notice after the first of a
// row of retries: ten retries in three seconds are one piece of news.
const retryNoticeMin = 5 * time.Second

// apiRetry says that the CLI waits and tries again.
func (s *scribe) apiRetry(e envelope, l *systemLine) {
	s.turn.retry = apiRetry{status: l.ErrorStatus, kind: l.Error, delay: l.RetryDelay}
	delay := time.Duration(l.RetryDelay * float64(time.Millisecond))
	if l.Attempt > 1 && delay < retryNoticeMin {
		return
	}
	s.notice(e, "API_RETRY", "Waiting for the model", fmt.Sprintf("%s. Attempt %d of %d in %s.",
		retryCause(l.ErrorStatus, l.Error), int(l.Attempt), int(l.MaxRetries), roundDelay(delay)))
}

func retryCause(status int, kind string) string {
	cause := map[string]string{
		"rate_limit":            "The rate limit was reached",
		"overloaded":            "The model is overloaded",
		"server_error":          "The model's server had an error",
		"authentication_failed": "The credentials were refused",
	}[kind]
	if cause == "" {
		cause = "The model could not be reached"
	}
	if status != 0 {
		return fmt.Sprintf("%s (HTTP %d)", cause, status)
	}
	return cause
}

func roundDelay(d time.Duration) time.Duration {
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(100 * time.Millisecond)
}

type rateLimitLine struct {
	Info struct {
		Status      string  `json:"status"`
		ResetsAt    int64   `json:"resetsAt"`
		Type        string  `json:"rateLimitType"`
		Utilization float64 `json:"utilization"`
	} `json:"rate_limit_info"`
}

// rateLimit remembers when a refusal ends and passes a warning on, once for
// each limit.
func (s *scribe) rateLimit(e envelope) {
	var l rateLimitLine
	if decode(e.data, &l) != nil {
		return
	}
	s.resetsAt = 0
	switch l.Info.Status {
	case "rejected":
		s.resetsAt = l.Info.ResetsAt
	case "allowed_warning":
		key := fmt.Sprint(l.Info.Type, l.Info.ResetsAt)
		if s.warned[key] {
			return
		}
		s.warned[key] = true
		text := "The " + strings.ReplaceAll(first(l.Info.Type, "usage"), "_", " ") + " limit is nearly used up"
		if l.Info.Utilization > 0 {
			text += fmt.Sprintf(" (%.0f%%)", l.Info.Utilization*100)
		}
		if l.Info.ResetsAt > 0 {
			text += "; it resets at " + time.Unix(l.Info.ResetsAt, 0).UTC().Format("2006-01-02 15:04 MST")
		}
		s.notice(e, "RATE_LIMIT_WARNING", "Rate limit", text+".")
	}
}

// apiError keeps the error of a turn for the result that follows.
func (s *scribe) apiError(l *messageLine) {
	s.settle()
	s.turn.failure = &apiFailure{
		kind: l.Error, status: l.APIErrorStatus, api: l.APIError, reason: l.Message.StopReason,
		text: l.Message.Content.text(),
	}
}

// recovered writes an error that turned out not to be the end of the run.
func (s *scribe) recovered() {
	f := s.turn.failure
	if f == nil {
		return
	}
	s.turn.failure = nil
	e := f.err()
	s.emit(row.Head{}, &row.Error{Code: string(e.Code), Title: "The turn failed", Text: e.Message})
}

// endTurn takes the result of a turn in and returns it with the error it ended
// in, nil for none. The error of an earlier turn of the same run is written as
// a row only when a turn follows it.
func (s *scribe) endTurn(e envelope) (resultLine, *exec.Error) {
	var r resultLine
	if err := decode(e.data, &r); err != nil {
		return r, exec.Errorf(exec.CodeAgentProtocol, "the end of the turn could not be read: %w", err)
	}
	s.account(&r)
	defer func() { s.turn.answered = false }()
	if r.aborted() {
		return r, nil
	}
	if s.turn.compacting {
		// The CLI calls it a success all the same.
		s.turn.compacting = false
		if s.turn.failure == nil {
			s.turn.failure = compactionFailure(r.Result)
		}
		return r, s.failed(&r)
	}
	if !r.IsError {
		s.turn.failure = nil
		if !s.turn.answered && r.Result != "" && r.Result != noContent {
			// Older CLIs give the output of some commands only here.
			s.settle()
			s.turn.held = &heldText{row: row.Row{Head: head(e.UUID, 0), Body: &row.Assistant{Text: r.Result}}}
		}
		if r.TerminalReason == "completed" && r.StopReason == "" && s.turn.answered {
			return r, truncated()
		}
		if r.StopReason == "refusal" {
			return r, (apiFailure{reason: "refusal", text: first(r.Result, "The model refused to answer.")}).err()
		}
		return r, nil
	}
	if s.turn.failure == nil && e.Subtype != "success" {
		return r, turnFailure(e.Subtype, &r)
	}
	if s.turn.failure == nil {
		s.turn.failure = &apiFailure{text: r.Result}
	}
	return r, s.failed(&r)
}

// failed returns the failure of the turn with what its result adds to it.
func (s *scribe) failed(r *resultLine) *exec.Error {
	f := s.turn.failure
	f.status = max(f.status, r.APIErrorStatus)
	f.api = first(f.api, r.APIError)
	if r.TerminalReason != "api_error" && r.TerminalReason != "completed" {
		f.reason = first(r.TerminalReason, f.reason)
	}
	switch {
	case s.resetsAt > 0:
		f.retryAfter = max(0, time.Until(time.Unix(s.resetsAt, 0)))
	case s.turn.retry.delay > 0:
		f.retryAfter = time.Duration(s.turn.retry.delay * float64(time.Millisecond))
	}
	return f.err()
}

// skipTurn takes in the result of a turn that belongs to no run.
func (s *scribe) skipTurn(e envelope) {
	var r resultLine
	if decode(e.data, &r) == nil {
		s.costBefore = r.TotalCost
	}
}

// account adds the usage of a turn to that of the run.
func (s *scribe) account(r *resultLine) {
	u := &s.turn.usage
	u.InputTokens += r.Usage.Input
	u.OutputTokens += r.Usage.Output
	u.CacheReadTokens += r.Usage.CacheRead
	u.CacheWriteTokens += r.Usage.CacheWrite
	u.ReasoningTokens += r.Usage.Details.Thinking
	s.turn.used = s.turn.used || r.NumTurns > 0
	cost := r.TotalCost - s.costBefore
	if cost < 0 {
		// The count began again, as it does after /clear.
		cost = r.TotalCost
	}
	if r.SinceLast != nil {
		cost = 0
		for _, m := range r.SinceLast {
			cost += m.CostUSD
		}
	}
	s.costBefore = r.TotalCost
	u.CostUSD += cost
	for _, m := range r.ModelUsage {
		u.ContextWindow = max(u.ContextWindow, m.ContextWindow)
	}
}

// usage returns what the run has used, nil when no model was asked.
func (s *scribe) usage() *row.Usage {
	if !s.turn.used {
		return nil
	}
	u := s.turn.usage
	return &u
}

// garbage notes a line that is no JSON: one notice for the life of the process.
func (s *scribe) garbage(err error) {
	if s.noise {
		return
	}
	s.noise = true
	text := "Claude Code printed something that is not part of its protocol; it was skipped."
	if _, ok := err.(*json.SyntaxError); !ok && err != nil {
		text = "Claude Code printed something that cannot be used: " + err.Error() + ". It was skipped."
	}
	s.emit(row.Head{}, &row.Notice{Code: "AGENT_OUTPUT", Title: "Unexpected output", Text: text})
}
