package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// errBindingClosing is the cause with which the launches of a closing binding
// are cancelled.
var errBindingClosing = errors.New("the binding is closing")

// binding is the lease of one chat. It implements [provider.Binding].
type binding struct {
	in           *integration
	id           string
	spec         exec.BindingSpec
	queue        *queue
	conversation provider.Conversation
	// life ends when the binding closes.
	life   context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	// runs are those without a terminal.
	runs map[*run]bool
	// session is the native session as last published.
	session string
	// launching counts the launches that close waits for.
	launching sync.WaitGroup
}

var _ provider.Binding = (*binding)(nil)

// Spec implements [provider.Binding].
func (b *binding) Spec() exec.BindingSpec { return b.spec }

// Begin implements [provider.Binding].
func (b *binding) Begin(reason string, active provider.Active) provider.Run {
	r := newRun(b, uuid.NewString(), uuid.NewString())
	r.reason, r.unsolicited = row.Text(reason), true
	if err := b.enroll(r, b.currentSession()); err != nil {
		// The agent already works, so the run is shown all the same. Only a
		// closed binding keeps it quiet, as it does everything.
		b.in.rt.log.Warn("a run that the agent began cannot be had to itself", "agent", b.in.id, "err", err)
		if err := b.enroll(r, ""); err != nil {
			return r
		}
	}
	r.taken(active)
	b.queue.put(&entry{run: r, announce: true})
	return r
}

func (b *binding) currentSession() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session
}

// enroll makes a run part of the binding and of the tables. A run that was asked
// for is counted as launching, and there is one of that kind at a time.
func (b *binding) enroll(r *run, session string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBindingClosed()
	}
	if !r.unsolicited {
		for other := range b.runs {
			if !other.unsolicited && other.id != r.id {
				return errBusy()
			}
		}
	}
	if err := b.in.add(r, session); err != nil {
		return err
	}
	b.runs[r] = true
	if !r.unsolicited {
		b.launching.Add(1)
	}
	return nil
}

// withdraw undoes enroll.
func (b *binding) withdraw(r *run) {
	b.in.remove(r)
	b.mu.Lock()
	delete(b.runs, r)
	b.mu.Unlock()
}

// Jobs implements [provider.Binding].
func (b *binding) Jobs(jobs []exec.Job) {
	b.queue.put(&entry{event: exec.Event{Jobs: &exec.Jobs{Jobs: slices.Clone(jobs)}}})
}

// Session implements [provider.Binding].
func (b *binding) Session(s exec.Session) { b.publishSession(nil, s) }

func (b *binding) publishSession(r *run, s exec.Session) {
	if s.ID != "" {
		b.mu.Lock()
		b.session = s.ID
		b.mu.Unlock()
		if r != nil {
			b.in.claim(r, s.ID)
		}
	}
	e := &entry{run: r, event: exec.Event{Session: &s}}
	if r != nil {
		e.event.RunID = r.id
	}
	b.queue.put(e)
}

// Rows implements [provider.Binding].
func (b *binding) Rows(rows ...row.Row) {
	if len(rows) == 0 {
		return
	}
	b.queue.put(&entry{event: exec.Event{Rows: prepare(rows, "", "")}})
}

// prepare makes rows storable and fills in whose they are.
func prepare(rows []row.Row, turnID, runID string) []row.Row {
	rows = slices.Clone(rows)
	for i := range rows {
		if rows[i].TurnID == "" {
			rows[i].TurnID = turnID
		}
		if rows[i].RunID == "" {
			rows[i].RunID = runID
		}
		rows[i] = rows[i].Clean()
	}
	return rows
}

// close ends the binding: what was published so far is delivered, nothing else
// is; the launches and the conversation end.
func (b *binding) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	runs := slices.Collect(maps.Keys(b.runs))
	b.mu.Unlock()

	b.queue.close()
	b.cancel(errBindingClosing)
	// A conversation is not closed while a launch is being refused, unless
	// that takes too long: then closing it is what ends the launch.
	launched := make(chan struct{})
	go func() {
		b.launching.Wait()
		close(launched)
	}()
	select {
	case <-launched:
	case <-ctx.Done():
	}
	err := b.in.rt.settle(ctx, b.in.id+" close conversation", b.conversation.Close)
	// Only now is nobody left who works in the sessions.
	for _, r := range runs {
		r.retire()
		b.withdraw(r)
	}
	return errors.Join(err, b.queue.flush(ctx))
}
