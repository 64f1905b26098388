package runtime

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// errGivenUp is the cause with which a launch is cancelled by Abort.
var errGivenUp = errors.New("the launch was given up")

// run is one run of a binding. It implements [provider.Run].
type run struct {
	b           *binding
	id, turnID  string
	reason      string
	unsolicited bool

	// announced and ended say whether the launch and the terminal are in the
	// queue. Guarded by queue.mu.
	announced, ended bool
	// sessions are the entries of integration.sessions that are this run's.
	// Guarded by integration.mu.
	sessions []string

	// started is closed when active is set or the run is over.
	started   chan struct{}
	startOnce sync.Once

	mu     sync.Mutex
	active provider.Active
	giveUp context.CancelCauseFunc
	// stopAsked is set by an abort that came before active.
	stopAsked bool
	// over is set by the first of Finish, a refused launch and the end of the
	// binding. No request is made after it.
	over bool
	// requests are those that wait for an answer, by occurrence.
	requests map[string]*request
}

var _ provider.Run = (*run)(nil)

func newRun(b *binding, id, turnID string) *run {
	return &run{b: b, id: id, turnID: turnID, started: make(chan struct{}), requests: map[string]*request{}}
}

func (r *run) ref() exec.Ref { return r.b.in.ref(exec.RefRun, r.id) }

// launched is the event that says that the agent has taken the prompt.
func (r *run) launched() *exec.Launched {
	return &exec.Launched{Run: r.ref(), TurnID: r.turnID, Unsolicited: r.unsolicited, Reason: r.reason}
}

// launching notes how to give up the launch.
func (r *run) launching(giveUp context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.giveUp = giveUp
	if r.stopAsked {
		giveUp(errGivenUp)
	}
}

// taken notes that the agent has taken the run. It reports whether an abort was
// asked for meanwhile.
func (r *run) taken(active provider.Active) (stop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = active
	r.startOnce.Do(func() { close(r.started) })
	return r.stopAsked && !r.over
}

// refuse publishes the failure of a launch that did not work and returns it.
func (r *run) refuse(e *exec.Error) error {
	r.retire()
	phase := row.RunFailed
	if e.Code == exec.CodeCancelled {
		phase = row.RunInterrupted
	}
	r.put(&entry{refused: true, event: exec.Event{Terminal: &exec.Terminal{Phase: phase, Error: e}}})
	return e
}

// retire makes the run over, which is true for the first call only, and returns
// the occurrences that nobody answered.
func (r *run) retire() (open []string, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return nil, false
	}
	r.over = true
	r.startOnce.Do(func() { close(r.started) })
	for occurrence, q := range r.requests {
		if q.retire() {
			open = append(open, occurrence)
		}
		delete(r.requests, occurrence)
	}
	return open, true
}

func (r *run) put(e *entry) {
	e.run = r
	e.event.RunID = r.id
	r.b.queue.put(e)
}

// ID implements [provider.Run].
func (r *run) ID() string { return r.id }

// TurnID implements [provider.Run].
func (r *run) TurnID() string { return r.turnID }

// Rows implements [provider.Run].
func (r *run) Rows(rows ...row.Row) {
	if len(rows) > 0 {
		r.put(&entry{event: exec.Event{Rows: prepare(rows, r.turnID, r.id)}})
	}
}

// Live implements [provider.Run].
func (r *run) Live(l row.Live) {
	l.RunID = r.id
	r.put(&entry{event: exec.Event{Live: &l}})
}

// Session implements [provider.Run].
func (r *run) Session(s exec.Session) { r.b.publishSession(r, s) }

// Finish implements [provider.Run].
func (r *run) Finish(t exec.Terminal) {
	open, first := r.retire()
	if !first {
		return
	}
	// The session is free before the terminal can be seen: whoever waits for
	// it may launch the next run at once.
	r.b.withdraw(r)
	for _, occurrence := range open {
		r.put(&entry{event: exec.Event{Withdrawn: occurrence}})
	}
	terminal := wellFormed(t)
	r.put(&entry{event: exec.Event{Terminal: &terminal}})
}

// wellFormed makes phase and error of a terminal agree.
func wellFormed(t exec.Terminal) exec.Terminal {
	switch t.Phase {
	case row.RunCompleted:
		t.Error = nil
	case row.RunInterrupted:
	default:
		t.Phase = row.RunFailed
		if t.Error == nil {
			t.Error = exec.Errorf(exec.CodeInternal, "the run failed and the integration did not say why").WithDispatched(exec.WasDispatched)
		}
	}
	return t
}

// abort asks the agent to stop. During a launch it gives the launch up.
func (r *run) abort(ctx context.Context) error {
	r.mu.Lock()
	active, giveUp := r.active, r.giveUp
	r.stopAsked = true
	r.mu.Unlock()
	if active == nil {
		if giveUp != nil {
			giveUp(errGivenUp)
		}
		return nil
	}
	_, err := protect(r.b.in.rt.log, r.b.in.id+" abort", func() (struct{}, error) { return struct{}{}, active.Abort(ctx) })
	return r.failed(err)
}

// steer delivers text to the agent, once it has taken the run.
func (r *run) steer(ctx context.Context, s exec.Steer) error {
	select {
	case <-r.started:
	case <-ctx.Done():
		return exec.Errorf(exec.CodeCancelled, "the run had not started in time: %w", ctx.Err())
	}
	r.mu.Lock()
	active, over := r.active, r.over
	r.mu.Unlock()
	if active == nil || over {
		return errNotSteerable()
	}
	_, err := protect(r.b.in.rt.log, r.b.in.id+" steer", func() (struct{}, error) { return struct{}{}, active.Steer(ctx, s) })
	return r.failed(err)
}

// failed types an error of a call into the adapter. An adapter that failed
// inside cannot be trusted to end its run.
func (r *run) failed(err error) error {
	if err == nil {
		return nil
	}
	e := exec.AsError(err)
	if errors.Is(err, errPanic) {
		r.Finish(exec.Terminal{Phase: row.RunFailed, Error: e})
	}
	return e
}

// Ask implements [provider.Run].
func (r *run) Ask(question row.Row, respond provider.Respond) {
	rows := prepare([]row.Row{question}, r.turnID, r.id)
	q := &request{run: r, id: uuid.NewString(), row: rows[0], respond: respond}
	ask := &exec.Ask{Request: r.b.in.ref(exec.RefPermission, q.id), Row: q.row}
	q.occurrence = ask.Occurrence()
	if q.occurrence == "" {
		r.b.in.rt.log.Error("a request to the user has no occurrence", "agent", r.b.in.id, "kind", q.row.Kind())
		return
	}
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	before := r.requests[q.occurrence]
	r.requests[q.occurrence] = q
	if before != nil {
		before.retire()
	}
	q.offer()
	r.mu.Unlock()
	r.put(&entry{event: exec.Event{Ask: ask}})
}

// Withdraw implements [provider.Run].
func (r *run) Withdraw(occurrence string) {
	r.mu.Lock()
	q := r.requests[occurrence]
	delete(r.requests, occurrence)
	r.mu.Unlock()
	if q != nil && q.retire() {
		r.put(&entry{event: exec.Event{Withdrawn: occurrence}})
	}
}
