package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// turn is one run. Its steps are done by one goroutine, serve; Abort and Steer
// come from others. It implements [provider.Active].
type turn struct {
	c       *conversation
	launch  exec.Launch
	run     provider.Run
	session *session
	// ctx ends when the turn is stopped or the conversation closes.
	ctx    context.Context
	cancel context.CancelFunc

	// The members below belong to serve.

	mode  string
	steps []step
	// ids counts the parts, calls and requests of the turn.
	ids int
	// child is the subagent that is speaking, "" for the agent itself.
	child string
	// pending is the last assistant row, held back until it is known whether
	// it is the turn's answer.
	pending *row.Row
	// said and thought count the bytes of output.
	said, thought int64
	// planRefused makes the rest of the turn change nothing.
	planRefused bool
	// steered is set when text was steered in that nothing waited for.
	steered bool

	mu     sync.Mutex
	steers []*steering
	// deaf is set when the turn takes in nothing more.
	deaf bool
	wake chan struct{} // has one element while there are steers
}

// steering is text on its way into the turn. taken is closed when it is there.
type steering struct {
	prompt exec.Prompt
	taken  chan struct{}
	err    error // written before taken is closed
}

var _ provider.Active = (*turn)(nil)

func newTurn(c *conversation, l exec.Launch, steps []step) *turn {
	t := &turn{c: c, launch: l, mode: l.Mode, steps: steps, wake: make(chan struct{}, 1)}
	if t.mode == "" {
		t.mode = modeAsk
	}
	t.ctx, t.cancel = context.WithCancel(c.life)
	return t
}

func (t *turn) model() string {
	if t.launch.Model == "" {
		return modelSwift
	}
	return t.launch.Model
}

// Abort implements [provider.Active].
func (t *turn) Abort(context.Context) error {
	t.cancel()
	return nil
}

// Steer implements [provider.Active].
func (t *turn) Steer(ctx context.Context, s exec.Steer) error {
	one := &steering{prompt: s.Prompt, taken: make(chan struct{})}
	t.mu.Lock()
	if t.deaf {
		t.mu.Unlock()
		return errTooLate()
	}
	t.steers = append(t.steers, one)
	t.notify()
	t.mu.Unlock()
	select {
	case <-one.taken:
		return one.err
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, other := range t.steers {
		if other == one {
			t.steers = append(t.steers[:i], t.steers[i+1:]...)
			return exec.Errorf(exec.CodeCancelled, "the agent did not take the text in time: %w", ctx.Err())
		}
	}
	<-one.taken
	return one.err
}

func errTooLate() *exec.Error {
	return exec.Errorf(exec.CodeNotSteerable, "the turn is ending").WithHint("Send it as a new message.")
}

func (t *turn) notify() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// takeSteers takes in what was sent and adds its steps.
func (t *turn) takeSteers() {
	t.mu.Lock()
	list := t.steers
	t.steers = nil
	for _, one := range list {
		one.err = t.session.append(entry{Row: &row.Row{Body: &row.User{
			Text: one.prompt.Text, Attachments: describeAll(one.prompt.Attachments), Steered: true,
		}}})
		close(one.taken)
	}
	t.mu.Unlock()
	for _, one := range list {
		if one.err == nil {
			t.steered = true
			t.steps = append(t.steps, t.c.a.steps(one.prompt.Text)...)
		}
	}
}

// closeEars makes the turn deaf. It is false when there is text to take in before.
func (t *turn) closeEars(force bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.steers) > 0 && !force {
		return false
	}
	t.deaf = true
	for _, one := range t.steers {
		one.err = errTooLate()
		close(one.taken)
	}
	t.steers = nil
	return true
}

// serve does the steps and publishes the terminal.
func (t *turn) serve() {
	defer t.c.work.Done()
	defer t.cancel()
	err := t.attachments()
	for err == nil {
		if err = t.stopped(); err != nil {
			break
		}
		t.takeSteers()
		if len(t.steps) == 0 {
			if t.closeEars(false) {
				break
			}
			continue
		}
		next := t.steps[0]
		t.steps = t.steps[1:]
		err = t.step(next)
	}
	t.closeEars(true)
	t.finish(err)
}

func (t *turn) step(s step) error {
	if err := t.flush(false); err != nil {
		return err
	}
	if s.mutates && t.mode == modePlan {
		if err := t.proposePlan(s); err != nil {
			return err
		}
		if t.planRefused {
			return nil
		}
	}
	return s.do(t, s.args)
}

func (t *turn) stopped() error {
	if t.ctx.Err() != nil {
		return errStopped
	}
	return nil
}

// finish publishes the end of the turn.
func (t *turn) finish(err error) {
	flushErr := t.flush(err == nil)
	if err == nil {
		err = flushErr
	}
	terminal := exec.Terminal{Phase: row.RunCompleted, Usage: t.usage()}
	switch {
	case errors.Is(err, errStopped):
		terminal.Phase = row.RunInterrupted
	case err != nil:
		terminal.Phase, terminal.Error = row.RunFailed, exec.AsError(err).WithDispatched(exec.WasDispatched)
	}
	t.c.finish(t.run, terminal)
}

func (t *turn) usage() *row.Usage {
	tokens := t.session.tokens()
	return &row.Usage{
		InputTokens: int64(len(t.launch.Prompt.Text))/bytesPerToken + 1, CacheReadTokens: tokens,
		OutputTokens: t.said / bytesPerToken, ReasoningTokens: t.thought / bytesPerToken,
		ContextTokens: tokens, ContextWindow: contextWindow,
	}
}

// pause waits for a value and takes in steered text meanwhile.
func pause[T any](t *turn, ch <-chan T) (T, error) {
	for {
		select {
		case v := <-ch:
			return v, nil
		case <-t.wake:
			t.takeSteers()
		case <-t.ctx.Done():
			var zero T
			return zero, errStopped
		}
	}
}

// sleepFor waits for a time.
func (t *turn) sleepFor(d time.Duration) error {
	if d <= 0 {
		return t.stopped()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	_, err := pause(t, timer.C)
	return err
}

// id makes an id that no other part, call or request of the chat has.
func (t *turn) id(kind string) string {
	t.ids++
	return fmt.Sprintf("%s-%s-%d", kind, t.run.ID(), t.ids)
}

// emit stores rows and publishes them together.
func (t *turn) emit(rows ...row.Row) error {
	if err := t.flush(false); err != nil {
		return err
	}
	return t.store(rows...)
}

func (t *turn) store(rows ...row.Row) error {
	entries := make([]entry, len(rows))
	for i := range rows {
		rows[i].Child = t.child
		rows[i] = rows[i].Clean()
		entries[i].Row = &rows[i]
	}
	if err := t.session.append(entries...); err != nil {
		return err
	}
	t.run.Rows(rows...)
	return nil
}

// flush publishes the assistant row that was held back.
func (t *turn) flush(final bool) error {
	if t.pending == nil {
		return nil
	}
	r := *t.pending
	t.pending = nil
	r.Body.(*row.Assistant).Final = final
	return t.store(r)
}
