package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"

	"garcon/store/internal/boltfile"
)

// Ledger is one chat's transcript. All methods are safe for concurrent use.
type Ledger struct {
	set  *Set
	id   string
	path string

	queue *queue
	// written is closed when the writer goroutine has ended.
	written chan struct{}
	// lost are the client message ids of failed commits; only the writer uses
	// it.
	lost []string

	// mu guards the rest. Only the writer goroutine changes state and file, so
	// it may read them without mu.
	mu    sync.Mutex
	state *state
	// file is nil until the first commit of a new ledger.
	file *boltfile.File
	// dead is why the ledger is of no more use.
	dead error
	// views counts replacements of the view, so that a reader notices one.
	views int
	// changed is closed, and replaced, whenever a follower may have something
	// to do.
	changed chan struct{}
	// tails holds the newest rows of the transcripts that have followers.
	tails map[string]*tail
}

func (s *Set) newLedger(id string, st *state, file *boltfile.File) *Ledger {
	l := &Ledger{
		set: s, id: id, path: s.path(id), queue: newQueue(), written: make(chan struct{}),
		state: st, file: file, changed: make(chan struct{}), tails: map[string]*tail{},
	}
	s.writers.Go(l.write)
	return l
}

// openFile opens the chat's file and reads its state.
func (s *Set) openFile(id string) (*boltfile.File, *state, error) {
	file, err := boltfile.Open(s.path(id), s.format, s.faults)
	if err != nil {
		return nil, nil, err
	}
	var st *state
	err = file.View(func(tx *bolt.Tx) (err error) {
		st, err = s.layout.load(tx, id)
		return err
	})
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, st, nil
}

// ChatID returns the chat the ledger belongs to.
func (l *Ledger) ChatID() string { return l.id }

// Release gives the ledger back. Each Open and Create needs one.
func (l *Ledger) Release() { l.set.release(l) }

// Append stores the batch and returns after the commit that holds it. When ctx
// ends first the outcome is unknown: the batch may still be committed.
func (l *Ledger) Append(ctx context.Context, b Batch) (Committed, error) {
	p, err := prepare(b, l.set.now)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Committed{First: -1, Last: -1}, err
	}
	result := make(chan outcome, 1)
	p.done = func(c Committed, err error) { result <- outcome{c, err} }
	if err := l.queue.push(ctx, p); err != nil {
		return Committed{First: -1, Last: -1}, err
	}
	select {
	case o := <-result:
		return o.Committed, o.err
	case <-ctx.Done():
		return Committed{First: -1, Last: -1}, fmt.Errorf("append to the ledger of chat %s: %w", l.id, context.Cause(ctx))
	}
}

// AppendAsync queues the batch, blocking while the queue is full, and calls
// done after its commit. Calls of done come one at a time, in order, from the
// writer goroutine, and must be cheap; they must not wait for the ledger. On a
// ledger that is closed, or for an invalid batch, done is called before
// AppendAsync returns.
func (l *Ledger) AppendAsync(b Batch, done func(Committed, error)) {
	p, err := prepare(b, l.set.now)
	if err == nil {
		p.done = done
		err = l.queue.push(context.Background(), p)
	}
	if err != nil {
		done(Committed{First: -1, Last: -1}, err)
	}
}

// Head returns the state as of the last commit. It reads no file.
func (l *Ledger) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.public()
}

// Watermark returns how far the binding's events are stored.
func (l *Ledger) Watermark(binding string) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.state.head.Watermarks {
		if w.Binding == binding {
			return w.Seq, true
		}
	}
	return 0, false
}

// publish makes a committed state and its rows visible.
func (l *Ledger) publish(st *state, fresh []Stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = st
	for child, t := range l.tails {
		t.add(ofChild(fresh, child))
	}
	l.wakeLocked()
}

// ofChild returns the rows of one transcript; without children's rows among
// them it copies nothing.
func ofChild(rows []Stored, child string) []Stored {
	n := 0
	for i := range rows {
		if rows[i].Row.Child == child {
			n++
		}
	}
	if n == len(rows) {
		return rows
	}
	out := make([]Stored, 0, n)
	for _, s := range rows {
		if s.Row.Child == child {
			out = append(out, s)
		}
	}
	return out
}

func (l *Ledger) wakeLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// control runs f in the writer goroutine, after what is queued, and waits for
// it. f is not called when the ledger is closed.
func (l *Ledger) control(ctx context.Context, f func()) error {
	finished := make(chan struct{})
	p := &pending{urgent: true, control: func() { defer close(finished); f() }}
	if err := l.queue.push(ctx, p); err != nil {
		return err
	}
	<-finished
	return nil
}

// materialize writes the file of a ledger that has had no append.
func (l *Ledger) materialize() error {
	l.mu.Lock()
	done := l.file != nil || l.dead != nil
	l.mu.Unlock()
	if done {
		return nil
	}
	var err error
	closed := l.control(context.Background(), func() {
		if l.file != nil {
			return
		}
		p := newPlan(l.set.layout, l.state)
		if err = p.finish(); err != nil {
			return
		}
		if err = l.store(p); err == nil {
			l.publish(p.state, nil)
		}
	})
	return errors.Join(closed, err)
}

// kill ends every use of the ledger with err. Batches that are queued fail
// unless their commit has begun.
func (l *Ledger) kill(err error) {
	l.mu.Lock()
	if l.dead == nil {
		l.dead = err
		l.wakeLocked()
	}
	err = l.dead
	l.mu.Unlock()
	l.queue.close(err)
}

// close commits what is queued and closes the file.
func (l *Ledger) close() error {
	l.queue.close(ErrClosed)
	<-l.written
	// A failed commit that took must not turn up at the next opening. When the
	// disk refuses this too it does, as after a crash.
	if err := l.recover(); err != nil {
		l.set.log.Warn("undo a failed commit", "chat", l.id, "err", l.fail(err))
	}
	l.kill(ErrClosed)
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// fail turns an error of the file into what callers get. Damage sets the file
// aside.
func (l *Ledger) fail(err error) error {
	damage, ok := errors.AsType[*boltfile.DamageError](err)
	if !ok {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return l.dead
	}
	l.dead = l.set.quarantine(l.id, damage)
	l.wakeLocked()
	l.queue.close(l.dead)
	l.set.detach(l)
	return l.dead
}
