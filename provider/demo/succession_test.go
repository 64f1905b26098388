package demo

import (
	"testing"
	"testing/synctest"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// TestNextTurnWhileFinishing launches from inside of the publication of the
// terminal: nobody can see it earlier.
func TestNextTurnWhileFinishing(t *testing.T) {
	bubble(t, func(t *testing.T, k *talk) {
		first, second := k.launch("hang"), &fakeRun{id: "second"}
		first.finishing = func() {
			l := exec.Launch{RunID: second.id, ProjectPath: k.project, NativeSession: k.session, Prompt: exec.Prompt{Text: "say next"}}
			if _, err := k.c.Launch(t.Context(), l, second); err != nil {
				t.Errorf("launch with the terminal: %v", err)
			}
		}
		if err := first.active.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if first.terminal == nil || first.terminal.Phase != row.RunInterrupted {
			t.Errorf("the first turn ended as %+v", first.terminal)
		}
		if second.terminal == nil || second.text() != "next" {
			t.Errorf("the second turn ended as %+v with %q", second.terminal, second.text())
		}
	})
}
