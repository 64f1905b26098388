package claude_test

import (
	"strings"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

const summary = "<analysis>thinking</analysis>\n<summary>\n1. The user said hi.\n</summary>"

func compactionStep() model.Step {
	return model.Step{Match: &model.Match{Call: model.CallCompaction}, Blocks: []model.Block{{Text: summary}}}
}

// compact launches a compaction.
func (c *chat) compact(instructions string) *recordedRun {
	c.t.Helper()
	l := c.launch
	l.Prompt.Text = instructions
	l.NativeSession = c.rec.currentSession().ID
	run := c.rec.newRun()
	l.RunID, l.TurnID = run.id, run.TurnID()
	active, err := c.conv.Compact(c.t.Context(), l, run)
	if err != nil {
		c.t.Fatalf("compact: %v", err)
	}
	run.active = active
	return run
}

func TestCompaction(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("first answer"), text("second answer"), compactionStep(), text("third answer")))
		ch := w.chat()
		ch.say("one")
		ch.say("two")
		session := ch.rec.currentSession().ID
		run := ch.compact("keep the important bits")
		end := ch.wantEnd(run, row.RunCompleted)
		rows := ch.rec.rows(run)
		if got := brief(rows); got != "compaction manual \"1. The user said hi.\"\n" {
			t.Fatal(got)
		}
		if b := rows[0].Body.(*row.Compaction); b.TokensBefore <= 0 || rows[0].NativeID == "" {
			t.Errorf("%+v", rows[0])
		}
		if end.Usage != nil && end.Usage.OutputTokens != 0 {
			t.Errorf("usage %+v", end.Usage)
		}
		compactions := w.model.Calls(model.CallCompaction)
		if len(compactions) != 1 || !strings.Contains(string(compactions[0].Raw), "keep the important bits") {
			t.Errorf("%d compactions, instructions lost", len(compactions))
		}
		ch.say("three")
		calls := w.model.Calls(model.CallMain)
		if last := string(calls[len(calls)-1].Raw); !strings.Contains(last, "The user said hi.") || strings.Contains(last, "first answer") {
			t.Error("the conversation was not compacted")
		}
		if again := ch.rec.currentSession().ID; again != session {
			t.Errorf("session changed from %s to %s", session, again)
		}
	})
}

func TestCompactionByTheAgent(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		words := strings.Repeat("word ", 300)
		w := newWorld(t, c, script(
			text("a1 "+words), text("a2 "+words), text("a3"),
			model.Step{Reply: &model.Reply{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 210000 tokens > 200000 maximum"}},
			compactionStep(), text("after compaction"),
		))
		ch := w.chat()
		for _, q := range []string{"q1", "q2", "q3"} {
			ch.say(q)
		}
		run := ch.say("q4")
		if got := brief(ch.rec.rows(run)); got != "compaction auto \"1. The user said hi.\"\nassistant \"after compaction\" final\n" {
			t.Error(got)
		}
	})
}

func TestFailedCompaction(t *testing.T) {
	compaction := &model.Match{Call: model.CallCompaction}
	for name, tc := range map[string]struct {
		steps []model.Step // beside the two answers
		says  int
		// old says that only the older CLI fails.
		old   bool
		phase row.Phase
		code  exec.Code
		text  string
	}{
		"empty": {phase: row.RunFailed, code: exec.CodeInvalid, text: "No messages to compact"},
		"short": {says: 1, old: true, phase: row.RunFailed, code: exec.CodeInvalid, text: "Not enough messages to compact"},
		"limit": {
			steps: []model.Step{{Match: compaction, Times: -1, Reply: &model.Reply{Status: 429, Type: "rate_limit_error", Message: "slow down"}}},
			says:  2, phase: row.RunFailed, code: exec.CodeRateLimited, text: "slow down",
		},
		"too long": {
			steps: []model.Step{{Match: compaction, Times: -1, Reply: &model.Reply{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 210000 tokens > 200000 maximum"}}},
			says:  2, phase: row.RunFailed, code: exec.CodeContextOverflow, text: "context limit",
		},
		"stopped": {
			steps: []model.Step{{Match: compaction, Blocks: []model.Block{{Text: summary, Hold: "never"}}}},
			says:  2, phase: row.RunInterrupted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, c cli) {
				if tc.old && c.lifecycle {
					t.Skip("it compacts even that")
				}
				w := newWorld(t, c, script(append(tc.steps, text("one"), text("two"), text("three"))...))
				ch := w.chat()
				for range tc.says {
					ch.say("hello")
				}
				run := ch.compact("")
				if tc.phase == row.RunInterrupted {
					if _, err := w.model.WaitCall(t.Context(), model.CallCompaction, 1); err != nil {
						t.Fatal(err)
					}
					if err := run.active.Abort(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				end := ch.wantEnd(run, tc.phase)
				if tc.code != "" && (end.Error.Code != tc.code || !strings.Contains(end.Error.Message, tc.text)) {
					t.Errorf("%+v", end.Error)
				}
				for _, r := range ch.rec.rows(run) {
					if n, ok := r.Body.(*row.Notice); !ok || n.Code != "API_RETRY" {
						t.Errorf("%s row: %+v", r.Kind(), r.Body)
					}
				}
				// The conversation goes on.
				if got := brief(ch.rec.rows(ch.say("more"))); !strings.HasSuffix(got, "final\n") {
					t.Error(got)
				}
			})
		})
	}
}

func TestSlashCommands(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("before"), text("after")))
		ch := w.chat()
		ch.say("hello")
		session := ch.rec.currentSession().ID

		run := ch.say("/context")
		got := brief(ch.rec.rows(run))
		if !strings.Contains(got, "Context Usage") || !strings.HasSuffix(got, "final\n") || strings.Contains(got, "<command") {
			t.Error(got)
		}
		if end := ch.rec.waitEnd(run); end.Usage != nil {
			t.Errorf("a command that asks no model has usage %+v", end.Usage)
		}

		ch.say("/clear")
		cleared := ch.rec.currentSession().ID
		if cleared == session {
			t.Error("the session is the same after /clear")
		}
		ch.say("who am I?")
		if again := ch.rec.currentSession().ID; again != cleared {
			t.Errorf("session changed again, from %s to %s", cleared, again)
		}
		calls := w.model.Calls(model.CallMain)
		if last := string(calls[len(calls)-1].Raw); strings.Contains(last, "hello") {
			t.Error("the cleared conversation was sent")
		}
		if n := len(w.pids()); n != 1 {
			t.Errorf("%d processes", n)
		}
		// The session before is still there to be resumed.
		other := w.chat()
		other.launch.NativeSession = session
		if _, err := other.try(t.Context(), exec.Prompt{Text: "/context"}); err != nil {
			t.Error(err)
		}
	})
}
