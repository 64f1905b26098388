package permission

import (
	"context"
	"testing"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestOthersSeeWhoAnswersAndHowItEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		delivery error
		pending  bool
		how      Ending
	}{
		"delivered":     {nil, false, EndedAnswered},
		"not delivered": {exec.Errorf(exec.CodeUnavailable, "away"), true, ""},
		"stale":         {exec.Errorf(exec.CodeStaleResource, "gone"), false, EndedAborted},
		"unknown":       {exec.Errorf(exec.CodeOutcomeUnknown, "no reply").WithDispatched(exec.MaybeDispatched), false, EndedUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			d, owner := newDesk(t)
			var seen []api.Pending
			d.Offer("c", permissionRow("o", "run"), owner, func(context.Context, exec.Answer) error {
				seen = d.Pending("c")
				return tt.delivery
			})
			_, _ = d.Decide(t.Context(), fenceOf(t, d, "c", "o"), api.DecideRequest{Decision: row.AllowOnce}, "phone")
			if len(seen) != 1 || !seen[0].Answering || seen[0].AnsweringBy != "phone" {
				t.Errorf("while it is answered others see %+v", seen)
			}
			left := d.Pending("c")
			if (len(left) == 1) != tt.pending || tt.pending && (left[0].Answering || left[0].AnsweringBy != "") {
				t.Errorf("afterwards %+v", left)
			}
			if how, ok := d.Ended("c", "o"); how != tt.how || ok == tt.pending {
				t.Errorf("it ended %q, %v", how, ok)
			}
		})
	}
}
