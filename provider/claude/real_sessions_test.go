package claude_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// pid returns the one process of the program that runs in a world.
func (w *world) pid() int {
	w.t.Helper()
	pids := w.pids()
	if len(pids) != 1 {
		w.t.Fatalf("%d processes run, want one", len(pids))
	}
	return pids[0]
}

func (w *world) pids() []int {
	name := "claude"
	if !w.cli.lifecycle {
		name = "claude.exe"
	}
	return children(w.t, name, w.home)
}

// transcript returns the session file, "" when there is none.
func (w *world) transcript(id string) string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.config, "projects", "*", id+".jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(files) != 1 {
		return ""
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func TestResume(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("one"), text("two"), text("three")))
		first := w.chat()
		first.say("first message")
		id := first.rec.currentSession().ID
		first.close()
		if n := len(w.pids()); n != 0 {
			t.Errorf("%d processes after close", n)
		}

		second := w.chat()
		second.launch.NativeSession = id
		second.say("second message")
		if again := second.rec.currentSession().ID; again != id {
			t.Errorf("resumed %s as %s", id, again)
		}
		// Between runs the process may die; the next launch starts another. The
		// program writes its transcript a little later than it answers.
		waitFor(t, "transcript", func() bool { return strings.Contains(w.transcript(id), `"two"`) })
		kill(t, w.pid(), syscall.SIGKILL)
		second.say("third message")
		body := string(w.model.Calls(model.CallMain)[2].Raw)
		for _, part := range []string{"first message", "one", "second message", "two", "third message"} {
			if !strings.Contains(body, part) {
				t.Errorf("the third request lacks %q", part)
			}
		}
	})
}

func TestResumeUnknownSession(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("unused")))
		ch := w.chat()
		ch.launch.NativeSession = "6a1e3f6e-3f4b-4c57-9f4e-6a9d4f3c2b1a"
		_, err := ch.try(t.Context(), exec.Prompt{Text: "hello"})
		e := exec.AsError(err)
		if e == nil || e.Code != exec.CodeSessionMissing || e.Dispatched != exec.NotDispatched || e.Hint == "" {
			t.Errorf("resume of nothing: %+v", e)
		}
		ch.launch.NativeSession = "--dangerously-skip-permissions"
		if _, err := ch.try(t.Context(), exec.Prompt{Text: "hello"}); exec.CodeOf(err) != exec.CodeSessionMissing {
			t.Errorf("resume of an option: %v", err)
		}
	})
}

func TestKilledInTurn(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{{Text: "cut off", Chunks: 2, Hold: "forever", HoldAfter: 1}}},
			text("recovered"),
		))
		ch := w.chat()
		run := ch.start("talk")
		ch.rec.waitLive(row.KindAssistant, "cut")
		kill(t, w.pid(), syscall.SIGKILL)
		e := ch.wantFailure(run, exec.CodeAgentKilled)
		if e.Dispatched != exec.WasDispatched || e.Hint == "" {
			t.Errorf("%+v", e)
		}
		if got := brief(ch.rec.rows(run)); got != "assistant \"cut \" partial\n" {
			t.Error(got)
		}
		if got := brief(ch.rec.rows(ch.say("again"))); got != "assistant \"recovered\" final\n" {
			t.Error(got)
		}
	})
}

func TestKilledInToolLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": slow})))
		ch := w.chat()
		run := ch.start("sleep")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		// The command is in a session of its own.
		waitFor(t, "the command", func() bool { return len(children(t, "tail", w.home)) > 0 })
		kill(t, w.pid(), syscall.SIGTERM)
		ch.wantFailure(run, exec.CodeAgentKilled)
		if got := brief(ch.rec.rows(run)); !strings.Contains(got, "result b1 ") {
			t.Error(got)
		}
		waitFor(t, "the end of everything", func() bool { return len(children(t, "", w.home)) == 0 })
	})
}

func TestCloseInTool(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(call("b1", "Bash", object{"command": slow})))
		ch := w.chat()
		run := ch.start("sleep")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		waitFor(t, "the command", func() bool { return len(children(t, "tail", w.home)) > 0 })
		ch.close()
		if left := children(t, "", w.home); len(left) != 0 {
			t.Errorf("processes %v are left after close", left)
		}
		if _, err := ch.try(t.Context(), exec.Prompt{Text: "hello"}); exec.CodeOf(err) != exec.CodeStaleResource {
			t.Errorf("launch after close: %v", err)
		}
	})
}

