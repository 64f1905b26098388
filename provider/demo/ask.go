package demo

import (
	"context"
	"fmt"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// The ids of the answers to a permission request.
const (
	optionOnce     = "allow-once"
	optionSession  = "allow-session"
	optionDeny     = "deny"
	optionDenyStop = "deny-stop"
)

// ask offers a request to the user and waits for the answer.
func (t *turn) ask(body row.Body) (exec.Answer, error) {
	if err := t.flush(false); err != nil {
		return exec.Answer{}, err
	}
	// One place: the runtime delivers one answer, and the delivery must not
	// wait for the turn.
	answers := make(chan exec.Answer, 1)
	t.run.Ask(row.Row{Head: row.Head{Child: t.child}, Body: body}, func(_ context.Context, a exec.Answer) error {
		if t.ctx.Err() != nil {
			return exec.Errorf(exec.CodeAlreadyResolved, "the turn was stopped")
		}
		answers <- a
		return nil
	})
	return pause(t, answers)
}

// toolCall is a call that was published and waits for its result.
type toolCall struct {
	id string
	row.Tool
	// edits tells changes of files from commands, and rule names exactly what
	// a permission for the session covers.
	edits bool
	rule  string
	// label says in words how far that permission reaches.
	label string
}

// approve asks for a call unless the mode or an earlier answer allows it. A
// refused call gets its result here.
func (t *turn) approve(call toolCall) (bool, error) {
	if t.mode == modeBypass || t.mode == modeAcceptEdits && call.edits || t.session.allows(call.rule) {
		return true, nil
	}
	a, err := t.ask(&row.Permission{
		Occurrence: t.id("permission"), CallID: call.id, Tool: call.Tool.Tool, Name: call.Name, Title: call.Title, Input: call.Input,
		Reason: "The demo agent asks before it changes anything in this mode.",
		Options: []row.PermissionOption{
			{ID: optionOnce, Decision: row.AllowOnce, Label: "Allow once"},
			{ID: optionSession, Decision: row.AllowSession, Label: call.label},
			{ID: optionDeny, Decision: row.Deny, Label: "Deny"},
			{ID: optionDenyStop, Decision: row.DenyStop, Label: "Deny and stop"},
		},
	})
	if err != nil {
		return false, t.cancelled(call, err)
	}
	switch a.OptionID {
	case optionOnce:
		return true, nil
	case optionSession:
		return true, t.session.append(entry{Allow: call.rule})
	}
	refusal := "You refused this."
	if a.Message != "" {
		refusal += " You said: " + a.Message
	}
	if err := t.result(call, row.ToolResult{Output: refusal, IsError: true, Status: row.ToolDenied}); err != nil {
		return false, err
	}
	if a.OptionID == optionDenyStop {
		return false, errStopped
	}
	return false, t.speak("I will not do that, then.", t.pace())
}

// cancelled gives a call that was stopped its result.
func (t *turn) cancelled(call toolCall, err error) error {
	if storeErr := t.result(call, row.ToolResult{Output: "Stopped.", IsError: true, Status: row.ToolCancelled}); storeErr != nil {
		return storeErr
	}
	return err
}

// call publishes a tool call, its input streamed before.
func (t *turn) call(call toolCall) (toolCall, error) {
	if err := t.flush(false); err != nil {
		return call, err
	}
	call.id = t.id("call")
	call.CallID, call.Status = call.id, row.ToolRunning
	part := t.id("input")
	t.run.Live(row.Live{PartID: part, Child: t.child, Kind: row.KindTool, Title: call.Title, Text: call.Input.Command + call.Input.Path})
	tool := call.Tool
	return call, t.store(row.Row{Head: row.Head{PartID: part}, Body: &tool})
}

// result publishes what a call gave.
func (t *turn) result(call toolCall, r row.ToolResult) error {
	return t.resultPart(call, "", r)
}

func (t *turn) resultPart(call toolCall, part string, r row.ToolResult) error {
	r.CallID = call.id
	if r.Status == "" {
		r.Status = row.ToolCompleted
	}
	return t.emit(row.Row{Head: row.Head{PartID: part}, Body: &r})
}

// proposePlan asks for approval of what the turn is about to change.
func (t *turn) proposePlan(first step) error {
	if t.planRefused {
		return nil
	}
	var b strings.Builder
	b.WriteString("I would do this:\n\n")
	for _, s := range append([]step{first}, t.steps...) {
		if s.mutates {
			fmt.Fprintf(&b, "* `%s`\n", strings.ReplaceAll(s.line, "`", "'"))
		}
	}
	return t.askPlan(b.String())
}

// askPlan offers a plan. Approval ends plan mode.
func (t *turn) askPlan(plan string) error {
	call, err := t.call(toolCall{Tool: row.Tool{Tool: row.ToolPlan, Name: "plan", Title: "Plan", Input: row.ToolInput{Plan: plan}}})
	if err != nil {
		return err
	}
	a, err := t.ask(&row.Permission{
		Occurrence: t.id("permission"), CallID: call.id, Tool: row.ToolPlan, Name: "plan", Title: "Approve the plan?", Input: call.Input,
		Options: []row.PermissionOption{
			{ID: optionOnce, Decision: row.AllowOnce, Label: "Approve, and ask before each change"},
			{ID: optionSession, Decision: row.AllowSession, Label: "Approve, and accept edits in this turn"},
			{ID: optionDeny, Decision: row.Deny, Label: "Keep planning"},
		},
	})
	if err != nil {
		return t.cancelled(call, err)
	}
	if a.OptionID == optionDeny {
		t.planRefused = true
		refusal := "The plan was not approved."
		if a.Message != "" {
			refusal += " You said: " + a.Message
		}
		if err := t.result(call, row.ToolResult{Output: refusal, IsError: true, Status: row.ToolDenied}); err != nil {
			return err
		}
		return t.speak("I keep planning; nothing was changed.", t.pace())
	}
	if err := t.result(call, row.ToolResult{Output: "The plan was approved."}); err != nil {
		return err
	}
	if t.mode == modePlan {
		t.mode = modeAsk
		if a.OptionID == optionSession {
			t.mode = modeAcceptEdits
		}
		t.run.Session(exec.Session{Mode: t.mode})
	}
	return nil
}

func (t *turn) plan(args []string) error {
	if err := t.askPlan(args[0]); err != nil || t.planRefused {
		return err
	}
	return t.speak("The plan is approved, so I could start.", t.pace())
}

// question asks the user something.
func (t *turn) question(args []string) error {
	item := row.QuestionItem{ID: "colour", Header: "Colour", Text: "Which colour do you like best?", FreeText: true, Options: []row.QuestionOption{
		{Label: "Blue", Description: "like the sky"}, {Label: "Green", Description: "like a meadow"}, {Label: "Red"},
	}}
	if args[0] != "" {
		item = row.QuestionItem{ID: "question", Header: "Question", Text: args[0]}
		for option := range strings.SplitSeq(args[1], ",") {
			if option = strings.TrimSpace(option); option != "" {
				item.Options = append(item.Options, row.QuestionOption{Label: option})
			}
		}
		item.FreeText = len(item.Options) == 0
	}
	call, err := t.call(toolCall{Tool: row.Tool{Tool: row.ToolQuestion, Name: "ask", Title: item.Text, Input: row.ToolInput{Questions: []row.QuestionItem{item}}}})
	if err != nil {
		return err
	}
	a, err := t.ask(&row.Question{Occurrence: t.id("question"), CallID: call.id, Questions: []row.QuestionItem{item}})
	if err != nil {
		return t.cancelled(call, err)
	}
	if a.Decline {
		if err := t.result(call, row.ToolResult{Output: "Not answered.", Status: row.ToolDenied}); err != nil {
			return err
		}
		return t.speak("You would rather not say. That is fine.", t.pace())
	}
	given := strings.Join(a.Answers[item.ID], ", ")
	if err := t.result(call, row.ToolResult{Output: given}); err != nil {
		return err
	}
	return t.speak("You chose "+given+".", t.pace())
}
