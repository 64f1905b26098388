package claude

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/provider"
)

// conversation serves one chat. It implements [provider.Conversation].
type conversation struct {
	adapter *adapter
	binding provider.Binding
	log     *slog.Logger

	// ctx ends when the conversation closes; wg waits for every goroutine.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards the members below and those of the runs. It is never held
	// while publishing or waiting, nor together with process.mu.
	mu     sync.Mutex
	closed bool
	// launching says that a launch is under way, run is what it placed.
	launching bool
	proc      *process
	run       *run
	idle      *time.Timer
	// born are the sessions that this conversation had made, by id.
	born map[string]spec
}

func newConversation(a *adapter, b provider.Binding) *conversation {
	c := &conversation{adapter: a, binding: b, log: a.host.Log.With("chat", b.Spec().ChatID), born: map[string]spec{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// goLocked starts a goroutine that Close waits for, unless the conversation is
// closed. The caller holds mu.
func (c *conversation) goLocked(f func()) bool {
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// Launch implements [provider.Conversation].
func (c *conversation) Launch(ctx context.Context, l exec.Launch, out provider.Run) (provider.Active, error) {
	line, err := userLine(l.Prompt, uuid.NewString(), "")
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, l, out, line)
}

// Compact implements [provider.Conversation].
func (c *conversation) Compact(ctx context.Context, l exec.Launch, out provider.Run) (provider.Active, error) {
	text := compactCommand
	if l.Prompt.Text != "" {
		text += " " + l.Prompt.Text
	}
	line, err := userLine(exec.Prompt{Text: text}, uuid.NewString(), "")
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, l, out, line)
}

// begin launches a run: it sees to a process that fits, writes the message and
// waits until the CLI has taken it.
func (c *conversation) begin(ctx context.Context, l exec.Launch, out provider.Run, line userMessage) (provider.Active, error) {
	sp, err := c.adapter.plan(l)
	if err != nil {
		return nil, err
	}
	if err := c.reserve(); err != nil {
		return nil, err
	}
	defer c.unreserve()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()

	r, reused, err := c.ready(ctx, sp, out, line)
	if err != nil {
		return nil, err
	}
	sub, err := r.submitFirst(ctx, line)
	if err == nil || !r.abandon(sub) {
		return r, nil
	}
	// Nobody knows what state the process is in, and whoever gave up must not
	// have to wait until that is known.
	c.release(r)
	c.discard(r.proc)
	if !reused || exec.AsError(err).Dispatched != exec.NotDispatched || ctx.Err() != nil {
		return nil, err
	}
	// It had died since the run before. The message did not reach it.
	c.log.Info("claude had ended; starting it again", "err", err)
	r.proc.shutdown(ctx)
	if r, err = c.fresh(ctx, sp, out, line); err != nil {
		return nil, err
	}
	if sub, err = r.submitFirst(ctx, line); err != nil && r.abandon(sub) {
		c.release(r)
		c.discard(r.proc)
		return nil, err
	}
	return r, nil
}

// reborn makes a session again that this conversation has made and that never
// came to be on disk, because its process was killed first. It is for when that
// process is gone. Any other session that is missing is an error: it is not the
// same as an empty one.
func (c *conversation) reborn(sp *spec) {
	id := sp.native.session
	c.mu.Lock()
	made, ok := c.born[id]
	c.mu.Unlock()
	if ok && !c.adapter.transcripts().has(id) {
		sp.native, sp.session = made.native, id
	}
}

// reserve keeps others from beginning a run. Without an error, unreserve has to
// be called.
func (c *conversation) reserve() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return exec.Errorf(exec.CodeStaleResource, "the conversation is closed")
	}
	if c.run != nil || c.launching {
		return exec.Errorf(exec.CodeSessionBusy, "Claude Code is busy in this conversation").
			WithHint("Wait for the run to end, or stop it.")
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	c.launching = true
	c.wg.Add(1)
	return nil
}

func (c *conversation) unreserve() {
	c.mu.Lock()
	c.launching = false
	c.armIdleLocked()
	c.mu.Unlock()
	c.wg.Done()
}

// place puts a run of the process in place: its lines go to the run from now on.
func (c *conversation) place(p *process, out provider.Run, line userMessage) *run {
	r := newRun(c, p)
	r.out, r.compacts = out, line.compacts()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = r
	return r
}

// ready places a run in a process that is set as sp wants: the one that runs,
// or a new one when it does not fit.
func (c *conversation) ready(ctx context.Context, sp spec, out provider.Run, line userMessage) (r *run, reused bool, err error) {
	c.mu.Lock()
	p := c.proc
	c.mu.Unlock()
	if p != nil && p.fits(sp) {
		r := c.place(p, out, line)
		err := p.apply(ctx, sp)
		if err == nil {
			return r, true, nil
		}
		r.abandon(nil)
		c.release(r)
		if ctx.Err() != nil {
			c.discard(p)
			return nil, false, err
		}
		c.log.Warn("claude does not take its settings; starting it again", "err", err)
	}
	if p != nil {
		p.shutdown(ctx)
	}
	r, err = c.fresh(ctx, sp, out, line)
	return r, false, err
}

// fresh places a run in a new process.
func (c *conversation) fresh(ctx context.Context, sp spec, out provider.Run, line userMessage) (*run, error) {
	p, err := c.start(ctx, sp)
	if err != nil {
		return nil, err
	}
	return c.place(p, out, line), nil
}

// fits reports whether the process can be used for sp after changes of
// settings.
func (p *process) fits(sp spec) bool {
	select {
	case <-p.gone:
		return false
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.spec
	same := sp.native.session != "" && sp.native.fork == nil && sp.native.session == p.session
	if sp.native.fork != nil && p.session == "" {
		// The fork is made with the first message, so an earlier launch that
		// failed has not used it up.
		same = now.native.fork != nil && *now.native.fork == *sp.native.fork
	}
	switch {
	case p.stopped, !same, now.dir != sp.dir:
		return false
	case sp.mode == modeBypass && now.mode != modeBypass:
		// Only a process that was started in that mode changes to it.
		return false
	}
	return true
}

// start starts a process and waits until it answers.
func (c *conversation) start(ctx context.Context, sp spec) (*process, error) {
	c.reborn(&sp)
	release, err := c.adapter.startSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	proc, err := c.adapter.spawn(ctx, sp.dir, sp.args())
	if err != nil {
		return nil, err
	}
	p := newProcess(c, proc, sp)
	c.mu.Lock()
	c.proc = p
	if id := sp.made(); id != "" {
		c.born[id] = sp
	}
	c.mu.Unlock()
	// The launch that starts it holds the conversation open.
	c.wg.Go(p.read)
	c.wg.Go(p.writeLoop)
	answer, err := p.call(ctx, c.adapter.waits.start, initializeRequest{Subtype: "initialize", ForwardSubagentText: true})
	if err == nil {
		c.adapter.catalog.learn(sp.dir, answer)
		return p, nil
	}
	if exec.CodeOf(err) == exec.CodeAgentCrashed {
		// It does not read any more; how it ended says why.
		timer := time.NewTimer(c.adapter.waits.exit)
		defer timer.Stop()
		select {
		case <-p.gone:
		case <-timer.C:
		}
	}
	select {
	case <-p.gone:
		return nil, startFailure(p.failure(), proc.StderrTail())
	default:
		// Nothing was asked of it yet.
		c.discard(p)
		return nil, exec.AsError(err).WithDispatched(exec.NotDispatched)
	}
}

// initializeRequest is the first request to a process.
type initializeRequest struct {
	Subtype             string `json:"subtype"`
	ForwardSubagentText bool   `json:"forwardSubagentText,omitempty"`
}

// adopt puts a run in place that the agent began.
func (c *conversation) adopt(r *run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.launching || c.run != nil {
		return false
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	c.run = r
	return true
}

// runOf returns the run that lines of p belong to, and whether its launch was
// given up.
func (c *conversation) runOf(p *process) (r *run, abandoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.current != nil && p.current.abandoned {
		return p.current, true
	}
	if c.run == nil || c.run.proc != p || c.run.abandoned {
		return nil, false
	}
	return c.run, false
}

// release makes room for the next run.
func (c *conversation) release(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == r {
		c.run = nil
	}
	c.armIdleLocked()
}

// armIdleLocked starts the time after which an unused process is ended.
func (c *conversation) armIdleLocked() {
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.closed || c.proc == nil || c.run != nil || c.launching {
		return
	}
	p := c.proc
	c.idle = time.AfterFunc(c.adapter.waits.idle, func() { c.retire(p) })
}

// retire ends a process that was not used for a while. One that works in the
// background stays.
func (c *conversation) retire(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc != p || c.run != nil || c.launching || c.closed {
		return
	}
	if p.busy.Load() {
		c.armIdleLocked()
		return
	}
	c.log.Debug("ending an idle claude")
	c.goLocked(func() { p.shutdown(c.ctx) })
}

// discard ends a process whose state is not known, without waiting for it
// unless the conversation is closing.
func (c *conversation) discard(p *process) {
	p.markStopped()
	c.mu.Lock()
	later := c.goLocked(func() { p.kill(c.ctx) })
	c.mu.Unlock()
	if !later {
		p.kill(c.ctx)
	}
}

// processGone forgets a process that has ended. It is called by its reader.
func (c *conversation) processGone(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == p {
		c.proc = nil
	}
}

// publishSession publishes a fact with the run it came up in, if any.
func (c *conversation) publishSession(r *run, s exec.Session) {
	if r != nil {
		r.out.Session(s)
		return
	}
	c.binding.Session(s)
}

// Close implements [provider.Conversation].
func (c *conversation) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	p, r := c.proc, c.run
	if c.idle != nil {
		c.idle.Stop()
	}
	c.mu.Unlock()
	// Launches under way give up.
	c.cancel()
	if p != nil && r != nil {
		// A turn would run to its end before the closed input is noticed.
		p.post(controlRequest{Type: "control_request", RequestID: uuid.NewString(), Request: newInterrupt()})
		timer := time.NewTimer(c.adapter.waits.exit)
		defer timer.Stop()
		select {
		case <-r.ended:
		case <-p.gone:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if p != nil {
		p.shutdown(ctx)
	}
	c.wg.Wait()
	return nil
}