func TestSettingsOfARunningProcess(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, model.Script{Default: &model.Step{Blocks: []model.Block{{Text: "ok"}}}})
		ch := w.chat()
		ch.launch.Model, ch.launch.Effort = "opus", "low"
		ch.say("one")
		pid := w.pid()
		ch.launch.Model, ch.launch.Effort, ch.launch.Mode = "sonnet", "max", "plan"
		ch.say("two")
		if w.pid() != pid {
			t.Error("the process was not kept")
		}
		calls := w.model.Calls(model.CallMain)
		effort := func(r *model.Request) any {
			o, _ := r.Body["output_config"].(map[string]any)
			return o["effort"]
		}
		if got := effort(calls[0]); got != "low" {
			t.Errorf("first effort %v", got)
		}
		if got := effort(calls[1]); got != "max" {
			t.Errorf("second effort %v", got)
		}
		if !strings.Contains(calls[0].Model, "opus") || !strings.Contains(calls[1].Model, "sonnet") {
			t.Errorf("models %s, %s", calls[0].Model, calls[1].Model)
		}
		if s := ch.rec.currentSession(); s.Mode != "plan" || !strings.Contains(s.Model, "sonnet") {
			t.Errorf("session %+v", s)
		}
		// Back to the defaults.
		ch.launch.Model, ch.launch.Effort, ch.launch.Mode = "default", "", "default"
		ch.say("three")
		calls = w.model.Calls(model.CallMain)
		if got := effort(calls[2]); got == "max" || got == "low" {
			t.Errorf("third effort %v", got)
		}
		if strings.Contains(calls[2].Model, "sonnet") {
			t.Errorf("third model %s", calls[2].Model)
		}
		if w.pid() != pid {
			t.Error("the process was not kept")
		}
		for i, r := range calls {
			// A change of the model leaves a note beside the message.
			if want := []string{"one", "two", "three"}[i]; !strings.HasSuffix(r.LastUser, want) {
				t.Errorf("request %d is about %q", i, r.LastUser)
			}
		}
	})
}

func TestLaunchRefusals(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("unused")))
		for name, l := range map[string]exec.Launch{
			"mode":     {Mode: "no-such"},
			"effort":   {Effort: "no-such"},
			"endpoint": {Endpoint: &exec.Endpoint{ID: "e"}},
			"prompt":   {Prompt: exec.Prompt{Text: "  "}},
			"project":  {ProjectPath: w.home + "/absent"},
		} {
			ch := w.chat()
			if l.ProjectPath == "" {
				l.ProjectPath = w.project
			}
			if l.Prompt.Text == "" {
				l.Prompt.Text = "hello"
			}
			_, err := ch.conv.Launch(t.Context(), l, ch.rec.newRun())
			e := exec.AsError(err)
			want := map[string]exec.Code{"endpoint": exec.CodeUnsupported, "project": exec.CodeProjectPath}[name]
			if want == "" {
				want = exec.CodeInvalid
			}
			if e == nil || e.Code != want || e.Dispatched != exec.NotDispatched {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if n := len(w.model.Requests()); n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestBypass(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		steps := []model.Step{call("b1", "Bash", object{"command": "touch free"}), text("done"), call("b2", "Bash", object{"command": "touch asked"}), text("done")}
		if os.Geteuid() == 0 {
			w := newWorld(t, c, script(steps...))
			ch := w.chat()
			ch.launch.Mode = "bypassPermissions"
			_, err := ch.try(t.Context(), exec.Prompt{Text: "go"})
			if e := exec.AsError(err); e == nil || e.Code != exec.CodeInvalid || !strings.Contains(e.Hint, "IS_SANDBOX") {
				t.Errorf("bypass as root: %+v", e)
			}
		}
		w := newWorld(t, c, script(steps...), "IS_SANDBOX=1")
		ch := w.chat()
		ch.launch.Mode = "bypassPermissions"
		ch.say("go")
		ch.launch.Mode = "default"
		run := ch.start("ask again")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)
	})
}

func TestModesAreOffered(t *testing.T) {
	w := newWorld(t, clis(t)[0], script(text("unused")))
	m := w.adapter.Manifest()
	var bypass []string
	for _, mode := range m.Modes {
		if mode.Bypass {
			bypass = append(bypass, mode.ID)
		}
		if mode.Label == "" || mode.Description == "" {
			t.Errorf("mode %s does not say what it does", mode.ID)
		}
	}
	if diff := cmp.Diff([]string{"bypassPermissions"}, bypass); diff != "" {
		t.Error(diff)
	}
}
