package claude

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// toolRequest is a "can_use_tool" request of the CLI.
type toolRequest struct {
	ToolName       string            `json:"tool_name"`
	Input          json.RawMessage   `json:"input"`
	Description    string            `json:"description"`
	Suggestions    []json.RawMessage `json:"permission_suggestions"`
	DecisionReason string            `json:"decision_reason"`
	ToolUseID      string            `json:"tool_use_id"`
}

// ask is a request of the CLI that the user has to answer.
type ask struct {
	// id is the CLI's id of the request and our occurrence: it is a UUID.
	id  string
	req toolRequest
	row row.Row
	// grants are the permission updates of the options that bring one.
	grants map[string][]suggestion
	// questions are the texts that the answers are keyed by, by our ids.
	questions []row.QuestionItem

	// confirmed is closed when the CLI has taken the answer, withdrawn when it
	// no longer asks.
	confirmed chan struct{}
	withdrawn chan struct{}
}

// The ids of options. A suggestion's option has its position behind it.
const (
	optionAllow   = "allow"
	optionSession = "allow-session-"
	optionDeny    = "deny"
	optionStop    = "deny-stop"
	optionApprove = "approve"
	optionEdits   = "approve-edits"
	optionPlan    = "keep-planning"
)

// maxOptions bounds the suggestions that are offered; the CLI makes three.
const maxOptions = 8

// maxPlan bounds a plan that is read from a file, in bytes: many pages.
const maxPlan = 1 << 20

// newAsk makes the row of a request. s knows what the agent has written.
func (s *scribe) newAsk(id string, req toolRequest) *ask {
	a := &ask{id: id, req: req, grants: map[string][]suggestion{}, confirmed: make(chan struct{}), withdrawn: make(chan struct{})}
	tool, in, title := s.canonical(req.ToolName, req.Input)
	switch tool {
	case row.ToolQuestion:
		a.questions = in.Questions
		a.row = row.Row{Body: &row.Question{Occurrence: id, CallID: req.ToolUseID, Questions: in.Questions}}
		return a
	case row.ToolPlan:
		in.Plan = first(in.Plan, s.saidPlan, s.readPlan())
		a.row = row.Row{Body: &row.Permission{
			Occurrence: id, CallID: req.ToolUseID, Tool: tool, Name: req.ToolName, Title: title, Input: in,
			Options: a.planOptions(),
		}}
		return a
	}
	a.row = row.Row{Body: &row.Permission{
		Occurrence: id, CallID: req.ToolUseID, Tool: tool, Name: req.ToolName,
		Title: first(oneLine(req.Description), title), Input: in, Reason: stripANSI(req.DecisionReason),
		Options: a.toolOptions(),
	}}
	return a
}

// readPlan reads the plan that the agent wrote to a file; what cannot be read
// leaves the request without a plan.
func (s *scribe) readPlan() string {
	if s.planFile == "" {
		return ""
	}
	info, err := os.Stat(s.planFile)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPlan {
		return ""
	}
	text, err := os.ReadFile(s.planFile)
	if err != nil {
		return ""
	}
	return string(text)
}

func (a *ask) planOptions() []row.PermissionOption {
	a.grants[optionApprove] = []suggestion{{Type: "setMode", Mode: modeDefault, Destination: destinationSession}}
	a.grants[optionEdits] = []suggestion{{Type: "setMode", Mode: modeAcceptEdits, Destination: destinationSession}}
	return []row.PermissionOption{
		{ID: optionApprove, Decision: row.AllowOnce, Label: "Approve the plan and keep asking before changes"},
		{ID: optionEdits, Decision: row.AllowSession, Label: "Approve the plan and accept file edits in the project for the rest of this session"},
		{ID: optionPlan, Decision: row.Deny, Label: "Keep planning"},
	}
}

