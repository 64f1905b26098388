package demo

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestSayTakesNoTime(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		begun := time.Now()
		r := k.turn("say " + strings.Repeat("word ", 1000))
		if took := time.Since(begun); took != 0 {
			t.Errorf("an answer at once took %v", took)
		}
		wantOutline(t, r, "final")
		if u := r.terminal.Usage; u == nil || u.OutputTokens != 5*1000/bytesPerToken-1 && u.OutputTokens != 5*1000/bytesPerToken || u.ContextWindow != contextWindow {
			t.Errorf("usage %+v", u)
		}
	})
}

func TestHelloIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		for _, prompt := range []string{"Say hello", "hello!", "please say Hi."} {
			if got := k.turn(prompt).text(); !strings.Contains(got, "Hello!") {
				t.Errorf("%q was answered %q", prompt, got)
			}
		}
		wantOutline(t, k.turn("what a day"), "reasoning final")
		if got := k.turn("what a day").text(); !strings.Contains(got, "> what a day") {
			t.Errorf("small talk: %q", got)
		}
		k.turn("")
	})
}

func TestThinkerThinks(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		k.model = modelThinker
		low := k.turn("say x")
		wantOutline(t, low, "reasoning final")
		high := k.turn("say x", func(l *exec.Launch) { l.Effort = effortHigh })
		if high.terminal.Usage.ReasoningTokens <= low.terminal.Usage.ReasoningTokens {
			t.Errorf("high effort thought %d tokens, low %d", high.terminal.Usage.ReasoningTokens, low.terminal.Usage.ReasoningTokens)
		}
	})
}

func TestOnlyTheLastTextIsFinal(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		wantOutline(t, k.turn("say a\nthink: b\nsay c\nsay d"), "assistant reasoning assistant final")
		wantOutline(t, k.turn("say a\nnotice b"), "assistant notice")
	})
}

func TestStopKeepsWhatHadArrived(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.launch("slowly say " + strings.Repeat("word ", 100))
		<-time.After(3*slowChunk + slowChunk/2)
		synctest.Wait()
		r.active.Abort(context.Background())
		<-r.over()
		if r.terminal.Phase != row.RunInterrupted || r.terminal.Error != nil {
			t.Errorf("terminal %+v", r.terminal)
		}
		wantOutline(t, r, "partial")
		streamed := ""
		for _, l := range r.lives {
			streamed += l.Text
		}
		if got := r.text(); got != streamed || len(r.lives) != 3 {
			t.Errorf("%d updates, the row is %q, streamed was %q", len(r.lives), got, streamed)
		}
		if r.lives[0].PartID != r.rows[0].PartID {
			t.Error("the row does not end its part")
		}
	})
}

func TestSleepAndSteer(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.launch("sleep 5")
		begun := time.Now()
		if err := r.active.Steer(t.Context(), exec.Steer{Prompt: exec.Prompt{Text: "say left\nsay right"}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("the text was taken after %v", took)
		}
		<-r.over()
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("the turn took %v", took)
		}
		if got := r.text(); got != "I slept for 5 seconds.\nleft\nright" {
			t.Errorf("answered %q", got)
		}
		err := r.active.Steer(t.Context(), exec.Steer{Prompt: exec.Prompt{Text: "say late"}})
		if exec.CodeOf(err) != exec.CodeNotSteerable || exec.AsError(err).Dispatched != exec.NotDispatched {
			t.Errorf("steered too late: %v", err)
		}
	})
}

// TestSteerOrEnd races steering with the end of the turn: text that was taken is
// answered, and text that was not is refused.
func TestSteerOrEnd(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		taken := 0
		for range 500 {
			r := k.launchRacing("say x")
			err := r.active.Steer(t.Context(), exec.Steer{Prompt: exec.Prompt{Text: "say steered"}})
			<-r.over()
			answered := strings.Contains(r.text(), "steered")
			if answered != (err == nil) {
				t.Fatalf("steer gave %v, answered %v", err, answered)
			}
			if err == nil {
				taken++
			} else if exec.CodeOf(err) != exec.CodeNotSteerable {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		t.Logf("%d of 500 were taken", taken)
	})
}

// TestNextTurnAtOnce launches as soon as the terminal can be seen.
func TestNextTurnAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		for range 500 {
			r := k.launchRacing("say x")
			<-r.over()
		}
	})
}

func TestTodo(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.turn("todo: one; two ;")
		wantOutline(t, r, "todo =completed todo =completed todo =completed final")
		last := r.rows[4].Body.(*row.Tool).Input.Todos
		if len(last) != 2 || last[0].Status != "completed" || last[1].Status != "completed" || last[1].Text != "two" {
			t.Errorf("the list ends as %+v", last)
		}
		first := r.rows[0].Body.(*row.Tool).Input.Todos
		if first[0].Status != "in-progress" || first[1].Status != "pending" {
			t.Errorf("the list begins as %+v", first)
		}
	})
}

func TestToolsAreCanonical(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.turn("show tools")
		seen := map[row.ToolName]bool{}
		for _, one := range r.rows {
			if tool, ok := one.Body.(*row.Tool); ok {
				seen[tool.Tool] = true
			}
			if _, err := one.Encode(); err != nil {
				t.Error(err)
			}
		}
		const canonical = 16
		if len(seen) != canonical {
			t.Errorf("%d tools are shown, there are %d", len(seen), canonical)
		}
	})
}

