package chat

import (
	"context"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
)

// steerWait bounds how long a steer waits for a run that is just being
// launched: as long as a person waits before trying something else.
const steerWait = 20 * time.Second

// steer commits a message and delivers it into the active run. One that the
// run definitely did not take becomes the next turn.
func (o *owner) steer(ctx context.Context, r *run, m message) (api.Accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, steerWait)
	defer cancel()
	select {
	case <-r.launched:
	case <-r.ctx.Done():
		return o.admitMessage(ctx, m, api.BusyQueue)
	case <-ctx.Done():
		return api.Accepted{}, exec.Errorf(exec.CodeNotSteerable, "the agent is still starting").
			WithHint("Nothing was sent. Try again, or queue the message.")
	}
	o.mu.Lock()
	handle, integration, b, over := r.handle, r.integration, r.bind, r.finished
	o.mu.Unlock()
	if over {
		return o.admitMessage(ctx, m, api.BusyQueue)
	}
	if integration.Steering == nil {
		return api.Accepted{}, exec.Errorf(exec.CodeNotSteerable, "%s cannot be steered", integration.Manifest.Label).
			WithHint("Queue the message, or interrupt with it.")
	}
	if err := checkAttachments(integration.Manifest, m.attachments); err != nil {
		return api.Accepted{}, err
	}
	prompt, err := o.steerPrompt(ctx, m)
	if err != nil {
		return api.Accepted{}, err
	}
	committed, err := b.ledger.Append(ctx, ledger.Batch{
		Rows: []row.Row{row.New(r.turn, r.id, &row.User{
			Text: m.text, Attachments: m.attachments, ClientID: m.requestID, Origin: m.origin, Steered: true,
		})},
		ClientID: m.requestID, Fingerprint: m.fingerprint, Urgent: true,
	})
	if err != nil {
		return api.Accepted{}, storageError(err)
	}
	if committed.Replayed {
		return o.replayed(ctx, committed.First)
	}
	err = integration.Steering.Steer(ctx, exec.Steer{Run: handle, ID: newID(), Prompt: prompt})
	accepted := api.Accepted{ChatID: o.id, TurnID: r.turn, Disposition: api.Steered}
	if err == nil {
		o.mu.Lock()
		o.rememberLocked(m.requestID, acceptance{m.fingerprint, accepted, nil})
		o.mu.Unlock()
		return accepted, nil
	}
	if e := exec.AsError(err); e.Dispatched != exec.NotDispatched {
		unknown := api.FromExec(e.WithDispatched(exec.MaybeDispatched))
		o.mu.Lock()
		o.rememberLocked(m.requestID, acceptance{m.fingerprint, accepted, unknown})
		o.mu.Unlock()
		o.note(r, row.Notice{
			Code: string(exec.CodeOutcomeUnknown), Title: "Message may not have arrived",
			Text: "The agent did not confirm the message above: " + e.Message,
		})
		return api.Accepted{}, unknown
	}
	// The row is there; only the delivery is owed.
	m.committed = true
	return o.enqueue(m, true)
}

// note commits a notice of the controller.
func (o *owner) note(r *run, n row.Notice) {
	if err := o.Resolved(row.New(r.turn, r.id, &n)); err != nil {
		o.s.log.Error("notice not recorded", "chat", o.id, "err", err)
	}
	o.wake()
}
