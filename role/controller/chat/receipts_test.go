package chat

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/api"
)

func TestWaitersFollowATurnFromTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReceipts()
		rs.queued("c", "t")
		got := make(chan api.Receipt)
		go func() {
			r, _ := rs.wait(t.Context(), "c", "t")
			got <- r
		}()
		synctest.Wait()
		rs.start("c", "t", 5)
		rs.queued("c", "t") // it could not begin
		rs.start("c", "t", 7)
		rs.end("t", api.Receipt{Outcome: api.TurnCompleted, FinalText: "done", EndedAt: 9})
		rs.end("t", api.Receipt{Outcome: api.TurnFailed})
		r := <-got
		if r.Outcome != api.TurnCompleted || r.FinalText != "done" || r.StartedAt != 7 || r.State != api.TurnEnded {
			t.Errorf("receipt %+v", r)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs := newReceipts()
		rs.start("c", "t", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r, ok := rs.wait(ctx, "c", "t")
		if !ok || r.State != api.TurnActive {
			t.Errorf("receipt %+v, %v", r, ok)
		}
		if _, ok := rs.wait(ctx, "other chat", "t"); ok {
			t.Error("a receipt was found under another chat")
		}
	})
}

func TestReceiptsAreBounded(t *testing.T) {
	rs := newReceipts()
	rs.start("c", "active", 1)
	for i := range maxReceipts + 10 {
		id := fmt.Sprint(i)
		rs.start("c", id, 1)
		rs.end(id, api.Receipt{Outcome: api.TurnCompleted, FinalText: "x"})
	}
	if len(rs.ended) != maxReceipts || len(rs.turns) != maxReceipts+1 {
		t.Errorf("%d ended, %d in all", len(rs.ended), len(rs.turns))
	}
	if _, _, ok := rs.get("c", "0"); ok {
		t.Error("the oldest was kept")
	}
	if _, _, ok := rs.get("c", "active"); !ok {
		t.Error("a turn that goes on was forgotten")
	}
	big := strings.Repeat("é", maxFinalText)
	for i := range maxReceiptBytes/maxFinalText + 2 {
		id := fmt.Sprint("big ", i)
		rs.start("c", id, 1)
		rs.end(id, api.Receipt{Outcome: api.TurnCompleted, FinalText: big})
		got, _, _ := rs.get("c", id)
		if len(got.FinalText) > maxFinalText || got.FinalTextSize != int64(len(big)) {
			t.Fatalf("kept %d bytes, size %d", len(got.FinalText), got.FinalTextSize)
		}
	}
	if rs.bytes > maxReceiptBytes {
		t.Errorf("%d bytes kept", rs.bytes)
	}
}
