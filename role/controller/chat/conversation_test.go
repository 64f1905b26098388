package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// carried starts a chat with an agent that keeps no conversation, plays the
// turns and returns what the next launch carries.
func carried(t *testing.T, turns [][]row.Body) []exec.Message {
	t.Helper()
	w := newWorld(t)
	w.agent.integration.Manifest.Conversation = exec.ConversationController
	var chat string
	for i, answers := range turns {
		prompt := fmt.Sprint("prompt ", i)
		if i == 0 {
			a, err := w.Start(t.Context(), request(prompt), human)
			must(t, err)
			chat = a.ChatID
		} else {
			w.mustSubmit(t, chat, prompt, api.BusyReject)
		}
		r := receive(t, w.agent.launches)
		r.take(t)
		for _, b := range answers {
			r.publish(exec.Event{Rows: []row.Row{row.New("", "", b)}})
		}
		r.end(row.RunCompleted, nil)
		w.until(t, chat, idle)
	}
	w.mustSubmit(t, chat, "the prompt itself", api.BusyReject)
	r := receive(t, w.agent.launches)
	r.take(t)
	return r.launch.Conversation
}

func TestConversationIsCarried(t *testing.T) {
	got := carried(t, [][]row.Body{
		{&row.Reasoning{Text: "hm"}, &row.Assistant{Text: "answer 0"}},
		{&row.Assistant{Text: "half", Partial: true}, &row.Notice{Code: "N", Text: "n"}},
	})
	want := []exec.Message{
		{Role: "user", Text: "prompt 0"},
		{Role: "assistant", Text: "answer 0"},
		{Role: "user", Text: "prompt 1"},
		{Role: "assistant", Text: "half\n[the answer was cut off here]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

func TestConversationBeginsAtTheCompaction(t *testing.T) {
	got := carried(t, [][]row.Body{
		{&row.Assistant{Text: "old"}},
		{&row.Compaction{Trigger: "manual", Summary: "we talked"}},
		{&row.Assistant{Text: "new"}},
	})
	want := []exec.Message{
		{Role: "user", Text: "Summary of the conversation so far:\n\nwe talked"},
		{Role: "user", Text: "prompt 2"},
		{Role: "assistant", Text: "new"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
}

func TestConversationIsBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	var turns [][]row.Body
	for range 6 {
		turns = append(turns, []row.Body{&row.Assistant{Text: big}})
	}
	got := carried(t, turns)
	size := 0
	for _, m := range got {
		size += len(m.Text)
	}
	if size > exec.MaxConversation || size < exec.MaxConversation-(2<<20) || got[0].Role != "user" {
		t.Errorf("%d messages of %d bytes, first from %s", len(got), size, got[0].Role)
	}
}
