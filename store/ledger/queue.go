package ledger

import (
	"context"
	"fmt"
	"sync"

	"garcon/proto/row"
)

// maxQueuedBytes bounds what waits for one ledger's writer, encoded: what a fast
// agent says in a few commits. Whoever appends more waits; a single batch may
// be larger.
const maxQueuedBytes = 8 << 20

// rowCost is what a queued row takes beside its encoding, in bytes: its body
// and bookkeeping.
const rowCost = 512

// pending is a batch that waits for its commit, or a function for the writer.
type pending struct {
	rows        []encoded
	clientID    string
	fingerprint string
	watermark   *Watermark
	session     *row.Session
	urgent      bool
	cost        int64
	done        func(Committed, error)
	// control, when set, is run by the writer between commits.
	control func()
}

// prepare checks and encodes a batch.
func prepare(b Batch, now func() int64) (*pending, error) {
	p := &pending{
		rows: make([]encoded, 0, len(b.Rows)), clientID: b.ClientID, fingerprint: b.Fingerprint,
		urgent: b.Urgent, cost: rowCost,
	}
	if err := checkID("client message id", b.ClientID); err != nil {
		return nil, err
	}
	if err := checkID("fingerprint", b.Fingerprint); err != nil {
		return nil, err
	}
	if b.Watermark != nil {
		w := *b.Watermark
		if err := checkID("binding", w.Binding); err != nil {
			return nil, err
		}
		p.watermark = &w
	}
	if b.Session != nil {
		session := *b.Session
		if err := checkID("native session", session.ID); err != nil {
			return nil, err
		}
		p.session = &session
	}
	for i, r := range b.Rows {
		e, err := encode(r, now)
		if err != nil {
			return nil, fmt.Errorf("row %d of the batch: %w", i, err)
		}
		p.rows = append(p.rows, e)
		p.cost += int64(len(e.json)) + rowCost
		p.urgent = p.urgent || isUrgent(e.row)
	}
	return p, nil
}

// isUrgent reports whether somebody waits for the row: it is a user's own, asks
// the user, or ends a run.
func isUrgent(r row.Row) bool {
	if r.Imported {
		return false
	}
	switch b := r.Body.(type) {
	case *row.User, *row.Permission, *row.Question:
		return true
	case *row.Run:
		return b.Phase != row.RunStarted
	}
	return false
}

// queue holds what waits for the writer. mu guards everything.
type queue struct {
	mu    sync.Mutex
	items []*pending
	// bytes counts what is queued and what is being committed.
	bytes  int64
	urgent bool
	// closed is why nothing more is taken.
	closed error
	// room is closed, and replaced, when bytes fall.
	room chan struct{}
	// wake holds a token when there is something new for the writer.
	wake chan struct{}
}

func newQueue() *queue {
	return &queue{room: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// push waits for room and queues p.
func (q *queue) push(ctx context.Context, p *pending) error {
	for {
		q.mu.Lock()
		if q.closed != nil {
			defer q.mu.Unlock()
			return q.closed
		}
		if q.bytes == 0 || q.bytes+p.cost <= maxQueuedBytes {
			q.items = append(q.items, p)
			q.bytes += p.cost
			q.urgent = q.urgent || p.urgent
			q.mu.Unlock()
			q.signal()
			return nil
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close makes later pushes fail with err. What is queued stays for the writer.
func (q *queue) close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.closed = err
	}
	close(q.room)
	q.room = make(chan struct{})
	q.signal()
}

// take removes everything queued.
func (q *queue) take() []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	items := q.items
	q.items, q.urgent = nil, false
	return items
}

// release says that items no longer take memory.
func (q *queue) release(items []*pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range items {
		q.bytes -= p.cost
	}
	close(q.room)
	q.room = make(chan struct{})
}

// status reports whether something is queued, whether it is urgent, and whether
// the queue is closed.
func (q *queue) status() (queued, urgent, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) > 0, q.urgent, q.closed != nil
}
