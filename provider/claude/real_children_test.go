package claude_test

import (
	"strings"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// delegate calls the tool that starts a subagent.
func delegate(background bool) model.Step {
	return call("ag1", "Agent", object{
		"description": "Sub job", "prompt": "SUBJOB do it", "subagent_type": "general-purpose", "run_in_background": background,
	})
}

// delegating scripts a main conversation that begins with a subagent. The
// subagent waits at the gate.
func delegating(background bool, gate string, main ...model.Step) model.Script {
	yes, no := true, false
	s := script(append([]model.Step{delegate(background)}, main...)...)
	s.Steps = append(s.Steps,
		model.Step{Match: &model.Match{Call: model.CallSubagent, HasToolResult: &no}, Blocks: []model.Block{
			{Thinking: "sub thinks", Wait: gate},
			{Text: "sub works"},
			{Tool: &model.Tool{ID: "sub1", Name: "Bash", Input: object{"command": "touch subfile", "description": "Make it"}}},
		}},
		model.Step{Match: &model.Match{Call: model.CallSubagent, HasToolResult: &yes}, Blocks: []model.Block{{Text: "SUB REPORT"}}},
	)
	return s
}

const childRows = `  [child] reasoning "sub thinks"
  [child] assistant "sub works"
  [child] tool sub1 bash Bash "Make it" running
  [child] result sub1 completed ""
  [child] assistant "SUB REPORT"
`

func TestSubagent(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, delegating(false, "", text("All done.")))
		ch := w.chat()
		run := ch.start("MAINJOB delegate")
		ask := ch.rec.waitAsk(run, 1)
		if p := permission(t, ask); p.CallID != "sub1" {
			t.Errorf("%+v", p)
		}
		ask.answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)

		var main, child []row.Row
		ids := map[string]bool{}
		for _, r := range ch.rec.rows(run) {
			if r.Child != "" {
				child = append(child, r)
				ids[r.Child] = true
			} else {
				main = append(main, r)
			}
		}
		wantMain := `tool ag1 task Agent "Sub job" running
subagent ag1 foreground general-purpose "Sub job" running ""
result ag1 completed "SUB REPORT"
subagent ag1 foreground general-purpose "Sub job" completed "SUB REPORT"
assistant "All done." final
`
		if got := brief(main); got != wantMain {
			t.Errorf("main:\n%s", got)
		}
		if got := withoutExit(brief(child)); got != "  [child] user \"SUBJOB do it\" by agent\n"+childRows {
			t.Errorf("child:\n%s", got)
		}
		for _, r := range main {
			if s, ok := r.Body.(*row.Subagent); ok && (!ids[s.ChildID] || len(ids) != 1) {
				t.Errorf("child %s, rows of %v", s.ChildID, ids)
			}
		}
		if len(ch.rec.currentJobs()) != 0 {
			t.Errorf("jobs %v", ch.rec.currentJobs())
		}
	})
}

// withoutExit takes exit codes out: results of subagents lack them.
func withoutExit(s string) string { return strings.ReplaceAll(s, " exit 0", "") }

func TestBackgroundSubagent(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, delegating(true, "sub", text("Started."), text("It has reported."), text("Later.")))
		ch := w.chat()
		run := ch.start("MAINJOB delegate")
		// The run ends while the subagent works.
		ch.wantEnd(run, row.RunCompleted)
		if jobs := ch.rec.currentJobs(); len(jobs) != 1 || jobs[0].Kind != "subagent" || jobs[0].Title != "Sub job" {
			t.Errorf("jobs %+v", jobs)
		}
		w.model.Open("sub")
		// Its request for permission is one of a run of the agent's own.
		asking := ch.rec.waitOwn(1)
		ch.rec.waitAsk(asking, 1).answer(t, exec.Answer{OptionID: "allow"})
		ch.rec.waitRow("report", func(r row.Row) bool {
			s, ok := r.Body.(*row.Subagent)
			return ok && s.Status == row.ToolCompleted && s.Summary == "SUB REPORT"
		})
		ch.rec.waitRow("answer", func(r row.Row) bool {
			a, ok := r.Body.(*row.Assistant)
			return ok && a.Text == "It has reported." && a.Final
		})
		ch.rec.wait("end of the agent's own runs", func() bool {
			for _, r := range ch.rec.runs {
				if !r.ended {
					return false
				}
			}
			return len(ch.rec.jobs) == 0
		})
		var child []row.Row
		for _, r := range ch.rec.rows(nil) {
			if r.Child != "" {
				child = append(child, r)
			}
		}
		if got := withoutExit(brief(child)); got != childRows {
			t.Errorf("child:\n%s", got)
		}
		next := ch.start("MAINJOB and now?")
		ch.wantEnd(next, row.RunCompleted)
	})
}

func TestBackgroundCommand(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			call("bg1", "Bash", object{"command": "while [ ! -e go ]; do timeout 0.1 tail -f /dev/null; done; echo done", "description": "Long job", "run_in_background": true}),
			text("Started."), text("In between."), text("It is done."),
		))
		ch := w.chat()
		run := ch.start("begin")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)
		if got := brief(ch.rec.rows(run)); !strings.HasSuffix(got, "assistant \"Started.\" final\n") {
			t.Error(got)
		}
		if jobs := ch.rec.currentJobs(); len(jobs) != 1 || jobs[0].Kind != "command" || jobs[0].Title != "Long job" {
			t.Errorf("jobs %+v", jobs)
		}
		// The conversation goes on meanwhile.
		ch.say("and?")
		touch(t, w.project+"/go")
		own := ch.rec.waitOwn(1)
		ch.wantEnd(own, row.RunCompleted)
		if got := brief(ch.rec.rows(own)); got != "assistant \"It is done.\" final\n" {
			t.Error(got)
		}
		if !strings.Contains(own.reason, "Long job") {
			t.Errorf("reason %q", own.reason)
		}
		ch.rec.wait("end of the job", func() bool { return len(ch.rec.jobs) == 0 })
	})
}

func TestBackgroundEndsWithTheConversation(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			call("bg1", "Bash", object{"command": slow, "description": "Long job", "run_in_background": true}), text("Started."),
		))
		ch := w.chat()
		run := ch.start("begin")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)
		ch.close()
		if left := children(t, "", w.home); len(left) != 0 {
			t.Errorf("processes %v are left", left)
		}
		if jobs := ch.rec.currentJobs(); len(jobs) != 0 {
			t.Errorf("jobs %v are left", jobs)
		}
	})
}
