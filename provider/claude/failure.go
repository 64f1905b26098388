package claude

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"garcon/proto/exec"
)

// apiFailure is a turn that ended in an error of the Messages API, as far as the
// CLI tells it: a synthetic assistant message and a result say parts of it.
type apiFailure struct {
	// kind is the CLI's own word, status the HTTP status (0 when there was no
	// answer or the CLI did not say).
	kind   string
	status int
	// api is "connection_failed" when a newer CLI could not connect.
	api string
	// reason is the result's terminal_reason or, for a refusal, stop reason.
	reason string
	text   string
	// retryAfter is how long to wait, zero when nobody said.
	retryAfter time.Duration
}

// signInHint says how to sign in.
const signInHint = `Run "claude auth login" in a terminal on the executor, or set ANTHROPIC_API_KEY in its environment.`

// statusInText is where the CLI has the HTTP status in words.
var statusInText = regexp.MustCompile(`(?:API Error: |rejected \()([45]\d\d)\b`)

// compactionFailure is a compaction that the user asked for and that did not
// happen. The CLI says why in words alone.
func compactionFailure(text string) *apiFailure {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "AbortError: "), "Error: ")
	f := &apiFailure{text: first(text, "Claude Code did not compact the conversation and did not say why")}
	if m := statusInText.FindStringSubmatch(text); m != nil {
		// Three digits.
		f.status, _ = strconv.Atoi(m[1])
	}
	return f
}

// err returns the failure as the error of a run.
func (f apiFailure) err() *exec.Error {
	code, hint := f.classify()
	text := strings.TrimSpace(f.text)
	if text == "" {
		text = "Claude Code ended the turn with an error and did not say which"
	}
	e := exec.Errorf(code, "%s", text).WithDispatched(exec.WasDispatched)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	if f.retryAfter > 0 && (code == exec.CodeRateLimited || code == exec.CodeOverloaded) {
		e = e.WithRetryAfter(f.retryAfter)
	}
	return e
}

// classify finds the code. The CLI's words come first, then the status, then
// the text: older CLIs give only that.
func (f apiFailure) classify() (exec.Code, string) {
	text := strings.ToLower(f.text)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("not logged in", "please run /login", "oauth token has expired", "oauth token revoked"):
		return exec.CodeNotSignedIn, signInHint
	case has("messages to compact"):
		return exec.CodeInvalid, "There is not enough to compact yet."
	case f.kind == "billing_error" || has("credit balance is too low"):
		return exec.CodeQuota, "Add credit to the account, or use another one."
	case has("could not be reduced below the context limit"):
		return exec.CodeContextOverflow, "Continue in a new conversation."
	case f.reason == "prompt_too_long" || has("prompt is too long"):
		return exec.CodeContextOverflow, "Compact the conversation, or continue in a new one."
	case f.kind == "max_output_tokens" || has("exceeded the output token maximum"):
		return exec.CodeTruncated, "Ask for a shorter answer, or raise CLAUDE_CODE_MAX_OUTPUT_TOKENS."
	case f.reason == "refusal" || has("violate our usage policy", "unable to respond to this request"):
		return exec.CodeContentRefused, "Change the request, or continue in a new conversation."
	case f.kind == "model_not_found" || f.status == 404:
		return exec.CodeUnknownModel, "Choose another model."
	case f.status == 413 || f.reason == "image_error" || has("request too large"):
		return exec.CodeTooLarge, "Send less at once, or compact the conversation."
	case f.kind == "rate_limit" || f.status == 429:
		return exec.CodeRateLimited, "Wait and send the message again."
	case f.kind == "overloaded" || f.status == 529 || has("529 overloaded", "overloaded_error"):
		return exec.CodeOverloaded, "Wait a little and send the message again."
	case has("mid-response", "cut off mid-stream"):
		return exec.CodeTruncated, "Send the message again."
	case f.status == 401 || f.status == 403, f.kind == "authentication_failed", f.kind == "oauth_org_not_allowed",
		f.kind == "account_on_hold", f.kind == "verification_required", f.kind == "cloud_credential_error":
		return exec.CodeRefused, "Check the API key or the account that Claude Code uses on the executor."
	case f.api == "connection_failed" || has("connection refused", "unable to connect", "connection error", "fetch failed", "econnre", "enotfound", "etimedout"):
		return exec.CodeUnreachable, "Check the network of the executor, its proxy, and ANTHROPIC_BASE_URL."
	}
	if f.kind == "server_error" || f.status >= 500 {
		return exec.CodeModelError, "This is usually temporary: send the message again in a moment."
	}
	return exec.CodeModelError, ""
}

