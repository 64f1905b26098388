package claude_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// slow is a command that the program does not refuse to wait for.
const slow = "timeout 60 tail -f /dev/null; echo slept"

func TestStopWhileStreaming(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{{Thinking: "Hm."}, {Text: "a long answer that never ends", Chunks: 4, Hold: "forever", HoldAfter: 2}}},
			text("next"),
		))
		ch := w.chat()
		run := ch.start("talk")
		ch.rec.waitLive(row.KindAssistant, "a long answ")
		ch.abort(run)
		ch.abort(run) // a second one changes nothing
		ch.wantEnd(run, row.RunInterrupted)
		if got := brief(ch.rec.rows(run)); !strings.HasPrefix(got, "reasoning \"Hm.\"\nassistant \"a long answ") || !strings.HasSuffix(got, "partial\n") || strings.Count(got, "\n") != 2 {
			t.Error(got)
		}
		if err := ch.steer(run, "too late"); exec.CodeOf(err) != exec.CodeNotSteerable || exec.AsError(err).Dispatched != exec.NotDispatched {
			t.Errorf("steer after the end: %v", err)
		}
		next := ch.say("go on")
		if got := brief(ch.rec.rows(next)); got != "assistant \"next\" final\n" {
			t.Error(got)
		}
		if n := len(w.model.Calls(model.CallMain)); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestStopInToolInput(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{{Tool: &model.Tool{ID: "w1", Name: "Write", Input: object{"file_path": "x", "content": strings.Repeat("word ", 50)}}, Chunks: 4, Hold: "forever", HoldAfter: 2}}},
		))
		ch := w.chat()
		run := ch.start("write")
		ch.rec.waitLive(row.KindTool, "word word")
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
		rows := ch.rec.rows(run)
		if got := brief(rows); got != "tool w1 write Write \"Write\" cancelled\n" {
			t.Fatal(got)
		}
		if in := rows[0].Body.(*row.Tool).Input; !strings.Contains(string(in.Arguments), "word word") {
			t.Errorf("what had arrived is lost: %+v", in)
		}
	})
}

func TestStopInTool(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": slow}), text("next")))
		ch := w.chat()
		ch.launch.Mode = "default"
		run := ch.start("sleep")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		waitFor(t, "the command", func() bool { return len(children(t, "tail", w.home)) > 0 })
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
		if got := brief(ch.rec.rows(run)); !strings.Contains(got, "result b1 cancelled") {
			t.Error(got)
		}
		waitFor(t, "the end of the command", func() bool { return len(children(t, "tail", w.home)) == 0 })
		ch.say("go on")
	})
}

func TestStopInPermission(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": "touch x"}), text("next")))
		ch := w.chat()
		run := ch.start("ask")
		ask := ch.rec.waitAsk(run, 1)
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
		ch.rec.wait("withdrawal", func() bool {
			for _, e := range ch.rec.events {
				if e.gone == permission(t, ask).Occurrence {
					return true
				}
			}
			return false
		})
		if err := ask.respond(t.Context(), exec.Answer{OptionID: "allow"}); exec.CodeOf(err) != exec.CodeAlreadyResolved {
			t.Errorf("late answer: %v", err)
		}
		ch.say("go on")
	})
}

func TestStopBeforeTheFirstByte(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(model.Step{Wait: "forever", Blocks: []model.Block{{Text: "x"}}}, text("next")))
		ch := w.chat()
		run := ch.start("hang")
		waitRequest(t, w, 1)
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
		if got := brief(ch.rec.rows(run)); got != "" {
			t.Error(got)
		}
		ch.say("go on")
	})
}

func TestSteerIntoTool(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			call("b1", "Bash", object{"command": "while [ ! -e go ]; do timeout 0.1 tail -f /dev/null; done; echo done"}),
			text("I saw both."),
		))
		ch := w.chat()
		run := ch.start("wait for it")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		if err := ch.steer(run, "STEER one"); err != nil {
			t.Fatal(err)
		}
		if err := ch.steer(run, "STEER two"); err != nil {
			t.Fatal(err)
		}
		touch(t, w.project+"/go")
		ch.wantEnd(run, row.RunCompleted)
		if got := brief(ch.rec.rows(run)); !strings.HasSuffix(got, "result b1 completed \"done\" exit 0\nassistant \"I saw both.\" final\n") {
			t.Error(got)
		}
		requests := w.model.Calls(model.CallMain)
		if len(requests) != 2 || !strings.Contains(string(requests[1].Raw), "STEER one") || !strings.Contains(string(requests[1].Raw), "STEER two") {
			t.Errorf("%d requests; the steers are not in the second", len(requests))
		}
	})
}

func TestSteerIntoLastText(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{{Text: "first answer", Chunks: 3, Hold: "go", HoldAfter: 1}}},
			text("answer to the steer"),
		))
		ch := w.chat()
		run := ch.start("talk")
		ch.rec.waitLive(row.KindAssistant, "fir")
		if err := ch.steer(run, "and another thing"); err != nil {
			t.Fatal(err)
		}
		w.model.Open("go")
		// It cannot be injected any more, so it is a turn of its own in the run.
		end := ch.wantEnd(run, row.RunCompleted)
		if got := brief(ch.rec.rows(run)); got != "assistant \"first answer\"\nassistant \"answer to the steer\" final\n" {
			t.Error(got)
		}
		if end.Usage.OutputTokens != 14 {
			t.Errorf("usage of one turn only: %+v", end.Usage)
		}
	})
}

func TestSteerIntoPermission(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": "touch x"}), text("noted")))
		ch := w.chat()
		run := ch.start("ask")
		ask := ch.rec.waitAsk(run, 1)
		if err := ch.steer(run, "be quick"); err != nil {
			t.Fatal(err)
		}
		ask.answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)
		requests := w.model.Calls(model.CallMain)
		if len(requests) != 2 || !strings.Contains(string(requests[1].Raw), "be quick") {
			t.Errorf("%d requests; the steer is not in the second", len(requests))
		}
	})
}

func TestStopDropsSteers(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": slow}), text("unwanted"), text("unwanted")))
		ch := w.chat()
		run := ch.start("sleep")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		if err := ch.steer(run, "queued"); err != nil {
			t.Fatal(err)
		}
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
		if n := len(w.model.Calls(model.CallMain)); n != 1 {
			t.Errorf("%d requests: the steer was worked on after the stop", n)
		}
		if len(ch.rec.runs) != 0 {
			t.Error("the steer became a run of its own")
		}
	})
}

func TestLaunchGivenUp(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("hello")))
		ch := w.chat()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := ch.try(ctx, exec.Prompt{Text: "never mind"})
		if exec.CodeOf(err) != exec.CodeCancelled {
			t.Errorf("launch with an ended context: %v", err)
		}
		ch.say("hello")
	})
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