func (a *ask) toolOptions() []row.PermissionOption {
	options := []row.PermissionOption{{ID: optionAllow, Decision: row.AllowOnce, Label: "Allow this once"}}
	for _, raw := range a.req.Suggestions {
		var g suggestion
		if decode(raw, &g) != nil || len(options) > maxOptions {
			continue
		}
		label := g.label()
		if label == "" {
			continue
		}
		// Never into a file: a settings file of the project would outlive the
		// session and could be committed.
		g.Destination = destinationSession
		id := optionSession + strconv.Itoa(len(options))
		a.grants[id] = []suggestion{g}
		options = append(options, row.PermissionOption{ID: id, Decision: row.AllowSession, Label: label})
	}
	return append(options,
		row.PermissionOption{ID: optionDeny, Decision: row.Deny, Label: "Deny and let the agent go on"},
		row.PermissionOption{ID: optionStop, Decision: row.DenyStop, Label: "Deny and stop"},
	)
}

const destinationSession = "session"

// suggestion is a permission update that the CLI offers.
type suggestion struct {
	Type        string     `json:"type"`
	Rules       []toolRule `json:"rules,omitempty"`
	Behavior    string     `json:"behavior,omitempty"`
	Mode        string     `json:"mode,omitempty"`
	Directories []string   `json:"directories,omitempty"`
	Destination string     `json:"destination"`
}

type toolRule struct {
	ToolName    string `json:"toolName"`
	RuleContent string `json:"ruleContent,omitempty"`
}

// label says in words what the suggestion allows, "" for one that is not
// offered: it is not understood, or turns asking off.
func (g *suggestion) label() string {
	const reach = " for the rest of this session"
	switch g.Type {
	case "addRules":
		if g.Behavior != "allow" || len(g.Rules) == 0 {
			return ""
		}
		parts := make([]string, len(g.Rules))
		for i, r := range g.Rules {
			parts[i] = r.words()
		}
		return "Allow " + strings.Join(parts, " and ") + reach
	case "addDirectories":
		if len(g.Directories) == 0 {
			return ""
		}
		return "Allow access to " + strings.Join(g.Directories, " and ") + reach
	case "setMode":
		if g.Mode == modeAcceptEdits {
			return "Accept all file edits in the project" + reach
		}
	}
	return ""
}

func (r toolRule) words() string {
	content := r.RuleContent
	switch {
	case content == "":
		return "every use of " + r.ToolName
	case r.ToolName == "Bash" && strings.ContainsAny(content, "*"):
		return "commands matching “" + content + "”"
	case r.ToolName == "Bash":
		return "the command “" + content + "”"
	case r.ToolName == "Read":
		return "reading " + strings.Replace(content, "//", "/", 1)
	case r.ToolName == "Edit" || r.ToolName == "Write":
		return "changing " + strings.Replace(content, "//", "/", 1)
	case strings.HasPrefix(content, "domain:"):
		return r.ToolName + " on " + strings.TrimPrefix(content, "domain:")
	}
	return r.ToolName + " with “" + content + "”"
}

// decision is the answer to a request as the CLI wants it.
type decision struct {
	Behavior           string          `json:"behavior"`
	UpdatedInput       json.RawMessage `json:"updatedInput,omitempty"`
	UpdatedPermissions []suggestion    `json:"updatedPermissions,omitempty"`
	Message            string          `json:"message,omitempty"`
	Interrupt          bool            `json:"interrupt,omitempty"`
}

// decide turns the user's answer into the CLI's words. It fails, without an
// effect, for an answer that the request does not have.
func (a *ask) decide(answer exec.Answer) (decision, error) {
	if a.questions != nil {
		return a.answerQuestions(answer)
	}
	// Older CLIs fail an answer that has no input.
	input := a.req.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	switch id := answer.OptionID; id {
	case optionDeny, optionPlan:
		return decision{Behavior: "deny", Message: first(answer.Message, refusal(id))}, nil
	case optionStop:
		return decision{Behavior: "deny", Message: first(answer.Message, refusal(id)), Interrupt: true}, nil
	default:
		p := a.row.Body.(*row.Permission)
		for _, o := range p.Options {
			if o.ID == id {
				return decision{Behavior: "allow", UpdatedInput: input, UpdatedPermissions: a.grants[id]}, nil
			}
		}
		return decision{}, exec.Errorf(exec.CodeInvalid, "the request has no option %q", id)
	}
}

