package claude_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// readHistory reads a whole native session.
func (w *world) readHistory(native string) []row.Row {
	w.t.Helper()
	r, err := w.adapter.Facets().History.Open(w.t.Context(), w.project, native)
	if err != nil {
		w.t.Fatalf("open %s: %v", native, err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
	}()
	var rows []row.Row
	for {
		batch, err := r.Next(w.t.Context())
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			w.t.Fatal(err)
		}
		for _, b := range batch {
			if !b.Imported {
				w.t.Errorf("row %s is not marked as imported", b.Kind())
			}
			rows = append(rows, b.Clean())
		}
	}
}

// byNative indexes rows by what live and imported ones have in common.
func byNative(rows []row.Row) map[string]string {
	out := map[string]string{}
	for _, r := range rows {
		if r.NativeID != "" {
			out[r.NativeID] = brief([]row.Row{r})
		}
	}
	return out
}

func TestHistoryIsWhatWasSeen(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{
				{Thinking: "Hm."},
				{Text: "Two at once."},
				{Tool: &model.Tool{ID: "p1", Name: "Bash", Input: object{"command": "echo a"}}},
				{Tool: &model.Tool{ID: "p2", Name: "Read", Input: object{"file_path": "/etc/hostname"}}},
				{Tool: &model.Tool{ID: "p3", Name: "Bash", Input: object{"command": "echo c; exit 4"}}},
			}},
			text("Read."),
			call("b1", "Bash", object{"command": "while [ ! -e go ]; do timeout 0.1 tail -f /dev/null; done; touch x"}),
			text("Steered."),
			call("b2", "Bash", object{"command": "rm -f x"}),
			text("Refused."),
			compactionStep(),
			text("After all."),
		))
		ch := w.chat()
		run := ch.start("first <b>question</b>")
		for n := 1; n <= 2; n++ {
			ch.rec.waitAsk(run, n).answer(t, exec.Answer{OptionID: "allow"})
		}
		ch.wantEnd(run, row.RunCompleted)
		run = ch.start("second")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		if err := ch.steer(run, "a steer"); err != nil {
			t.Fatal(err)
		}
		touch(t, w.project+"/go")
		ch.wantEnd(run, row.RunCompleted)
		run = ch.start("third")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "deny", Message: "No"})
		ch.wantEnd(run, row.RunCompleted)
		ch.wantEnd(ch.compact(""), row.RunCompleted)
		ch.say("last")
		id := ch.rec.currentSession().ID
		ch.close()

		rows := w.readHistory(id)
		live := ch.rec.allRows()
		denied := `result b2 denied "No"`
		if !c.lifecycle {
			// The older program does not write down that it was a refusal.
			for _, r := range live {
				if res, ok := r.Body.(*row.ToolResult); ok && res.Status == row.ToolDenied {
					res.Status = row.ToolFailed
				}
			}
			denied = `result b2 failed "No"`
		}
		if diff := cmp.Diff(byNative(live), withoutUsers(byNative(rows))); diff != "" {
			t.Errorf("live and imported rows differ:\n%s", diff)
		}
		got := brief(rows)
		order := []string{
			`user "first <b>question</b>"`, `reasoning "Hm."`, `assistant "Two at once."`, "tool p1", "tool p2", "tool p3",
			`assistant "Read." final`, `user "second"`, "tool b1", "result b1", `user "a steer" steered`, `assistant "Steered." final`,
			`user "third"`, "tool b2", denied, `assistant "Refused." final`,
			`compaction manual "1. The user said hi."`, `user "last"`, `assistant "After all." final`,
		}
		at := 0
		for _, line := range order {
			i := strings.Index(got[at:], line)
			if i < 0 {
				t.Fatalf("%s is not in its place:\n%s", line, got)
			}
			at += i
		}
		for _, id := range []string{"p1", "p2", "p3"} {
			if strings.Count(got, "result "+id+" ") != 1 {
				t.Errorf("%d results of %s", strings.Count(got, "result "+id+" "), id)
			}
		}
		if strings.Contains(got, "<command") || strings.Contains(got, "system-reminder") {
			t.Errorf("machine texts are shown:\n%s", got)
		}

		sessions, err := w.adapter.Facets().History.Sessions(t.Context(), w.project, 10)
		if err != nil || len(sessions) != 1 {
			t.Fatalf("sessions %+v, %v", sessions, err)
		}
		if s := sessions[0]; s.ID != id || !strings.Contains(s.Title, "question") || s.Updated == 0 || s.Size == 0 {
			t.Errorf("session %+v", s)
		}
		// A project reached through a link has the same sessions.
		link := filepath.Join(w.home, "link")
		if err := os.Symlink(w.project, link); err != nil {
			t.Fatal(err)
		}
		if s, err := w.adapter.Facets().History.Sessions(t.Context(), link, 10); err != nil || len(s) != 1 {
			t.Errorf("sessions through a link: %v, %v", s, err)
		}
	})
}

