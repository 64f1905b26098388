package claude_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/e2e/model"
	"garcon/proto/row"
)

func TestTextTurns(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(
			model.Step{Blocks: []model.Block{{Thinking: "Let me think."}, {Text: "Hello from the model.", Chunks: 5}}, Usage: &model.Usage{Input: 40, Output: 7, CacheRead: 5}},
			text("And again."),
		))
		ch := w.chat()
		run := ch.say("Say hello")
		want := "reasoning \"Let me think.\"\nassistant \"Hello from the model.\" final\n"
		rows := ch.rec.rows(run)
		if diff := cmp.Diff(want, brief(rows)); diff != "" {
			t.Fatal(diff)
		}
		var live strings.Builder
		parts := map[string]row.Kind{}
		for _, e := range ch.rec.events {
			if e.live == nil {
				continue
			}
			parts[e.live.PartID] = e.live.Kind
			if e.live.Kind == row.KindAssistant {
				if e.live.Offset != live.Len() {
					t.Errorf("live text at %d, want %d", e.live.Offset, live.Len())
				}
				live.WriteString(e.live.Text)
			}
		}
		if live.String() != "Hello from the model." {
			t.Errorf("live text %q", live.String())
		}
		for _, r := range rows {
			if parts[r.PartID] != r.Kind() {
				t.Errorf("row %s has part %q, which was of kind %q", r.Kind(), r.PartID, parts[r.PartID])
			}
			if r.NativeID == "" || r.Time == 0 && c.lifecycle {
				t.Errorf("row without native id or time: %+v", r.Head)
			}
		}
		end := ch.rec.waitEnd(run)
		if u := end.Usage; u == nil || u.InputTokens != 40 || u.OutputTokens != 7 || u.CacheReadTokens != 5 || u.CostUSD <= 0 || u.ContextWindow == 0 || u.ContextTokens < 45 {
			t.Errorf("usage %+v", u)
		}
		s := ch.rec.currentSession()
		if s.ID == "" || s.Model == "" || s.Mode != "default" {
			t.Errorf("session %+v", s)
		}

		second := ch.say("And again")
		if got := brief(ch.rec.rows(second)); got != "assistant \"And again.\" final\n" {
			t.Error(got)
		}
		if u := ch.rec.waitEnd(second).Usage; u.CostUSD > end.Usage.CostUSD*2 {
			t.Errorf("the cost of the second run, %v, includes that of the first, %v", u.CostUSD, end.Usage.CostUSD)
		}
		if again := ch.rec.currentSession().ID; again != s.ID {
			t.Errorf("session changed from %s to %s", s.ID, again)
		}
		if n := len(w.model.Calls(model.CallMain)); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}
