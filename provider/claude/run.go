package claude

import (
	"context"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// run is one run: what a launch or a beginning of the agent's own made, until
// everything submitted to it has ended. It implements [provider.Active].
type run struct {
	conv *conversation
	proc *process
	out  provider.Run
	// own marks a run that the agent began by itself.
	own bool
	// compacts marks a run that is a compaction.
	compacts bool
	// ended is closed after Finish.
	ended chan struct{}

	// Guarded by conv.mu.
	subs     []*submission
	aborting bool // the user asked to stop
	stopping bool // a refusal asked to stop
	over     bool // takes no more steers
	// abandoned says that the launch failed: nothing more is said about it.
	abandoned bool

	// For the reader alone.
	turnOpen bool // the agent works on a turn
	last     *resultLine
	failure  *exec.Error
}

// submission is one message of ours.
type submission struct {
	uuid  string
	state submissionState
	// taken is closed when the CLI acknowledged the message.
	taken chan struct{}
	// refused says that it ended without having been worked on.
	refused bool
}

type submissionState int

const (
	subSent     submissionState = iota // written, or about to be
	subAccepted                        // acknowledged
	subConsumed                        // in the conversation
	subEnded
)

func newRun(c *conversation, p *process) *run {
	return &run{conv: c, proc: p, ended: make(chan struct{})}
}

// advanceLocked moves s to a later state. The caller holds conv.mu.
func (s *submission) advanceLocked(to submissionState) {
	if to <= s.state {
		return
	}
	if s.state == subSent {
		close(s.taken)
	}
	s.state = to
}

// submit registers a message before it is written, so that the run cannot end
// without it. It fails when the run takes no more, and for an id that it has:
// the CLI would swallow the message, and nothing would end it.
func (r *run) submit(id string) (*submission, error) {
	s := &submission{uuid: id, taken: make(chan struct{})}
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	if r.over || r.aborting {
		return nil, exec.Errorf(exec.CodeNotSteerable, "the run is over")
	}
	for _, other := range r.subs {
		if other.uuid == id {
			return nil, exec.Errorf(exec.CodeInvalid, "the message %s was sent before", id)
		}
	}
	r.subs = append(r.subs, s)
	return s, nil
}

// submitFirst writes the message of a launch and waits until the CLI has taken
// it. An error says nothing about whether it has.
func (r *run) submitFirst(ctx context.Context, line userMessage) (*submission, error) {
	sub, err := r.submit(line.UUID)
	if err != nil {
		return nil, err
	}
	if err := r.proc.send(ctx, line); err != nil {
		return sub, err
	}
	wait := r.conv.adapter.waits.taken
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-sub.taken:
		return sub, nil
	case <-r.proc.gone:
		return sub, r.proc.failure().WithDispatched(exec.MaybeDispatched)
	case <-ctx.Done():
		return sub, exec.Errorf(exec.CodeCancelled, "the launch was given up: %w", ctx.Err()).WithDispatched(exec.MaybeDispatched)
	case <-timer.C:
		return sub, exec.Errorf(exec.CodeAgentTimeout, "Claude Code did not take the message within %s", wait).
			WithDispatched(exec.MaybeDispatched).WithDetail(r.proc.proc.StderrTail())
	}
}

// retract takes a message back that was not written.
func (r *run) retract(s *submission) {
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	s.advanceLocked(subEnded)
}

// accepted notes that the CLI has acknowledged a message; without an id, the
// first one.
func (r *run) accepted(id string) {
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	for i, s := range r.subs {
		if s.uuid == id || id == "" && i == 0 {
			s.advanceLocked(subAccepted)
			return
		}
	}
}

// consumed notes that a message is in the conversation.
func (r *run) consumed(id string) {
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	for _, s := range r.subs {
		if s.uuid == id {
			s.advanceLocked(subConsumed)
		}
	}
}

