package claude

import (
	"context"
	"strings"
	"time"

	"garcon/proto/exec"
)

// query implements [exec.SingleQuery].
type query struct{ *adapter }

// queryTimeout bounds a query whose context sets no earlier end: an answer of a
// few lines, with the retries of the CLI.
const queryTimeout = 5 * time.Minute

// Query implements [exec.SingleQuery]. The CLI runs without tools, servers and
// commands, keeps no session, and sees an empty directory. The user's own
// settings are used, since they can hold how to sign in.
func (q query) Query(ctx context.Context, req exec.Query) (string, error) {
	if req.Endpoint != nil {
		return "", exec.Errorf(exec.CodeUnsupported, "Claude Code uses the account of the executor and takes no endpoint")
	}
	if strings.TrimSpace(req.Prompt) == "" {
		return "", exec.Errorf(exec.CodeInvalid, "the prompt is empty")
	}
	f, err := q.find(ctx)
	if err != nil {
		return "", err
	}
	args := []string{
		"-p", "--output-format", "json", "--max-turns", "1", "--tools", "", "--no-session-persistence",
		"--strict-mcp-config", "--disable-slash-commands", "--setting-sources", "user",
	}
	if req.System != "" {
		args = append(args, "--system-prompt="+req.System)
	}
	if req.Model != "" {
		args = append(args, "--model="+req.Model)
	}
	prompt := req.Prompt
	if strings.HasPrefix(prompt, "/") {
		// With a space before it, it is no command.
		prompt = " " + prompt
	}
	text, failure := q.feed(ctx, f.path, queryTimeout, prompt, args...)
	return answerOf(text, failure)
}

// answerOf reads the result that the CLI printed. failure is how its process
// failed, which an error of the API is too.
func answerOf(text string, failure *exec.Error) (string, error) {
	var r struct {
		resultLine
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	if decode([]byte(text), &r) != nil || r.Type != "result" {
		if failure != nil {
			return "", startFailure(failure, failure.Detail)
		}
		return "", exec.Errorf(exec.CodeAgentProtocol, "Claude Code printed no result").WithDispatched(exec.WasDispatched)
	}
	switch {
	case r.IsError && r.Subtype == "success":
		return "", (apiFailure{status: r.APIErrorStatus, api: r.APIError, text: r.Result}).err()
	case r.IsError || r.Subtype != "success":
		return "", turnFailure(r.Subtype, &r.resultLine)
	case r.StopReason == "refusal":
		return "", (apiFailure{reason: "refusal", text: first(r.Result, "The model refused to answer.")}).err()
	case r.TerminalReason == "completed" && r.StopReason == "":
		return "", truncated()
	}
	return r.Result, nil
}
