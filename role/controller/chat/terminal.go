package chat

import (
	"context"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

// terminalTimeout bounds the write of a terminal row: a disk that takes longer
// has failed.
const terminalTimeout = 30 * time.Second

// finish records the terminal of a run. Only the first call for a run counts;
// it reports whether this one did.
func (o *owner) finish(r *run, t exec.Terminal) bool {
	o.mu.Lock()
	if r.finished {
		o.mu.Unlock()
		return false
	}
	r.finished = true
	text := r.lastText
	o.mu.Unlock()

	body := &row.Run{Phase: t.Phase, Usage: t.Usage, DurationMs: time.Since(r.started).Milliseconds()}
	if e := t.Error; e != nil {
		body.Code, body.Detail, body.Hint = string(e.Code), e.Message, e.Hint
		if e.Detail != "" {
			body.Detail += "\n" + e.Detail
		}
	}
	if t.Error != nil && t.Error.Code == exec.CodeSessionMissing {
		o.forgetSession(body)
	}
	o.settleRequests(r)
	o.commitTerminal(r, row.New(r.turn, r.id, body))

	end := now()
	receipt := api.Receipt{Outcome: outcomeOf(t.Phase), Usage: t.Usage, EndedAt: end}
	if t.Phase == row.RunCompleted {
		receipt.FinalText = text
	}
	if t.Error != nil {
		receipt.Error = api.FromExec(t.Error)
	}
	o.update(func(c *registry.Chat) {
		c.LastActivity, c.Unread = end, true
		if text != "" {
			c.Preview = preview(text)
		}
	})
	o.mu.Lock()
	if o.active == r {
		o.active = nil
	}
	if t.Phase == row.RunFailed && len(o.queue.entries) > 0 && !o.queue.paused {
		// What failed once would most likely fail for every waiting message.
		o.queue.pause("the last turn failed")
	}
	o.bumpLocked()
	o.mu.Unlock()
	// The receipt is last: who waits for it finds everything else done.
	o.s.receipts.end(r.turn, receipt)
	switch t.Phase {
	case row.RunCompleted:
		o.announce(newsFinished, r.turn, text, body.DurationMs)
	case row.RunFailed:
		o.announce(newsFailed, r.turn, body.Detail, body.DurationMs)
	}
	r.cancel()
	if t.Phase == row.RunCompleted && !r.unsolicited {
		o.maybeTitle(r)
	}
	o.drain()
	return true
}

// forgetSession lets the next turn begin a new native session, because the
// agent no longer has the old one. It is not done for the turn that found out:
// what the user wrote may make no sense to an agent that remembers nothing.
func (o *owner) forgetSession(body *row.Run) {
	body.Hint = "Send a message to go on: the agent begins anew and does not remember what is above, so tell it what it needs."
	o.update(func(c *registry.Chat) { c.NativeSession = "" })
}

func outcomeOf(p row.Phase) api.TurnOutcome {
	switch p {
	case row.RunCompleted:
		return api.TurnCompleted
	case row.RunInterrupted:
		return api.TurnInterrupted
	}
	return api.TurnFailed
}

// settleRequests ends the requests of a run that nobody answered, before its
// terminal.
func (o *owner) settleRequests(r *run) {
	for _, resolution := range o.s.desk.EndRun(o.id, r.id) {
		if err := o.Resolved(resolution); err != nil {
			o.s.log.Error("ended request not recorded", "chat", o.id, "run", r.id, "err", err)
		}
	}
	o.Changed()
}

// commitTerminal writes a terminal row, or owes it until the store takes rows
// again.
func (o *owner) commitTerminal(r *run, terminal row.Row) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.s.ctx), terminalTimeout)
	defer cancel()
	l, err := o.ledger(ctx)
	if err == nil {
		defer l.Release()
		_, err = l.Append(ctx, ledger.Batch{Rows: []row.Row{terminal}, Urgent: true})
	}
	if err != nil {
		o.s.log.Error("terminal not stored; it will be written with the next turn", "chat", o.id, "run", r.id, "err", err)
		o.mu.Lock()
		o.owed = append(o.owed, terminal)
		o.mu.Unlock()
	}
}

// Stop interrupts the active turn. turn, when given, must be the active one.
func (s *Service) Stop(ctx context.Context, id, turn string) (api.Stopped, error) {
	o, err := s.owner(id)
	if err != nil {
		return api.Stopped{}, err
	}
	o.mu.Lock()
	r := o.active
	o.mu.Unlock()
	if r == nil {
		return api.Stopped{}, nil
	}
	// Stopping takes no admission token: it must not wait for a steer that waits
	// for the agent. Only the run's first rows come before its last.
	select {
	case <-r.admitted:
	case <-ctx.Done():
		return api.Stopped{}, context.Cause(ctx)
	}
	o.mu.Lock()
	if o.active != r {
		o.mu.Unlock()
		return api.Stopped{}, nil
	}
	if turn != "" && turn != r.turn {
		o.mu.Unlock()
		return api.Stopped{}, api.NewError(api.CodeConflict, "this turn is no longer the active one", "Look at the chat again.")
	}
	if len(o.queue.entries) > 0 && !o.queue.paused {
		o.queue.pause("you stopped the turn")
		o.bumpLocked()
	}
	paused := o.queue.paused && len(o.queue.entries) > 0
	o.mu.Unlock()
	stopped := o.stop(r, nil)
	return api.Stopped{Stopped: stopped, TurnID: r.turn, QueuePaused: paused}, nil
}

// stop records that a run was interrupted, at once, and asks its agent to
// abort. It reports whether the run was still going.
func (o *owner) stop(r *run, reason *exec.Error) bool {
	if !o.finish(r, exec.Terminal{Phase: row.RunInterrupted, Error: reason}) {
		return false
	}
	o.abort(r)
	return true
}

// abort asks the agent to end a run that is over for the controller, best
// effort.
func (o *owner) abort(r *run) {
	o.mu.Lock()
	handle, integration := r.handle, r.integration
	o.mu.Unlock()
	if handle.IsZero() {
		// The launch is given up through its context; if the agent takes it all
		// the same, launchedAs comes here again.
		r.cancel()
		return
	}
	o.s.start(func() {
		ctx, cancel := context.WithTimeout(o.s.ctx, abortTimeout)
		defer cancel()
		if err := integration.Execution.Abort(ctx, handle); err != nil && exec.CodeOf(err) != exec.CodeStaleResource {
			o.s.log.Warn("agent did not take the abort", "chat", o.id, "run", r.id, "err", err)
		}
	})
}

// shutdown interrupts the active turn because the controller ends, and returns
// its id.
func (o *owner) shutdown() (turn string, ended bool) {
	o.mu.Lock()
	r := o.active
	if len(o.queue.entries) > 0 {
		o.queue.pause("the controller is shutting down")
	}
	o.mu.Unlock()
	if r == nil {
		return "", false
	}
	// The process ends with the binding, which the caller closes next.
	return r.turn, o.finish(r, exec.Terminal{Phase: row.RunInterrupted, Error: stoppedByShutdown()})
}

func stoppedByShutdown() *exec.Error {
	return exec.Errorf("CONTROLLER_STOPPED", "the controller was shut down during the turn").
		WithHint("Send the next message to go on.").WithDispatched(exec.WasDispatched)
}
