package runtime

import (
	"context"
	"strings"
	"sync"

	"garcon/proto/exec"
	"garcon/proto/row"
)

const (
	// maxQueuedEvents and maxQueuedBytes bound what a binding holds for a
	// sink that is behind: enough that an agent in full flow does not wait for
	// a commit of some 50 ms, little enough for hundreds of chats.
	maxQueuedEvents = 1024
	maxQueuedBytes  = 16 << 20
	// eventOverhead is charged for each event beside its texts.
	eventOverhead = 512
)

// entry is one event on its way to the sink.
type entry struct {
	run   *run // nil for events of no run
	event exec.Event
	// announce marks the entry that only publishes the launch.
	announce bool
	// refused marks the terminal of a launch that did not work: no launch is
	// published for it.
	refused bool
	size    int
	// text collects the text of a live part while the entry waits.
	text *strings.Builder
}

type liveKey struct{ run, part string }

type waiter struct {
	e        *entry
	admitted chan struct{}
}

// queue is the one stream of a binding. Entries are admitted in the order of
// the calls, also when these had to wait, and published by one goroutine.
type queue struct {
	sink exec.Sink
	// done is closed when the sink will not be called again.
	done chan struct{}

	mu    sync.Mutex
	ready sync.Cond // there are items, or the queue was closed
	items []*entry
	bytes int
	seq   uint64
	// open holds the queued live updates that a later one of the same part
	// may be merged into: those after the last event that is not live.
	open    map[liveKey]*entry
	waiters []waiter
	// closed refuses new entries; those admitted are still published.
	closed bool
}

func newQueue(sink exec.Sink) *queue {
	q := &queue{sink: sink, done: make(chan struct{}), open: map[liveKey]*entry{}}
	q.ready.L = &q.mu
	go q.serve()
	return q
}

// put publishes an entry. It waits while the queue is full and does nothing
// once the queue is closed or the entry's run has its terminal.
func (q *queue) put(e *entry) {
	e.size = eventOverhead + sizeOf(&e.event)
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	if len(q.waiters) == 0 {
		if q.bytes < maxQueuedBytes && q.mergeLocked(e) {
			q.mu.Unlock()
			return
		}
		if q.roomLocked() {
			q.admitLocked(e)
			q.mu.Unlock()
			return
		}
	}
	w := waiter{e, make(chan struct{})}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	<-w.admitted
}

func (q *queue) roomLocked() bool {
	return len(q.items) < maxQueuedEvents && q.bytes < maxQueuedBytes
}

// mergeLocked appends a live update to one of the same part that still waits.
func (q *queue) mergeLocked(e *entry) bool {
	live := e.event.Live
	if live == nil || e.run.ended {
		return false
	}
	into := q.open[liveKey{live.RunID, live.PartID}]
	if into == nil {
		return false
	}
	first := into.event.Live
	switch live.Offset {
	case 0:
		into.text.Reset()
		first.Offset = 0
	case first.Offset + into.text.Len():
	default:
		return false
	}
	into.text.WriteString(live.Text)
	if live.Title != "" {
		first.Title = live.Title
	}
	q.bytes += len(live.Text)
	into.size += len(live.Text)
	return true
}

// admitLocked numbers an entry and puts it in the line. The launch of its run
// goes first, and its run takes nothing after a terminal.
func (q *queue) admitLocked(e *entry) {
	if r := e.run; r != nil {
		if r.ended {
			return
		}
		if !r.announced && !e.refused {
			r.announced = true
			q.appendLocked(&entry{run: r, event: exec.Event{RunID: r.id, Launched: r.launched()}, size: eventOverhead})
		}
		if e.event.Terminal != nil {
			r.ended = true
		}
	}
	if !e.announce {
		q.appendLocked(e)
	}
}

func (q *queue) appendLocked(e *entry) {
	if live := e.event.Live; live != nil {
		e.text = &strings.Builder{}
		e.text.WriteString(live.Text)
		q.open[liveKey{live.RunID, live.PartID}] = e
	} else {
		q.seq++
		clear(q.open)
	}
	e.event.Seq = q.seq
	q.bytes += e.size
	q.items = append(q.items, e)
	q.ready.Signal()
}

// serve publishes until the queue is closed and empty.
func (q *queue) serve() {
	defer close(q.done)
	for {
		e := q.next()
		if e == nil {
			return
		}
		q.sink.Publish(e.event)
	}
}

func (q *queue) next() *entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 {
		if q.closed {
			return nil
		}
		q.ready.Wait()
	}
	e := q.items[0]
	q.items[0] = nil
	q.items = q.items[1:]
	q.bytes -= e.size
	if live := e.event.Live; live != nil {
		if key := (liveKey{live.RunID, live.PartID}); q.open[key] == e {
			delete(q.open, key)
		}
		live.Text = e.text.String()
	}
	for len(q.waiters) > 0 && q.roomLocked() {
		w := q.waiters[0]
		q.waiters = q.waiters[1:]
		q.admitLocked(w.e)
		close(w.admitted)
	}
	return e
}

// close refuses entries from now on and lets go of whoever waits.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	for _, w := range q.waiters {
		close(w.admitted)
	}
	q.waiters = nil
	q.ready.Broadcast()
}

// flush waits until everything admitted was published. When ctx ends before,
// the rest is dropped; a call of the sink that does not return is not waited
// for then.
func (q *queue) flush(ctx context.Context) error {
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	q.items = nil
	q.bytes = 0
	q.mu.Unlock()
	select {
	case <-q.done:
		return nil
	default:
		return exec.Errorf(exec.CodeCancelled, "the controller did not take the last events in time").WithDispatched(exec.WasDispatched)
	}
}

// sizeOf estimates what an event holds, in bytes.
func sizeOf(e *exec.Event) int {
	n := 0
	for i := range e.Rows {
		n += eventOverhead + rowSize(&e.Rows[i])
	}
	if e.Live != nil {
		n += len(e.Live.Text)
	}
	if e.Ask != nil {
		n += rowSize(&e.Ask.Row)
	}
	return n
}

// rowSize counts the texts that can be large.
func rowSize(r *row.Row) int {
	switch b := r.Body.(type) {
	case *row.User:
		return len(b.Text)
	case *row.Assistant:
		return len(b.Text)
	case *row.Reasoning:
		return len(b.Text)
	case *row.Tool:
		return inputSize(&b.Input)
	case *row.Permission:
		return inputSize(&b.Input)
	case *row.ToolResult:
		n := len(b.Output) + len(b.Stderr) + len(b.Diff)
		for i := range b.Images {
			n += len(b.Images[i].Data)
		}
		return n
	case *row.Compaction:
		return len(b.Summary)
	case *row.Subagent:
		return len(b.Summary)
	case *row.Opaque:
		return len(b.Members)
	}
	return 0
}

func inputSize(in *row.ToolInput) int {
	n := len(in.Command) + len(in.Content) + len(in.Patch) + len(in.Prompt) + len(in.Plan) + len(in.Arguments)
	for i := range in.Edits {
		n += len(in.Edits[i].Old) + len(in.Edits[i].New)
	}
	return n
}
