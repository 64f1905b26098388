package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestModes(t *testing.T) {
	for _, tc := range []struct {
		mode string
		asks int
	}{{"", 1}, {modeAsk, 1}, {modeAcceptEdits, 0}, {modeBypass, 0}} {
		bubble(t, func(t *testing.T, k *talk) {
			k.mode = tc.mode
			r := k.launch("write a/b.txt: hello")
			if got := r.asked(); got != tc.asks {
				t.Fatalf("mode %q asked %d times", tc.mode, got)
			}
			if tc.asks > 0 {
				if _, err := os.Stat(filepath.Join(k.project, "a")); err == nil {
					t.Error("the file was written before it was allowed")
				}
				r.answer(t, option(optionOnce))
			}
			<-r.over()
			wantOutline(t, r, "write =completed final")
			if got := k.file("a/b.txt"); got != "hello\n" {
				t.Errorf("mode %q: the file says %q", tc.mode, got)
			}
			if diff := r.rows[1].Body.(*row.ToolResult).Diff; !strings.Contains(diff, "+hello\n") {
				t.Errorf("diff %q", diff)
			}
		})
	}
}

func TestAcceptEditsAsksForCommands(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		k.mode = modeAcceptEdits
		for _, prompt := range []string{"run: touch x", "background: touch x"} {
			r := k.launch(prompt)
			if got := r.asked(); got != 1 {
				t.Fatalf("%q asked %d times", prompt, got)
			}
			r.answer(t, option(optionDeny))
			<-r.over()
			wantOutline(t, r, "bash =denied final")
		}
	})
}

func TestAllowedForTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		k.put("a", "one two\n")
		r := k.launch("edit a: one => 1\nedit a: two => 2")
		r.answer(t, option(optionSession))
		<-r.over()
		if r.asked() != 1 || k.file("a") != "1 2\n" {
			t.Errorf("asked %d times, the file says %q", r.asked(), k.file("a"))
		}
		// It holds as long as the session, and not for another.
		k.close()
		k.reopen()
		if r := k.turn("edit a: 1 => 3"); r.asked() != 0 {
			t.Error("the session forgot what was allowed")
		}
		k.session = ""
		r = k.launch("edit a: 3 => 4")
		if r.asked() != 1 {
			t.Error("another session got the permission")
		}
		r.answer(t, option(optionDeny))
		<-r.over()
		if k.file("a") != "3 2\n" {
			t.Errorf("the file says %q", k.file("a"))
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.launch("write a: x\nsay on")
		r.answer(t, exec.Answer{OptionID: optionDeny, Message: "not there"})
		<-r.over()
		wantOutline(t, r, "write =denied assistant final")
		if got := r.rows[1].Body.(*row.ToolResult).Output; !strings.Contains(got, "not there") {
			t.Errorf("the agent was told %q", got)
		}
		r = k.launch("write a: x\nsay never")
		r.answer(t, option(optionDenyStop))
		<-r.over()
		wantOutline(t, r, "write =denied")
		if r.terminal.Phase != row.RunInterrupted {
			t.Errorf("ended as %s", r.terminal.Phase)
		}
		r = k.launch("write a: x")
		r.asked()
		r.active.Abort(context.Background())
		<-r.over()
		wantOutline(t, r, "write =cancelled")
		if err := r.asks[0].respond(t.Context(), option(optionOnce)); exec.AsError(err).Dispatched != exec.NotDispatched {
			t.Errorf("an answer after the stop: %v", err)
		}
		if _, err := os.Stat(filepath.Join(k.project, "a")); err == nil {
			t.Error("the file was written")
		}
	})
}

func TestFilesStayInTheProject(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		k.mode = modeBypass
		outside := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, target := range map[string]string{"link": outside, "dir": filepath.Dir(outside), "dangling": outside + ".new"} {
			if err := os.Symlink(target, filepath.Join(k.project, name)); err != nil {
				t.Fatal(err)
			}
		}
		k.put("binary", "a\x00b")
		for _, prompt := range []string{
			"read " + outside, "read link", "read dir/secret", "read ../x", "read missing", "read binary", "read .",
			"write link: x", "write dir/new: x", "write ../new: x", "write dangling: x", "edit link: secret => open", "edit missing: a => b", "edit binary: a => b",
		} {
			r := k.turn(prompt)
			if got := r.outline(); !strings.HasSuffix(got, " =failed final") || strings.Contains(r.text(), "secret\n") {
				t.Errorf("%q: %s", prompt, got)
			}
		}
		if data, _ := os.ReadFile(outside); string(data) != "secret" {
			t.Errorf("the file outside says %q", data)
		}
		if entries, _ := os.ReadDir(filepath.Dir(outside)); len(entries) != 1 {
			t.Error("a file was made outside")
		}
	})
}

func TestPlanMode(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		asks   int
		mode   string
		rows   string
		file   bool
	}{
		"approved":       {optionOnce, 2, modeAsk, "assistant plan =completed write =completed assistant final", true},
		"accepting":      {optionSession, 1, modeAcceptEdits, "assistant plan =completed write =completed assistant final", true},
		"keeps planning": {optionDeny, 1, modePlan, "assistant plan =denied assistant final", false},
	} {
		bubble(t, func(t *testing.T, k *talk) {
			k.mode = modePlan
			r := k.launch("say first\nwrite a: x\nsay last")
			r.answer(t, option(tc.answer))
			if tc.asks == 2 {
				r.answer(t, option(optionOnce))
			}
			<-r.over()
			wantOutline(t, r, tc.rows)
			if r.asked() != tc.asks || r.session.Mode != tc.mode {
				t.Errorf("%s: asked %d times, mode %q", name, r.asked(), r.session.Mode)
			}
			if _, err := os.Stat(filepath.Join(k.project, "a")); (err == nil) != tc.file {
				t.Errorf("%s: %v", name, err)
			}
			if plan := r.rows[1].Body.(*row.Tool).Input.Plan; !strings.Contains(plan, "write a: x") || strings.Contains(plan, "say") {
				t.Errorf("%s: the plan is %q", name, plan)
			}
		})
	}
}