// truncated is an answer that ended without its end. Older CLIs take it for a
// whole one.
func truncated() *exec.Error {
	return exec.Errorf(exec.CodeTruncated, "the answer was cut off: the connection to the model ended in the middle of it").
		WithDispatched(exec.WasDispatched).WithHint("Send the message again.")
}

// turnFailure is a result that is no success and no API error.
func turnFailure(subtype string, r *resultLine) *exec.Error {
	fail := func(code exec.Code, text string) *exec.Error {
		return exec.Errorf(code, "%s", text).WithDispatched(exec.WasDispatched)
	}
	var texts []string
	for _, s := range r.Errors {
		// Diagnostics of the CLI say nothing to people.
		if !strings.HasPrefix(s, "[ede_diagnostic]") {
			texts = append(texts, s)
		}
	}
	detail := strings.Join(texts, "\n")
	switch subtype {
	case "error_max_turns":
		return fail(exec.CodeModelError, "Claude Code stopped at its limit of steps").WithHint("Send another message to go on.")
	case "error_max_budget_usd":
		return fail(exec.CodeQuota, "Claude Code stopped at its budget").WithDetail(detail)
	}
	if detail != "" {
		return fail(exec.CodeModelError, detail)
	}
	return fail(exec.CodeModelError, "Claude Code gave up the turn because of an error of its own").
		WithHint("Send the message again.")
}

// startFailure explains a process that ended before it was ready. e is how it
// ended, stderr what it said.
func startFailure(e *exec.Error, stderr string) *exec.Error {
	fail := func(code exec.Code, text string) *exec.Error {
		return exec.Errorf(code, "%s", text).WithDetail(stderr)
	}
	switch {
	case strings.Contains(stderr, "No conversation found"):
		return fail(exec.CodeSessionMissing, "Claude Code no longer has the conversation").
			WithHint("Start a new chat, or hand this one off to a new session.")
	case strings.Contains(stderr, "No message found with message.uuid"):
		return fail(exec.CodeSessionMissing, "the conversation no longer has the entry to continue from")
	case strings.Contains(stderr, "cannot be used with root/sudo"):
		return bypassAsRoot().WithDetail(stderr)
	case strings.Contains(stderr, "is already in use"):
		return fail(exec.CodeSessionBusy, "another session of Claude Code has this id")
	case strings.Contains(stderr, "unknown option"):
		return fail(exec.CodeAgentVersion, "this version of Claude Code does not know an option that is needed").
			WithHint("Update Claude Code: %s", installCommand)
	case strings.Contains(stderr, "Input must be provided"), strings.Contains(stderr, "requires --verbose"):
		return fail(exec.CodeAgentProtocol, "Claude Code did not accept how it was started")
	}
	// Nothing was asked of it yet, so nothing can have happened.
	return e.WithDispatched(exec.NotDispatched)
}

// bypassAsRoot refuses what the CLI would refuse, before anything is started.
func bypassAsRoot() *exec.Error {
	return exec.Errorf(exec.CodeInvalid, "Claude Code does not run without permission checks as root").
		WithHint("Choose another permission mode, run the executor as an ordinary user, or set IS_SANDBOX=1 in its environment if the machine is a sandbox.")
}
