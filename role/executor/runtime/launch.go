package runtime

import (
	"context"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// Start implements [exec.Execution].
func (in *integration) Start(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	if l.NativeSession != "" {
		return exec.Ref{}, exec.Errorf(exec.CodeInvalid, "a start cannot name a native session")
	}
	return in.launch(ctx, l, provider.Conversation.Launch)
}

// Resume implements [exec.Execution].
func (in *integration) Resume(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	if l.NativeSession == "" {
		return exec.Ref{}, exec.Errorf(exec.CodeInvalid, "a resume must name the native session")
	}
	return in.launch(ctx, l, provider.Conversation.Launch)
}

// Compact implements [exec.Compaction].
func (in *integration) Compact(ctx context.Context, l exec.Launch) (exec.Ref, error) {
	if l.NativeSession == "" && in.value.Manifest.Conversation == exec.ConversationNative {
		return exec.Ref{}, exec.Errorf(exec.CodeInvalid, "a compaction must name the native session")
	}
	return in.launch(ctx, l, provider.Conversation.Compact)
}

type launchMethod func(provider.Conversation, context.Context, exec.Launch, provider.Run) (provider.Active, error)

// launch hands a run to the conversation. Once the run is known, a failure is
// published as its terminal as well as returned.
func (in *integration) launch(ctx context.Context, l exec.Launch, method launchMethod) (exec.Ref, error) {
	ctx, leave, err := in.rt.enter(ctx, false)
	if err != nil {
		return exec.Ref{}, err
	}
	defer leave()
	b, err := in.binding(l.Binding)
	if err != nil {
		return exec.Ref{}, err
	}
	if l.RunID == "" || l.TurnID == "" || l.ChatID != b.spec.ChatID {
		return exec.Ref{}, exec.Errorf(exec.CodeInvalid, "a launch needs the ids of its run, its turn and the chat of its binding")
	}
	r := newRun(b, l.RunID, l.TurnID)
	err = in.checkLaunch(l)
	if err == nil {
		err = b.enroll(r, l.NativeSession)
	}
	if err != nil {
		if in.known(l.RunID) {
			// A terminal here would end the run that has the id.
			return exec.Ref{}, err
		}
		return exec.Ref{}, r.refuse(exec.AsError(err))
	}
	defer b.launching.Done()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.life, func() { cancel(errBindingClosing) })()
	r.launching(cancel)
	active, err := protect(in.rt.log, in.id+" launch", func() (provider.Active, error) {
		return method(b.conversation, ctx, l, r)
	})
	if err == nil && active == nil {
		err = exec.Errorf(exec.CodeInternal, "the integration did not say how to stop the run").WithDispatched(exec.MaybeDispatched)
	}
	if b.life.Err() != nil {
		// Whatever the agent made of it ends with the binding.
		stale := errBindingClosed()
		if err == nil {
			stale = stale.WithDispatched(exec.WasDispatched)
		} else {
			stale = stale.WithDispatched(exec.AsError(err).Dispatched)
		}
		return exec.Ref{}, stale
	}
	if err != nil {
		b.withdraw(r)
		return exec.Ref{}, r.refuse(exec.AsError(err))
	}
	b.queue.put(&entry{run: r, announce: true})
	if r.taken(active) {
		// The user gave up before the agent had answered.
		ctx, cancel := context.WithTimeout(b.life, exec.DefaultCallTimeout)
		defer cancel()
		if err := r.abort(ctx); err != nil {
			in.rt.log.Warn("abort of a run that had just started", "run", r.id, "err", err)
		}
	}
	return r.ref(), nil
}

// known reports whether a run with the id is going on.
func (in *integration) known(id string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.runs[id] != nil
}

// checkLaunch refuses what the manifest does not allow.
func (in *integration) checkLaunch(l exec.Launch) error {
	m := &in.value.Manifest
	if l.Mode != "" && !hasMode(m.Modes, l.Mode) {
		return exec.Errorf(exec.CodeInvalid, "%s has no mode %q", m.Label, l.Mode)
	}
	if m.NeedsEndpoint && l.Endpoint == nil {
		return exec.Errorf(exec.CodeInvalid, "%s needs an API endpoint", m.Label)
	}
	if len(l.Conversation) > 0 && m.Conversation != exec.ConversationController {
		return exec.Errorf(exec.CodeInvalid, "%s keeps its conversation itself", m.Label)
	}
	size := 0
	for _, msg := range l.Conversation {
		size += len(msg.Text)
	}
	if size > exec.MaxConversation {
		return exec.Errorf(exec.CodeTooLarge, "the conversation has %d bytes, over the limit of %d", size, exec.MaxConversation)
	}
	return in.checkAttachments(l.Prompt)
}

func hasMode(modes []exec.Mode, id string) bool {
	for _, m := range modes {
		if m.ID == id {
			return true
		}
	}
	return false
}

func (in *integration) checkAttachments(p exec.Prompt) error {
	allowed := in.value.Manifest.Attachments
	label := in.value.Manifest.Label
	if n := len(p.Attachments); n > allowed.MaxCount && (allowed.MaxCount > 0 || len(allowed.MediaTypes) == 0) {
		return exec.Errorf(exec.CodeTooLarge, "%s takes at most %d files with a message, these are %d", label, allowed.MaxCount, n)
	}
	for _, a := range p.Attachments {
		if !allowed.Accepts(a.MediaType) {
			return exec.Errorf(exec.CodeInvalid, "%s does not take files of type %s", label, a.MediaType)
		}
		if allowed.MaxBytes > 0 && int64(len(a.Data)) > allowed.MaxBytes {
			return exec.Errorf(exec.CodeTooLarge, "%s has %d bytes; %s takes at most %d", row.Text(a.Name), len(a.Data), label, allowed.MaxBytes)
		}
	}
	return nil
}
