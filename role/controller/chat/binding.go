package chat

import (
	"context"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

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
