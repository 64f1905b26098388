package chat

import (
	"context"
	"errors"
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

// binding is the open lease of a chat on one integration.
type binding struct {
	owner       *owner
	integration *exec.Integration
	executorID  string
	agent       string
	epoch       int64
	ref         exec.Ref
	ledger      *ledger.Ledger
	// used is when the binding last had a run; guarded by the owner's mu.
	used time.Time
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
	owed := o.owed
	o.bumpLocked()
	o.mu.Unlock()
	o.s.receipts.start(o.id, r.turn, r.started.UnixMilli())

	committed, err := o.commitStart(ctx, chat, r, owed)
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
	o.owed = nil
	o.rememberLocked(r.message.requestID, acceptance{r.message.fingerprint, accepted, nil})
	o.mu.Unlock()
	if !o.s.start(func() { o.drive(r) }) {
		o.finish(r, exec.Terminal{Phase: row.RunInterrupted, Error: stoppedByShutdown()})
		o.nativeEnd(r)
	}
	return accepted, nil
}

// commitStart writes the user row and the start of the run in one commit.
func (o *owner) commitStart(ctx context.Context, chat registry.Chat, r *run, owed []row.Row) (ledger.Committed, error) {
	l, err := o.s.ledgers.OpenOrCreate(ctx, o.id, ledger.CreateMeta{View: chat.View})
	if err != nil {
		return ledger.Committed{}, err
	}
	defer l.Release()
	rows := append([]row.Row(nil), owed...)
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

// drive brings an admitted run to its agent. It returns when the agent has
// taken the run or it has failed; what follows comes through the binding.
func (o *owner) drive(r *run) {
	err := o.launch(r)
	if err == nil {
		return
	}
	o.mu.Lock()
	launched := !r.handle.IsZero()
	o.mu.Unlock()
	if launched {
		// The binding has said that the run goes on; its terminal comes there.
		return
	}
	o.finish(r, exec.Terminal{Phase: row.RunFailed, Error: exec.AsError(err)})
	o.nativeEnd(r)
}

// launch prepares the prompt and makes the launch call.
func (o *owner) launch(r *run) error {
	o.setPhase(r, api.PhasePreparing)
	chat, err := o.record()
	if err != nil {
		return err
	}
	integration, err := o.resolve(r.ctx, chat)
	if err != nil {
		return err
	}
	l, err := o.prepare(r, chat, integration)
	if err != nil {
		return err
	}
	for {
		b, err := o.bound(r.ctx, chat, integration)
		if err != nil {
			return err
		}
		if err := o.settled(r, b); err != nil {
			return err
		}
		o.mu.Lock()
		stale := o.bind != b
		r.bind, r.integration = b, integration
		b.used = time.Now()
		o.mu.Unlock()
		if stale {
			continue
		}
		l.Binding = b.ref
		ref, err := dispatch(r, integration, l)
		if isSessionBusy(err) && o.awaitBeside(r) {
			continue
		}
		if err != nil {
			return err
		}
		o.launchedAs(r, ref)
		return nil
	}
}

// dispatch makes the one call that may have an effect.
func dispatch(r *run, integration *exec.Integration, l exec.Launch) (exec.Ref, error) {
	switch {
	case r.compact:
		return integration.Compaction.Compact(r.ctx, l)
	case l.NativeSession != "":
		return integration.Execution.Resume(r.ctx, l)
	}
	return integration.Execution.Start(r.ctx, l)
}

// settled waits until the agent is done with every other run of the binding:
// those that were stopped and those it began by itself. One that does not come
// to an end is ended with its process.
func (o *owner) settled(r *run, b *binding) error {
	grace := time.NewTimer(abortTimeout)
	defer grace.Stop()
	for {
		other := o.besideOf(r)
		if other == nil {
			return nil
		}
		expired := grace.C
		if other.unsolicited && !o.isFinished(other) {
			expired = nil // it is working, not hanging
		}
		select {
		case <-other.native:
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-expired:
			o.s.log.Warn("agent did not end a stopped run; ending its process", "chat", o.id, "run", other.id)
			o.closeBinding(o.s.ctx, b)
			return nil
		}
	}
}

// besideOf returns a run other than r whose native end has not been seen.
func (o *owner) besideOf(r *run) *run {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, other := range o.runs {
		if other != r {
			return other
		}
	}
	return nil
}

// isSessionBusy reports a launch that was refused, without effect, because the
// agent has begun a run by itself.
func isSessionBusy(err error) bool {
	e, ok := errors.AsType[*exec.Error](err)
	return ok && e.Code == exec.CodeSessionBusy && e.Dispatched == exec.NotDispatched
}

// besideGrace is how long the news of a run that the agent began by itself may
// be behind the refusal it caused.
const besideGrace = 2 * time.Second

// awaitBeside waits until the run that makes the session busy is known, and
// reports whether there is one.
func (o *owner) awaitBeside(r *run) bool {
	grace := time.NewTimer(besideGrace)
	defer grace.Stop()
	for {
		o.mu.Lock()
		changed := o.changed
		o.mu.Unlock()
		if o.besideOf(r) != nil {
			return true
		}
		select {
		case <-changed:
		case <-grace.C:
			return false
		case <-r.ctx.Done():
			return false
		}
	}
}

func (o *owner) isFinished(r *run) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return r.finished
}

// launchedAs records that the agent has taken the run. The reply and the
// binding both say so; the first to come counts.
func (o *owner) launchedAs(r *run, ref exec.Ref) {
	o.mu.Lock()
	first := r.handle.IsZero()
	if first {
		r.handle = ref
		close(r.launched)
	}
	late := r.finished
	if o.active == r && !late {
		r.phase = api.PhaseRunning
		o.bumpLocked()
	}
	o.mu.Unlock()
	if first && late {
		// Stop came while the launch was on its way.
		o.abort(r)
	}
}

// resolve finds the integration of a chat and checks its project directory.
func (o *owner) resolve(ctx context.Context, chat registry.Chat) (*exec.Integration, error) {
	rt, err := o.s.runtimes.Runtime(chat.ExecutorID)
	if err != nil {
		return nil, err
	}
	if a := rt.Availability(); a != exec.Ready {
		return nil, exec.Errorf(exec.CodeUnavailable, "executor %s is %s", chat.ExecutorID, a).
			WithHint("Nothing was sent. Try again when it is back.")
	}
	integration, err := rt.Integration(ctx, chat.Agent)
	if err != nil {
		return nil, err
	}
	if _, err := inspect(ctx, rt, chat.ProjectPath); err != nil {
		return nil, err
	}
	return integration, nil
}

// inspect checks that path is a directory agents may work in and returns its
// real path.
func inspect(ctx context.Context, rt exec.Runtime, path string) (string, error) {
	info, err := rt.Project().Inspect(ctx, path)
	switch {
	case err != nil:
		return "", err
	case !info.InsideBase:
		return "", exec.Errorf(exec.CodeProjectPath, "%s is outside the project base %s", path, info.Base).
			WithHint("Choose a directory below it, or start with another --project-base-dir.")
	case !info.Exists:
		return "", exec.Errorf(exec.CodeProjectPath, "%s does not exist on executor %s", path, rt.ID()).
			WithHint("Make the directory, or choose another.")
	case !info.IsDir:
		return "", exec.Errorf(exec.CodeProjectPath, "%s is not a directory", path)
	}
	return info.Path, nil
}

// bound returns the chat's open binding for the integration, opening one if
// there is none or the owner has changed.
func (o *owner) bound(ctx context.Context, chat registry.Chat, integration *exec.Integration) (*binding, error) {
	o.mu.Lock()
	b := o.bind
	o.mu.Unlock()
	if b != nil {
		if b.integration == integration && b.epoch == chat.OwnerEpoch {
			return b, nil
		}
		o.closeBinding(o.s.ctx, b)
	}
	l, err := o.s.ledgers.Open(ctx, o.id)
	if err != nil {
		return nil, storageError(err)
	}
	b = &binding{
		owner: o, integration: integration, executorID: chat.ExecutorID, agent: chat.Agent,
		epoch: chat.OwnerEpoch, ledger: l, used: time.Now(),
	}
	// The route is installed first: events may come before the call returns.
	o.mu.Lock()
	o.bind = b
	o.mu.Unlock()
	b.ref, err = integration.Execution.OpenBinding(ctx, exec.BindingSpec{
		ChatID: o.id, View: chat.View, OwnerEpoch: chat.OwnerEpoch, ProjectPath: chat.ProjectPath,
	}, b)
	if err != nil {
		o.mu.Lock()
		o.bind = nil
		o.mu.Unlock()
		l.Release()
		return nil, err
	}
	return b, nil
}

// closeBinding ends a binding and the processes behind it, politely until ctx
// ends. Runs that were still going on it end with it. It must not be called
// from the binding's own stream.
func (o *owner) closeBinding(ctx context.Context, b *binding) {
	o.mu.Lock()
	if o.bind != b {
		o.mu.Unlock()
		return
	}
	o.bind = nil
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, closeBindingTimeout)
	defer cancel()
	if err := b.integration.Execution.CloseBinding(ctx, b.ref); err != nil && exec.CodeOf(err) != exec.CodeStaleResource {
		o.s.log.Warn("binding not closed cleanly", "chat", o.id, "agent", b.agent, "err", err)
	}
	o.mu.Lock()
	var lost []*run
	for _, r := range o.runs {
		if r.bind == b {
			lost = append(lost, r)
		}
	}
	hadJobs := len(o.jobs) > 0
	o.jobs = nil
	if hadJobs {
		o.bumpLocked()
	}
	o.mu.Unlock()
	for _, r := range lost {
		o.finish(r, exec.Terminal{Phase: row.RunInterrupted, Error: exec.Errorf(exec.CodeStaleResource,
			"the agent's process was ended").WithDispatched(exec.WasDispatched)})
		o.nativeEnd(r)
	}
	b.ledger.Release()
}

// closeIdle closes the binding if it has not been used since t.
func (o *owner) closeIdle(t time.Time) {
	select {
	case <-o.admission:
		defer func() { o.admission <- struct{}{} }()
	default:
		return // somebody is using the chat
	}
	o.mu.Lock()
	b := o.bind
	idle := b != nil && o.active == nil && len(o.runs) == 0 && len(o.jobs) == 0 && b.used.Before(t)
	o.mu.Unlock()
	if idle {
		o.s.log.Debug("ending idle agent", "chat", o.id, "agent", b.agent)
		o.closeBinding(o.s.ctx, b)
	}
}

// unbind closes the binding for good, at shutdown or deletion.
func (o *owner) unbind(ctx context.Context) {
	o.mu.Lock()
	b := o.bind
	o.mu.Unlock()
	if b != nil {
		o.closeBinding(ctx, b)
	}
}

func errBusy() error {
	return api.NewError(api.CodeChatBusy, "the chat has a turn going",
		"Wait for it, stop it, or send with --queue or --steer.")
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeChatBusy
}