func TestPictures(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		r := k.turn("draw")
		wantOutline(t, r, "other =completed final")
		if img := r.rows[1].Body.(*row.ToolResult).Images; len(img) != 1 || img[0].MediaType != "image/png" || img[0].Size == 0 {
			t.Errorf("pictures %+v", img)
		}
		var buf bytes.Buffer
		if err := png.Encode(&buf, image.NewGray(image.Rect(0, 0, 7, 5))); err != nil {
			t.Fatal(err)
		}
		r = k.turn("say seen", func(l *exec.Launch) {
			l.Prompt.Attachments = []exec.AttachmentData{
				{Attachment: row.Attachment{Name: "good`.png", MediaType: "image/png"}, Data: buf.Bytes()},
				{Attachment: row.Attachment{Name: "bad.png", MediaType: "image/png"}, Data: []byte("x")},
			}
		})
		if got := r.text(); !strings.Contains(got, "2 pictures") || !strings.Contains(got, "7 × 5 pixels") || !strings.Contains(got, "`bad.png`, image/png, 1 bytes\n") {
			t.Errorf("answered %q", got)
		}
	})
}

func TestFailures(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		for prompt, want := range map[string]exec.Code{"fail": exec.CodeModelError, "fail with RATE_LIMITED": exec.CodeRateLimited, "Fail with rate_limited.": exec.CodeRateLimited} {
			r := k.launch("say a\n" + prompt + "\nsay never")
			<-r.over()
			if r.terminal.Phase != row.RunFailed || r.terminal.Error.Code != want || strings.Contains(r.text(), "never") {
				t.Errorf("%q ended as %+v after %q", prompt, r.terminal, r.text())
			}
			if retry := r.terminal.Error.RetryAfterMs; (retry > 0) != (want == exec.CodeRateLimited) {
				t.Errorf("%s asks to wait %d ms", want, retry)
			}
		}
	})
}

func TestLimitsOfPrompts(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		for prompt, want := range map[string]string{
			"burst 99999999999999999999": "at most", "burst 1000001": "at most", "long 8193": "at most", "long 0": "at least", "sleep 3601": "at most",
		} {
			if got := k.turn(prompt).text(); !strings.Contains(got, want) {
				t.Errorf("%q: %q", prompt, got)
			}
		}
		if got := k.turn("long 3").text(); len(got) != 3<<10 {
			t.Errorf("long 3 has %d bytes", len(got))
		}
		wantOutline(t, k.turn("burst 3"), "assistant assistant assistant final")
	})
}

func TestCompactShrinksTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		before := k.turn("long 40").terminal.Usage.ContextTokens
		r := &fakeRun{id: "compact"}
		l := exec.Launch{ProjectPath: k.project, NativeSession: k.session, Prompt: exec.Prompt{Text: "the blue one"}}
		if _, err := k.c.Compact(t.Context(), l, r); err != nil {
			t.Fatal(err)
		}
		<-r.over()
		wantOutline(t, r, "compaction")
		c := r.rows[0].Body.(*row.Compaction)
		if c.TokensBefore != before || c.TokensAfter >= before || c.Trigger != "manual" || !strings.Contains(c.Summary, "the blue one") {
			t.Errorf("compaction %+v, the context was %d", c, before)
		}
		if after := k.turn("say x").terminal.Usage.ContextTokens; after > c.TokensAfter+10 {
			t.Errorf("after the compaction the context has %d tokens", after)
		}
	})
}

func TestLaunchIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		file := filepath.Join(k.project, "file")
		k.put("file", "x")
		for name, tc := range map[string]struct {
			change func(*exec.Launch)
			want   exec.Code
		}{
			"model":             {func(l *exec.Launch) { l.Model = "gpt" }, exec.CodeUnknownModel},
			"missing project":   {func(l *exec.Launch) { l.ProjectPath += "/none" }, exec.CodeProjectPath},
			"project is a file": {func(l *exec.Launch) { l.ProjectPath = file }, exec.CodeProjectPath},
			"session":           {func(l *exec.Launch) { l.NativeSession = "6ba7b810-9dad-41d1-80b4-00c04fd430c8" }, exec.CodeSessionMissing},
		} {
			l := exec.Launch{RunID: "r", ProjectPath: k.project, Prompt: exec.Prompt{Text: "say x"}}
			tc.change(&l)
			r := &fakeRun{id: "r"}
			active, err := k.c.Launch(t.Context(), l, r)
			if exec.CodeOf(err) != tc.want || active != nil || r.terminal != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		entries, err := os.ReadDir(k.a.store.dir)
		if err != nil || len(entries) != 0 {
			t.Errorf("refused launches left %d sessions, %v", len(entries), err)
		}
		k.turn("say still here")
	})
}

func TestTourShowsIt(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		// Without the command, for which a process would be needed.
		steps := strings.Split(tourPrompt, "\n")
		steps = slices.DeleteFunc(steps, func(s string) bool { return strings.HasPrefix(s, "run:") })
		r := k.launch(strings.Join(steps, "\n"))
		r.answer(t, option(optionOnce))
		r.answer(t, option(optionOnce))
		r.answer(t, exec.Answer{Answers: map[string][]string{"colour": {"Green"}}})
		<-r.over()
		wantOutline(t, r, "reasoning assistant list =completed assistant "+strings.Repeat("todo =completed ", 5)+"assistant "+
			"write =completed assistant edit =completed assistant question =completed assistant final")
		if got := k.file("garcon-demo.txt"); got != "This file was written and then edited by the demo agent.\n" {
			t.Errorf("the file says %q", got)
		}
	})
}