// lifecycle notes what a newer CLI says about a message.
func (r *run) lifecycle(id, state string) {
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	for _, s := range r.subs {
		if s.uuid != id {
			continue
		}
		switch state {
		case "queued":
			s.advanceLocked(subAccepted)
		case "started":
			s.advanceLocked(subConsumed)
		case "completed", "cancelled":
			s.advanceLocked(subEnded)
		case "discarded", "refused":
			s.refused = true
			s.advanceLocked(subEnded)
		}
	}
}

// turnBegan notes work on a turn. An older CLI starts a queued message in spite
// of an interrupt, so a turn after the stopped one is stopped too.
func (r *run) turnBegan() {
	if r.turnOpen {
		return
	}
	r.turnOpen = true
	if r.last == nil {
		return
	}
	r.conv.mu.Lock()
	again := r.aborting
	r.conv.mu.Unlock()
	if again {
		r.proc.postRequest(newInterrupt())
	}
}

// turnEnded takes the result of a turn in.
func (r *run) turnEnded(res *resultLine, failure *exec.Error) {
	r.turnOpen = false
	r.last, r.failure = res, failure
	if r.proc.lifecycle.Load() || res.Origin != nil {
		return
	}
	// An older CLI: the turn was about the messages that were taken in, and
	// when none was (a slash command is not replayed), about the oldest.
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	var oldest *submission
	ended := false
	for _, s := range r.subs {
		switch {
		case s.state == subConsumed:
			s.advanceLocked(subEnded)
			ended = true
		case s.state < subConsumed && oldest == nil:
			oldest = s
		}
	}
	if !ended && oldest != nil {
		oldest.advanceLocked(subEnded)
	}
}

// settle ends the run when nothing is left of it. It is called by the reader
// after every line.
func (r *run) settle() {
	if r.turnOpen {
		return
	}
	// A newer CLI is not idle while subagents work in the background, and
	// these may ask something.
	if r.proc.state != stateIdle && (len(r.proc.scribe.kids.jobs) == 0 || r.proc.openAsks() > 0) {
		return
	}
	r.conv.mu.Lock()
	done := r.own || len(r.subs) > 0
	for _, s := range r.subs {
		done = done && s.state == subEnded
	}
	done = done && !r.abandoned
	if done {
		r.over = true
	}
	r.conv.mu.Unlock()
	if done {
		r.finish(r.outcome())
	}
}

// outcome says how the run ended.
func (r *run) outcome() exec.Terminal {
	r.conv.mu.Lock()
	stopped, refused := r.aborting || r.stopping, false
	for _, s := range r.subs {
		refused = refused || s.refused
	}
	r.conv.mu.Unlock()
	t := exec.Terminal{Phase: row.RunCompleted, Usage: r.proc.scribe.usage()}
	switch {
	case r.last == nil && stopped:
		t.Phase = row.RunInterrupted
	case r.last == nil && r.own:
		// It only asked something.
	case r.last == nil:
		t.Phase = row.RunFailed
		t.Error = exec.Errorf(exec.CodeAgentProtocol, "Claude Code did not work on the message").WithDispatched(exec.WasDispatched)
		if refused {
			t.Error.Message = "Claude Code refused the message"
		}
	case r.last.aborted(), stopped && (r.last.IsError || r.failure != nil):
		t.Phase = row.RunInterrupted
	case r.failure != nil:
		t.Phase, t.Error = row.RunFailed, r.failure
	}
	return t
}

// processEnded ends the run because its process did. A run that no launch has
// reported yet is left to the launch.
func (r *run) processEnded(e *exec.Error) {
	r.conv.mu.Lock()
	launching := r.abandoned || !r.own && (len(r.subs) == 0 || r.subs[0].state == subSent)
	done := len(r.subs) > 0
	for _, s := range r.subs {
		done = done && s.state == subEnded
	}
	stopped := r.aborting || r.stopping
	r.over = true
	r.conv.mu.Unlock()
	switch {
	case launching:
	case done && r.last != nil:
		r.finish(r.outcome())
	case stopped:
		r.finish(exec.Terminal{Phase: row.RunInterrupted, Usage: r.proc.scribe.usage()})
	default:
		r.finish(exec.Terminal{Phase: row.RunFailed, Error: e, Usage: r.proc.scribe.usage()})
	}
}