// refusal is what the agent hears when the user gave no reason.
func refusal(option string) string {
	if option == optionPlan {
		return "The user does not approve the plan yet. Keep planning and ask what to change."
	}
	return "The user refused this."
}

func (a *ask) answerQuestions(answer exec.Answer) (decision, error) {
	if answer.Decline {
		return decision{Behavior: "deny", Message: first(answer.Message, "The user declined to answer.")}, nil
	}
	answers := map[string]string{}
	for _, q := range a.questions {
		if given := answer.Answers[q.ID]; len(given) > 0 {
			answers[q.Text] = strings.Join(given, ", ")
		}
	}
	if len(answers) == 0 {
		return decision{}, exec.Errorf(exec.CodeInvalid, "no question was answered").
			WithHint("Answer at least one question, or decline.")
	}
	var input map[string]json.RawMessage
	if err := json.Unmarshal(a.req.Input, &input); err != nil {
		return decision{}, exec.Errorf(exec.CodeAgentProtocol, "the question cannot be answered: %w", err)
	}
	encoded, err := json.Marshal(answers)
	if err != nil {
		return decision{}, exec.Errorf(exec.CodeInternal, "encode answers: %w", err)
	}
	input["answers"] = encoded
	updated, err := json.Marshal(input)
	if err != nil {
		return decision{}, exec.Errorf(exec.CodeInternal, "encode answers: %w", err)
	}
	return decision{Behavior: "allow", UpdatedInput: updated}, nil
}

// stripANSI takes escape sequences out of a text that is not terminal output.
func stripANSI(s string) string {
	if !strings.Contains(s, "\x1b") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		before, after, found := strings.Cut(s, "\x1b")
		b.WriteString(before)
		if !found {
			break
		}
		s = after
		if strings.HasPrefix(s, "[") {
			end := strings.IndexFunc(s[1:], func(r rune) bool { return r >= '@' && r <= '~' })
			if end < 0 {
				break
			}
			s = s[1+end+1:]
		}
	}
	return b.String()
}

// resolved reports whether the CLI waits for an answer no more.
func (a *ask) resolved() bool {
	select {
	case <-a.confirmed:
		return true
	case <-a.withdrawn:
		return true
	default:
		return false
	}
}

// errResolved has no effect but is no reason to offer the request again.
func errResolved() *exec.Error {
	return exec.Errorf(exec.CodeAlreadyResolved, "Claude Code no longer asks this").WithDispatched(exec.WasDispatched)
}

// respond returns the function that delivers the user's answer. It returns when
// the CLI has confirmed the answer.
func (p *process) respond(r *run, a *ask) func(context.Context, exec.Answer) error {
	return func(ctx context.Context, answer exec.Answer) error {
		if a.resolved() {
			return errResolved()
		}
		d, err := a.decide(answer)
		if err != nil {
			return err
		}
		// Noted first: the result of the refused call may come before send
		// returns.
		p.noteRefusal(a.req.ToolUseID, d.Behavior == "deny")
		if d.Interrupt {
			r.expectStop()
		}
		ctx, cancel := context.WithTimeout(ctx, p.conv.adapter.waits.answer)
		defer cancel()
		err = p.send(ctx, controlResponse{Type: "control_response", Response: responseBody{
			Subtype: "success", RequestID: a.id, Response: d,
		}})
		if err != nil {
			return err
		}
		select {
		case <-a.confirmed:
			return nil
		case <-a.withdrawn:
			return errResolved()
		case <-p.gone:
			return p.failure().WithDispatched(exec.MaybeDispatched)
		case <-ctx.Done():
			return exec.Errorf(exec.CodeOutcomeUnknown, "Claude Code did not confirm the answer").WithDispatched(exec.MaybeDispatched)
		}
	}
}