func TestQuestions(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.launch("ask me: Tea? green, black")
		q := r.asks[0].row.Body.(*row.Question)
		if item := q.Questions[0]; item.Text != "Tea?" || len(item.Options) != 2 || item.Options[1].Label != "black" || item.FreeText {
			t.Errorf("question %+v", q.Questions[0])
		}
		r.answer(t, exec.Answer{Answers: map[string][]string{q.Questions[0].ID: {"black"}}})
		<-r.over()
		wantOutline(t, r, "question =completed final")
		if got := r.text(); got != "You chose black." {
			t.Errorf("answered %q", got)
		}
		r = k.launch("ask me")
		r.answer(t, exec.Answer{Decline: true})
		<-r.over()
		wantOutline(t, r, "question =denied final")
	})
}

func TestSubagents(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.turn("delegate: look around")
		wantOutline(t, r, "task subagent:running (user) (reasoning) (list) (=completed) (assistant) (assistant) subagent:completed =completed final")
		child := r.rows[1].Body.(*row.Subagent).ChildID
		for _, one := range r.rows[2:8] {
			if one.Child != child {
				t.Errorf("a %s row of the child carries %q", one.Kind(), one.Child)
			}
		}
		for _, l := range r.lives {
			if l.Child != "" && l.Child != child {
				t.Errorf("a live part of child %q", l.Child)
			}
		}
	})
}

func TestBackgroundHelper(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.turn("delegate in background: look around")
		wantOutline(t, r, "task subagent:running =completed final")
		if n := len(k.jobs); n != 1 || len(k.jobs[0]) != 1 || k.jobs[0][0].Kind != "subagent" {
			t.Fatalf("jobs %+v", k.jobs)
		}
		// It ends while another turn is going on; its news waits for the end.
		busy := k.launch("sleep 10")
		<-time.After(5 * time.Second)
		synctest.Wait()
		if got := outlineOf(k.rows); got != "(user) (reasoning) (assistant) subagent:completed" {
			t.Errorf("the helper published %s", got)
		}
		if len(k.jobs) != 2 || len(k.jobs[1]) != 0 || len(k.own) != 0 {
			t.Errorf("jobs %+v, %d own turns", k.jobs, len(k.own))
		}
		<-busy.over()
		synctest.Wait()
		if len(k.own) != 1 {
			t.Fatal("the agent did not tell the news")
		}
		<-k.own[0].over()
		if got := k.own[0].text(); !strings.Contains(got, "look around") {
			t.Errorf("told %q", got)
		}
		// The session has it all.
		texts, ids, kinds := contents(t, k.a.store, k.session)
		if len(ids) != len(texts) || len(kinds) < 12 {
			t.Errorf("%d texts, %d ids, rows %q", len(texts), len(ids), kinds)
		}
	})
}

// TestNewsAtTheEnd has background work end while a turn publishes its terminal.
func TestNewsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		c := k.c.(*conversation)
		r := k.launch("hang")
		r.finishing = func() {
			c.tell(step{phrase: &phrase{do: func(t *turn, _ []string) error { return t.speak("news", 0) }}})
			if len(k.own) != 0 {
				t.Error("the news came before the terminal")
			}
		}
		r.active.Abort(context.Background())
		<-r.over()
		synctest.Wait()
		if len(k.own) != 1 || k.own[0].text() != "news" {
			t.Errorf("%d turns of the agent's own", len(k.own))
		}
	})
}

func TestBackgroundHelperIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		k.turn("delegate in background: look around")
		r := k.turn("stop jobs")
		if got := r.text(); got != "I stopped 1 background job." {
			t.Errorf("answered %q", got)
		}
		if got := outlineOf(k.rows); got != "subagent:cancelled" {
			t.Errorf("the helper published %s", got)
		}
		// And by the end of the conversation.
		k.turn("delegate in background: look around")
		k.close()
		if len(k.own) != 0 {
			t.Error("a closed conversation began a turn")
		}
		k.reopen()
	})
}

func TestOwnTurnIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		k.launch("delegate in background: look around", func(l *exec.Launch) { l.Settings = map[string]string{settingPace: paceNatural} })
		<-time.After(3*backgroundStep + naturalChunk/2)
		synctest.Wait()
		if len(k.own) != 1 || k.own[0].terminal != nil {
			t.Fatal("the agent is not in a turn of its own")
		}
		l := exec.Launch{RunID: "r", ProjectPath: k.project, NativeSession: k.session, Prompt: exec.Prompt{Text: "say x"}}
		_, err := k.c.Launch(t.Context(), l, &fakeRun{id: "r"})
		if exec.CodeOf(err) != exec.CodeSessionBusy || exec.AsError(err).Dispatched != exec.NotDispatched {
			t.Errorf("launched into it: %v", err)
		}
		k.own[0].active.Abort(context.Background())
		<-k.own[0].over()
		if k.own[0].terminal.Phase != row.RunInterrupted {
			t.Errorf("stopped, it ended as %s", k.own[0].terminal.Phase)
		}
		synctest.Wait()
		k.turn("say x")
	})
}