// finish writes what is left of the run and ends it.
func (r *run) finish(t exec.Terminal) {
	r.proc.scribe.endRun(t.Phase)
	r.proc.current = nil
	// Free before the terminal is out: whoever sees it may launch at once.
	r.conv.release(r)
	r.out.Finish(t)
	close(r.ended)
}

// abandon gives a launch up, unless the CLI has taken the message meanwhile.
func (r *run) abandon(s *submission) bool {
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	if s != nil && s.state != subSent {
		return false
	}
	r.over, r.abandoned = true, true
	return true
}

// expectStop notes that an answer asked the agent to stop.
func (r *run) expectStop() {
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	r.stopping = true
}

// Abort implements [provider.Active]: it asks for an interrupt, and sees to it
// that the run ends even when the CLI does not obey.
func (r *run) Abort(ctx context.Context) error {
	r.conv.mu.Lock()
	if r.over || r.aborting {
		r.conv.mu.Unlock()
		return nil
	}
	r.aborting = true
	var queued []string
	for _, s := range r.subs[min(1, len(r.subs)):] {
		if s.state < subConsumed {
			queued = append(queued, s.uuid)
		}
	}
	r.conv.mu.Unlock()
	// A newer CLI drops what is queued with the interrupt, an older one only
	// when told of each.
	for _, id := range queued {
		r.proc.takeBack(id)
	}
	receipt := r.proc.postRequest(newInterrupt())
	r.conv.mu.Lock()
	defer r.conv.mu.Unlock()
	// A conversation that is closing ends the process in any case.
	r.conv.goLocked(func() { r.enforceStop(receipt) })
	return nil
}

// enforceStop ends the process when an interrupt has no effect.
func (r *run) enforceStop(receipt <-chan controlReply) {
	timer := time.NewTimer(r.conv.adapter.waits.receipt)
	defer timer.Stop()
	select {
	case <-receipt:
		timer.Reset(r.conv.adapter.waits.settle)
		select {
		case <-r.ended:
			return
		case <-timer.C:
		}
	case <-r.ended:
		return
	case <-timer.C:
	}
	r.conv.log.Warn("claude does not stop; ending it")
	r.proc.kill(r.conv.ctx)
}

// Steer implements [provider.Active]. The text is injected before the next
// request to the model, or becomes a turn of its own within the run.
func (r *run) Steer(ctx context.Context, s exec.Steer) error {
	line, err := userLine(s.Prompt, steerUUID(s.ID), priorityNext)
	if err != nil {
		return err
	}
	sub, err := r.submit(line.UUID)
	if err != nil {
		return err
	}
	if err := r.proc.send(ctx, line); err != nil {
		if exec.AsError(err).Dispatched == exec.NotDispatched {
			r.retract(sub)
		}
		return err
	}
	if !r.proc.lifecycle.Load() {
		// An older CLI says nothing until it takes the message in, which may
		// be after a long tool: that it was written is all there is to know.
		return nil
	}
	select {
	case <-sub.taken:
		return nil
	case <-r.proc.gone:
		return r.proc.failure().WithDispatched(exec.MaybeDispatched)
	case <-ctx.Done():
		return exec.Errorf(exec.CodeOutcomeUnknown, "Claude Code did not acknowledge the message").WithDispatched(exec.MaybeDispatched)
	}
}

// steerUUID turns the id of a steer into the UUID that the CLI wants.
func steerUUID(id string) string {
	if u, err := uuid.Parse(id); err == nil {
		return u.String()
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("garcon steer "+id)).String()
}
