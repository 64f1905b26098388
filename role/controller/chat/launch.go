package chat

import (
	"context"
	"errors"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/registry"
)

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
