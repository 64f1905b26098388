package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

func permission(t *testing.T, a *recordedAsk) *row.Permission {
	t.Helper()
	p, ok := a.row.Body.(*row.Permission)
	if !ok {
		t.Fatalf("request is %s", a.row.Kind())
	}
	return p
}

func TestPermissions(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			call("b1", "Bash", object{"command": "touch once", "description": "Make a file"}), text("one"),
			call("b2", "Bash", object{"command": "touch never"}), text("two"),
			call("b3", "Bash", object{"command": "touch many1"}), text("three"),
			call("b4", "Bash", object{"command": "touch many2"}), text("four"),
			call("b5", "Bash", object{"command": "rm -f never"}), text("five"), text("after"),
		))
		ch := w.chat()
		exists := func(name string) bool {
			_, err := os.Stat(filepath.Join(w.project, name))
			return err == nil
		}

		run := ch.start("once")
		ask := ch.rec.waitAsk(run, 1)
		p := permission(t, ask)
		if p.Tool != row.ToolBash || p.CallID != "b1" || p.Title != "Make a file" || p.Input.Command != "touch once" || p.Occurrence == "" {
			t.Errorf("permission %+v", p)
		}
		labels := map[string]string{}
		for _, o := range p.Options {
			labels[o.ID] = string(o.Decision) + ": " + o.Label
		}
		if diff := cmp.Diff(map[string]string{
			"allow":           "allow-once: Allow this once",
			"allow-session-1": "allow-session: Allow commands matching “touch once *” for the rest of this session",
			"allow-session-2": "allow-session: Allow access to " + w.project + " for the rest of this session",
			"allow-session-3": "allow-session: Accept all file edits in the project for the rest of this session",
			"deny":            "deny: Deny and let the agent go on",
			"deny-stop":       "deny-stop: Deny and stop",
		}, labels); diff != "" {
			t.Error(diff)
		}
		if err := ask.respond(t.Context(), exec.Answer{OptionID: "no-such"}); exec.CodeOf(err) != exec.CodeInvalid {
			t.Errorf("unknown option: %v", err)
		}
		ask.answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)
		if !exists("once") {
			t.Error("the allowed command did not run")
		}

		run = ch.start("never")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "deny", Message: "Not today"})
		ch.wantEnd(run, row.RunCompleted)
		if got := brief(ch.rec.rows(run)); !strings.Contains(got, `result b2 denied "Not today"`) || !strings.Contains(got, `assistant "two" final`) {
			t.Error(got)
		}
		if exists("never") {
			t.Error("the refused command ran")
		}

		run = ch.start("many")
		ask = ch.rec.waitAsk(run, 1)
		edits := ""
		for _, o := range permission(t, ask).Options {
			if strings.HasPrefix(o.Label, "Accept all file edits") {
				edits = o.ID
			}
		}
		ask.answer(t, exec.Answer{OptionID: edits})
		ch.wantEnd(run, row.RunCompleted)
		if mode := ch.rec.currentSession().Mode; mode != "acceptEdits" {
			t.Errorf("mode %q after accepting edits", mode)
		}
		ch.launch.Mode = "acceptEdits"
		// The grant reaches over the session: no request.
		ch.say("many more")
		if !exists("many1") || !exists("many2") {
			t.Error("an allowed command did not run")
		}

		ch.launch.Mode = "default"
		run = ch.start("stop")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "deny-stop"})
		ch.wantEnd(run, row.RunInterrupted)
		if got := brief(ch.rec.rows(run)); !strings.Contains(got, "result b5 cancelled") && !strings.Contains(got, "result b5 denied") {
			t.Error(got)
		}
		if err := ask.respond(t.Context(), exec.Answer{OptionID: "deny"}); err == nil {
			t.Error("a request was answered twice")
		}
		// The next run is an ordinary one: "five" was not asked for.
		run = ch.say("go on")
		if got := brief(ch.rec.rows(run)); got != "assistant \"five\" final\n" {
			t.Error(got)
		}
	})
}

func TestRefusingModes(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": "touch x"}), text("no luck")))
		ch := w.chat()
		ch.launch.Mode = "dontAsk"
		run := ch.say("try")
		if got := brief(ch.rec.rows(run)); !strings.Contains(got, "result b1 ") || strings.Contains(got, "completed") {
			t.Error(got)
		}
	})
}

