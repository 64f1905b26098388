package chat

import (
	"context"
	"sync"

	"garcon/proto/api"
	"garcon/proto/row"
)

// Bounds of turn receipts.
const (
	// maxReceipts and maxReceiptBytes bound the receipts of ended turns: days of
	// a busy controller, in memory a laptop does not notice.
	maxReceipts     = 4096
	maxReceiptBytes = 64 << 20
	// maxFinalText bounds the final text of one receipt; the whole is in the
	// transcript.
	maxFinalText = 4 << 20
)

// receipts keeps what became of turns, for the life of the process. Turns that
// have not ended are never forgotten.
type receipts struct {
	mu    sync.Mutex
	turns map[string]*receipt
	ended []string // turn ids, oldest first
	bytes int      // of the ended ones
}

type receipt struct {
	api.Receipt
	done chan struct{} // closed when the turn has ended
}

func newReceipts() *receipts { return &receipts{turns: map[string]*receipt{}} }

// queued records that a turn waits in the queue, for the first time or again.
func (rs *receipts) queued(chat, turn string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.openLocked(chat, turn)
	r.State, r.StartedAt = api.TurnQueued, 0
}

// start records that a turn has become active.
func (rs *receipts) start(chat, turn string, at int64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.openLocked(chat, turn)
	r.State, r.StartedAt = api.TurnActive, at
}

// openLocked returns the receipt of a turn that has not ended. The same one
// serves a turn from the queue to its end, because clients wait on it.
func (rs *receipts) openLocked(chat, turn string) *receipt {
	r := rs.turns[turn]
	if r == nil {
		r = &receipt{Receipt: api.Receipt{ChatID: chat, TurnID: turn}, done: make(chan struct{})}
		rs.turns[turn] = r
	}
	return r
}

// end records how a turn ended. Only the first call for a turn counts.
func (rs *receipts) end(turn string, end api.Receipt) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.turns[turn]
	if r == nil || r.State == api.TurnEnded {
		return
	}
	r.State = api.TurnEnded
	r.Outcome, r.Usage, r.Error, r.EndedAt = end.Outcome, end.Usage, end.Error, end.EndedAt
	r.FinalText = end.FinalText
	if len(r.FinalText) > maxFinalText {
		r.FinalTextSize = int64(len(r.FinalText))
		r.FinalText = row.Prefix(r.FinalText, maxFinalText)
	}
	close(r.done)
	rs.ended = append(rs.ended, turn)
	rs.bytes += len(r.FinalText)
	for len(rs.ended) > maxReceipts || rs.bytes > maxReceiptBytes && len(rs.ended) > 1 {
		old := rs.ended[0]
		rs.ended = rs.ended[1:]
		rs.bytes -= len(rs.turns[old].FinalText)
		delete(rs.turns, old)
	}
}

// drop forgets a turn that was never accepted.
func (rs *receipts) drop(turn string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.turns[turn]; r != nil && r.State != api.TurnEnded {
		delete(rs.turns, turn)
	}
}

// get returns a receipt as it is now.
func (rs *receipts) get(chat, turn string) (api.Receipt, <-chan struct{}, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.turns[turn]
	if r == nil || r.ChatID != chat {
		return api.Receipt{}, nil, false
	}
	return r.Receipt, r.done, true
}

// wait returns the receipt when the turn has ended or ctx is over.
func (rs *receipts) wait(ctx context.Context, chat, turn string) (api.Receipt, bool) {
	got, done, ok := rs.get(chat, turn)
	if !ok || got.State == api.TurnEnded {
		return got, ok
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	got, _, ok = rs.get(chat, turn)
	return got, ok
}
