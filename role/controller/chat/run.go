package chat

import (
	"context"
	"errors"
	"slices"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

// run is one execution attempt. The fields above the blank line are constant;
// the others are guarded by the owner's mu.
type run struct {
	id, turn string
	message  message
	// fromQueue says that the turn waited in the queue before.
	fromQueue   bool
	compact     bool
	unsolicited bool
	started     time.Time
	// ctx ends when the launch is given up.
	ctx    context.Context
	cancel context.CancelFunc
	// admitted is closed when the run's first rows are committed, or will not
	// be.
	admitted chan struct{}
	// native is closed when the agent has nothing more to say for the run.
	native chan struct{}

	phase  api.Phase
	handle exec.Ref
	// integration is set with the handle.
	integration *exec.Integration
	// launched is closed once handle is set.
	launched chan struct{}
	// bind is the binding the launch is made on.
	bind *binding
	// finished says that the terminal has been recorded or is being recorded.
	finished bool
	// lastText is the newest assistant text of the chat's own transcript.
	lastText string
	closed   bool // native is closed
}

// message is what a turn was given.
type message struct {
	requestID   string
	fingerprint string
	text        string
	attachments []row.Attachment
	origin      row.Origin
	// turn is set for a message that already has a turn id.
	turn string
	// committed says that the user row is in the ledger already.
	committed bool
}

func (o *owner) newRun(m message, phase api.Phase) *run {
	ctx, cancel := context.WithCancel(o.s.ctx)
	return &run{
		id: newID(), turn: firstOf(m.turn, newID()), message: m, fromQueue: m.turn != "", started: time.Now(),
		ctx: ctx, cancel: cancel, phase: phase,
		admitted: make(chan struct{}), native: make(chan struct{}), launched: make(chan struct{}),
	}
}

func (o *owner) setPhase(r *run, p api.Phase) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.active == r && !r.finished {
		r.phase = p
		o.bumpLocked()
	}
}

// begin admits a message as a new turn: it commits the authored text and the
// start of the run, and launches. The caller holds the admission token and has
// seen that the chat is idle.
func (o *owner) begin(ctx context.Context, m message) (api.Accepted, error) {
	chat, err := o.record()
	if err != nil {
		return api.Accepted{}, err
	}
	integration, err := o.resolve(ctx, chat)
	if err != nil {
		return api.Accepted{}, err
	}
	if err := checkAttachments(integration.Manifest, m.attachments); err != nil {
		return api.Accepted{}, err
	}
	return o.admitRun(ctx, chat, o.newRun(m, api.PhaseAccepted))
}

// admitRun reserves the chat for the run, commits its first rows and starts
// its driver.
func (o *owner) admitRun(ctx context.Context, chat registry.Chat, r *run) (api.Accepted, error) {
	o.mu.Lock()
	if o.active != nil {
		// Between the caller's look and now only a run of the agent's own can
		// have come.
		o.mu.Unlock()
		r.cancel()
		return api.Accepted{}, errBusy()
	}
	o.active = r
	o.runs[r.id] = r
	o.bumpLocked()
	o.mu.Unlock()
	o.s.receipts.start(o.id, r.turn, r.started.UnixMilli())

	committed, err := o.commitStart(ctx, chat, r)
	close(r.admitted)
	if err != nil || committed.Replayed {
		o.unreserve(r)
	}
	if err != nil {
		return api.Accepted{}, storageError(err)
	}
	if committed.Replayed {
		return o.replayed(ctx, committed.First)
	}
	accepted := api.Accepted{ChatID: o.id, TurnID: r.turn, Disposition: api.Started}
	o.mu.Lock()
	o.rememberLocked(r.message.requestID, acceptance{r.message.fingerprint, accepted, nil})
	o.mu.Unlock()
	if !o.s.start(func() { o.drive(r) }) {
		o.finish(r, exec.Terminal{Phase: row.RunInterrupted, Error: stoppedByShutdown()})
		o.nativeEnd(r)
	}
	return accepted, nil
}

// commitStart writes the user row and the start of the run in one commit.
func (o *owner) commitStart(ctx context.Context, chat registry.Chat, r *run) (ledger.Committed, error) {
	l, err := o.s.ledgers.OpenOrCreate(ctx, o.id, ledger.CreateMeta{View: chat.View})
	if err != nil {
		return ledger.Committed{}, err
	}
	defer l.Release()
	if err := o.payOwed(ctx, l); err != nil {
		return ledger.Committed{}, err
	}
	var rows []row.Row
	if !r.compact && !r.message.committed {
		rows = append(rows, row.New(r.turn, r.id, &row.User{
			Text: r.message.text, Attachments: r.message.attachments,
			ClientID: r.message.requestID, Origin: r.message.origin,
		}))
	}
	rows = append(rows, row.New(r.turn, r.id, &row.Run{
		Phase: row.RunStarted, Agent: chat.Agent, Model: chat.Model, Mode: chat.Mode,
	}))
	batch := ledger.Batch{Rows: rows, Urgent: true}
	if !r.message.committed {
		batch.ClientID, batch.Fingerprint = r.message.requestID, r.message.fingerprint
	}
	return l.Append(ctx, batch)
}

// payOwed writes the terminal rows that could not be written when they came. It
// is a commit of its own: the client id of the message that follows must lead to
// that message's row. The caller holds the admission token.
func (o *owner) payOwed(ctx context.Context, l *ledger.Ledger) error {
	o.mu.Lock()
	owed := slices.Clone(o.owed)
	o.mu.Unlock()
	if len(owed) == 0 {
		return nil
	}
	if _, err := l.Append(ctx, ledger.Batch{Rows: owed, Urgent: true}); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	// More may have come meanwhile.
	o.owed = o.owed[len(owed):]
	return nil
}

// unreserve takes back the reservation of a run that was not admitted.
func (o *owner) unreserve(r *run) {
	r.cancel()
	if r.fromQueue {
		o.s.receipts.queued(o.id, r.turn)
	} else {
		o.s.receipts.drop(r.turn)
	}
	o.mu.Lock()
	r.finished = true
	if o.active == r {
		o.active = nil
	}
	o.bumpLocked()
	o.mu.Unlock()
	o.nativeEnd(r)
}

func errBusy() error {
	return api.NewError(api.CodeChatBusy, "the chat has a turn going",
		"Wait for it, stop it, or send with --queue or --steer.")
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeChatBusy
}