func TestQuestions(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		ask := func(id string) model.Step {
			return call(id, "AskUserQuestion", object{"questions": []object{
				{"question": "Which color?", "header": "Color", "multiSelect": false, "options": []object{{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cool"}}},
				{"question": "Which extras?", "header": "Extras", "multiSelect": true, "options": []object{{"label": "A", "description": "a"}, {"label": "B", "description": "b"}}},
			}})
		}
		w := newWorld(t, c, script(ask("q1"), text("Got it."), ask("q2"), text("Fine.")))
		ch := w.chat()
		run := ch.start("ask me")
		req := ch.rec.waitAsk(run, 1)
		q, ok := req.row.Body.(*row.Question)
		if !ok {
			t.Fatalf("request is %s", req.row.Kind())
		}
		want := []row.QuestionItem{
			{ID: "q1", Header: "Color", Text: "Which color?", FreeText: true, Options: []row.QuestionOption{{Label: "Red", Description: "warm"}, {Label: "Blue", Description: "cool"}}},
			{ID: "q2", Header: "Extras", Text: "Which extras?", Multi: true, FreeText: true, Options: []row.QuestionOption{{Label: "A", Description: "a"}, {Label: "B", Description: "b"}}},
		}
		if diff := cmp.Diff(want, q.Questions); diff != "" {
			t.Error(diff)
		}
		req.answer(t, exec.Answer{Answers: map[string][]string{"q1": {"a shade of green"}, "q2": {"A", "B"}}})
		ch.wantEnd(run, row.RunCompleted)
		if got := w.model.Calls(model.CallMain)[1].LastToolResult(); !strings.Contains(got, `"Which color?"="a shade of green"`) || !strings.Contains(got, `"Which extras?"="A, B"`) {
			t.Errorf("the model heard %q", got)
		}

		run = ch.start("ask again")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{Decline: true, Message: "Decide yourself"})
		ch.wantEnd(run, row.RunCompleted)
		if got := w.model.Calls(model.CallMain)[3].LastToolResult(); !strings.Contains(got, "Decide yourself") {
			t.Errorf("the model heard %q", got)
		}
	})
}

func TestPlanApproval(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, model.Script{})
		plan := filepath.Join(w.config, "plans", "the-plan.md")
		steps := []model.Step{
			call("pl1", "ExitPlanMode", object{"plan": "# Plan\n1. do it"}), text("Then I plan on."),
			call("pl2", "ExitPlanMode", object{"plan": "# Plan\n1. do it well"}), text("Going."),
		}
		if c.lifecycle {
			// The newer program keeps the plan in a file and asks without it.
			steps[0] = model.Step{Blocks: []model.Block{{Tool: &model.Tool{ID: "wp", Name: "Write", Input: object{"file_path": plan, "content": "# Plan\n1. do it"}}}}}
			steps = append([]model.Step{steps[0], call("pl1", "ExitPlanMode", object{}), text("Then I plan on.")}, steps[2:]...)
		}
		if err := w.model.Push(steps...); err != nil {
			t.Fatal(err)
		}
		ch := w.chat()
		ch.launch.Mode = "plan"
		run := ch.start("plan it")
		var req *recordedAsk
		for n := 1; ; n++ {
			if req = ch.rec.waitAsk(run, n); permission(t, req).Tool == row.ToolPlan {
				break
			}
			req.answer(t, exec.Answer{OptionID: "allow"})
		}
		p := permission(t, req)
		if !strings.Contains(p.Input.Plan, "do it") {
			t.Errorf("plan %q", p.Input.Plan)
		}
		req.answer(t, exec.Answer{OptionID: "keep-planning", Message: "Think about tests"})
		ch.wantEnd(run, row.RunCompleted)

		run = ch.start("again")
		req = ch.rec.waitAsk(run, 1)
		req.answer(t, exec.Answer{OptionID: "approve-edits"})
		ch.wantEnd(run, row.RunCompleted)
		if mode := ch.rec.currentSession().Mode; mode != "acceptEdits" {
			t.Errorf("mode %q after the plan was approved", mode)
		}
		heard := ""
		for _, r := range w.model.Calls(model.CallMain) {
			heard += r.LastToolResult()
		}
		if !strings.Contains(heard, "Think about tests") {
			t.Error("the model did not hear why to keep planning")
		}
	})
}