// withoutUsers leaves out rows that are not published live: the controller has
// what the user wrote.
func withoutUsers(rows map[string]string) map[string]string {
	for id, text := range rows {
		if strings.HasPrefix(text, "user ") {
			delete(rows, id)
		}
	}
	return rows
}

func TestHistoryOfSubagents(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, delegating(false, "", text("All done.")))
		ch := w.chat()
		run := ch.start("MAINJOB delegate")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"})
		ch.wantEnd(run, row.RunCompleted)
		ch.close()
		rows := w.readHistory(ch.rec.currentSession().ID)
		var main, child []row.Row
		for _, r := range rows {
			if r.Child == "" {
				main = append(main, r)
			} else {
				child = append(child, r)
			}
		}
		if got := brief(main); !strings.Contains(got, `subagent ag1 foreground general-purpose "Sub job" completed "SUB REPORT"`) || !strings.HasSuffix(got, "assistant \"All done.\" final\n") {
			t.Errorf("main:\n%s", got)
		}
		if got := withoutExit(brief(child)); got != "  [child] user \"SUBJOB do it\" by agent\n"+childRows {
			t.Errorf("child:\n%s", got)
		}
	})
}

func TestHistoryOfInterruptsAndErrors(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{{Text: "cut off here", Chunks: 4, Hold: "forever", HoldAfter: 2}}},
			model.Step{Times: 2, Reply: &model.Reply{Status: 500, Type: "api_error", Message: "broken"}},
			text("fine"),
		))
		ch := w.chat()
		run := ch.start("one")
		ch.rec.waitLive(row.KindAssistant, "cut")
		ch.abort(run)
		ch.wantEnd(run, row.RunInterrupted)
		ch.wantFailure(ch.start("two"), exec.CodeModelError)
		ch.say("three")
		id := ch.rec.currentSession().ID
		before, err := w.adapter.Facets().History.Revision(t.Context(), w.project, id)
		if err != nil {
			t.Fatal(err)
		}
		ch.close()
		got := brief(w.readHistory(id))
		for _, line := range []string{`user "one"`, "notice INTERRUPTED", `user "two"`, "error MODEL_ERROR", `user "three"`, `assistant "fine" final`} {
			if !strings.Contains(got, line) {
				t.Errorf("no %s in\n%s", line, got)
			}
		}
		// A session that goes on has another revision.
		again := w.chat()
		again.launch.NativeSession = id
		if err := w.model.Push(text("more")); err != nil {
			t.Fatal(err)
		}
		again.say("four")
		again.close()
		after, err := w.adapter.Facets().History.Revision(t.Context(), w.project, id)
		if err != nil || after == before {
			t.Errorf("revision %s, then %s (%v)", before, after, err)
		}
	})
}

func TestHistoryOfNothing(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("unused")))
		h := w.adapter.Facets().History
		if s, err := h.Sessions(t.Context(), w.project, 10); err != nil || len(s) != 0 {
			t.Errorf("%v, %v", s, err)
		}
		const id = "6a1e3f6e-3f4b-4c57-9f4e-6a9d4f3c2b1a"
		for _, native := range []string{id, "../../etc/passwd", ""} {
			if _, err := h.Open(t.Context(), w.project, native); exec.CodeOf(err) != exec.CodeSessionMissing {
				t.Errorf("open %q: %v", native, err)
			}
			if _, err := h.Revision(t.Context(), w.project, native); exec.CodeOf(err) != exec.CodeSessionMissing {
				t.Errorf("revision of %q: %v", native, err)
			}
		}
	})
}

func TestFork(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, model.Script{Default: &model.Step{Answer: func(r *model.Request) model.Step {
			return text("answer to " + r.LastUser)
		}}})
		ch := w.chat()
		ch.say("one")
		ch.say("two")
		source := ch.rec.currentSession().ID
		waitFor(t, "transcript", func() bool { return strings.Contains(w.transcript(source), "answer to two") })
		first := ""
		for _, r := range ch.rec.allRows() {
			if a, ok := r.Body.(*row.Assistant); ok && a.Text == "answer to one" {
				first = r.NativeID
			}
		}
		forks := w.adapter.Facets().Forking
		tip, err := forks.Fork(t.Context(), exec.Fork{ProjectPath: w.project, NativeSession: source})
		if err != nil {
			t.Fatal(err)
		}
		early, err := forks.Fork(t.Context(), exec.Fork{ProjectPath: w.project, NativeSession: source, AtNativeID: first})
		if err != nil {
			t.Fatal(err)
		}
		if tip == early || tip == source {
			t.Errorf("forks %s, %s of %s", tip, early, source)
		}
		// The source goes on; a fork does not see that.
		ch.say("three")

		last := func() string {
			calls := w.model.Calls(model.CallMain)
			return string(calls[len(calls)-1].Raw)
		}
		at := w.chat()
		at.launch.NativeSession = tip
		at.say("on the tip")
		if body := last(); !strings.Contains(body, "answer to two") || strings.Contains(body, "answer to three") {
			t.Error("the fork at the tip has another history")
		}
		forked := at.rec.currentSession().ID
		if forked == source || forked == "" {
			t.Errorf("the fork has session %q", forked)
		}
		at.say("once more")
		if again := at.rec.currentSession().ID; again != forked {
			t.Errorf("the fork changed its session from %s to %s", forked, again)
		}

		// A fork that was not used yet has the history of its source up to it.
		if got := brief(w.readHistory(early)); got != "user \"one\"\nassistant \"answer to one\" final\n" {
			t.Error(got)
		}
		e := w.chat()
		e.launch.NativeSession = early
		e.say("early on")
		if body := last(); !strings.Contains(body, "answer to one") || strings.Contains(body, "answer to two") {
			t.Error("the early fork has another history")
		}
		// The name of a fork stands for it ever after.
		e.close()
		f := w.chat()
		f.launch.NativeSession = early
		f.say("again")
		if body := last(); !strings.Contains(body, "early on") {
			t.Error("the fork was made a second time")
		}
		if err := forks.Discard(t.Context(), w.project, tip); err != nil {
			t.Error(err)
		}
		if got := brief(w.readHistory(source)); strings.Contains(got, "early on") || !strings.Contains(got, "three") {
			t.Errorf("the source changed:\n%s", got)
		}

		for _, bad := range []exec.Fork{
			{NativeSession: "6a1e3f6e-3f4b-4c57-9f4e-6a9d4f3c2b1a"},
			{NativeSession: source, AtNativeID: "6a1e3f6e-3f4b-4c57-9f4e-6a9d4f3c2b1a"},
			{NativeSession: "fork:x:y:z"},
		} {
			bad.ProjectPath = w.project
			if id, err := forks.Fork(t.Context(), bad); exec.CodeOf(err) != exec.CodeSessionMissing {
				t.Errorf("fork of %+v: %s, %v", bad, id, err)
			}
		}
	})
}
