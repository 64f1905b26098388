package chat

import (
	"context"
	"slices"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

// Publish implements [exec.Sink]: it takes what the agent says, in order, from
// one goroutine.
func (b *binding) Publish(ev exec.Event) {
	switch {
	case ev.Launched != nil:
		b.launched(ev)
	case ev.Live != nil:
		b.live(ev)
	case len(ev.Rows) > 0:
		b.rows(ev)
	case ev.Session != nil:
		b.session(ev)
	case ev.Ask != nil:
		b.ask(ev)
	case ev.Withdrawn != "":
		b.owner.s.desk.Withdraw(b.owner.id, ev.Withdrawn)
	case ev.Jobs != nil:
		o := b.owner
		o.mu.Lock()
		o.jobs = ev.Jobs.Jobs
		o.bumpLocked()
		o.mu.Unlock()
	case ev.Terminal != nil:
		b.terminal(ev)
	}
}

// batch returns a ledger batch that records how far the binding has come.
func (b *binding) batch(ev exec.Event, rows ...row.Row) ledger.Batch {
	return ledger.Batch{Rows: rows, Watermark: &ledger.Watermark{Binding: b.ref.ID, Seq: ev.Seq}}
}

// run returns the run an event belongs to, nil for one that is not known.
func (b *binding) run(id string) *run {
	b.owner.mu.Lock()
	defer b.owner.mu.Unlock()
	return b.owner.runs[id]
}

func (b *binding) launched(ev exec.Event) {
	o := b.owner
	if !ev.Launched.Unsolicited {
		if r := b.run(ev.RunID); r != nil {
			o.launchedAs(r, ev.Launched.Run)
		}
		return
	}
	r := o.newRun(message{turn: ev.Launched.TurnID}, api.PhaseRunning)
	r.id, r.unsolicited, r.bind, r.integration, r.handle = ev.RunID, true, b, b.integration, ev.Launched.Run
	close(r.launched)
	close(r.admitted)
	o.s.receipts.start(o.id, r.turn, r.started.UnixMilli())
	chat, _ := o.s.registry.Chat(o.id)
	b.append(ev, row.New(r.turn, r.id, &row.Run{
		Phase: row.RunStarted, Agent: b.agent, Model: firstOf(ev.Launched.Model, chat.Model),
		Mode: firstOf(ev.Launched.Mode, chat.Mode), Unsolicited: true, Detail: ev.Launched.Reason,
	}))
	o.mu.Lock()
	o.runs[r.id] = r
	if o.active == nil {
		o.active = r
	}
	o.bumpLocked()
	o.mu.Unlock()
}

func (b *binding) live(ev exec.Event) {
	if r := b.run(ev.RunID); r == nil || b.owner.isFinished(r) {
		return
	}
	l := *ev.Live
	l.RunID = ev.RunID
	b.owner.updatePart(l)
}

func (b *binding) rows(ev exec.Event) {
	o := b.owner
	rows := ev.Rows
	if r := b.run(ev.RunID); r != nil {
		if o.isFinished(r) {
			// What a stopped run still did is history; what it has to say about
			// itself is not.
			rows = slices.DeleteFunc(slices.Clone(rows), func(r row.Row) bool { return r.Kind() == row.KindNotice })
		}
		for _, row := range rows {
			o.noteText(r, row)
		}
	}
	if len(rows) > 0 {
		b.append(ev, rows...)
	}
}

// noteText remembers the newest answer of a run for its receipt.
func (o *owner) noteText(r *run, rr row.Row) {
	a, ok := rr.Body.(*row.Assistant)
	if !ok || rr.Child != "" || a.Text == "" {
		return
	}
	o.mu.Lock()
	r.lastText = a.Text
	o.mu.Unlock()
}

// append commits rows in the background, in order. Live parts that the rows
// complete go when the rows are there, so that a client swaps the two at once.
func (b *binding) append(ev exec.Event, rows ...row.Row) {
	o := b.owner
	b.ledger.AppendAsync(b.batch(ev, rows...), func(_ ledger.Committed, err error) {
		if err != nil {
			o.s.start(func() { b.storageFailed(ev.RunID, err) })
			return
		}
		o.dropParts(func(p *part) bool {
			for _, r := range rows {
				if r.PartID != "" && r.PartID == p.PartID && p.RunID == ev.RunID {
					return true
				}
			}
			return false
		})
		o.wake()
	})
}

// storageFailed ends a run whose rows cannot be kept: going on would lose what
// it says.
func (b *binding) storageFailed(runID string, err error) {
	o := b.owner
	r := b.run(runID)
	if r == nil {
		o.s.log.Error("rows not stored", "chat", o.id, "err", err)
		return
	}
	if o.finish(r, exec.Terminal{Phase: row.RunFailed, Error: storageFailure(err)}) {
		o.s.log.Error("run ended: rows not stored", "chat", o.id, "run", runID, "err", err)
		o.abort(r)
	}
}

func storageFailure(err error) *exec.Error {
	e := storageError(err)
	if a, ok := e.(*api.Error); ok {
		return exec.Errorf(exec.Code(a.Code), "%s", a.Message).WithHint("%s", a.Hint).WithDispatched(exec.WasDispatched)
	}
	return exec.AsError(e)
}

func (b *binding) session(ev exec.Event) {
	o := b.owner
	s := ev.Session
	if s.ID != "" {
		body := &row.Session{Agent: b.agent, ID: s.ID}
		batch := b.batch(ev, row.New("", ev.RunID, body))
		batch.Session = body
		b.ledger.AppendAsync(batch, func(_ ledger.Committed, err error) {
			if err != nil {
				o.s.start(func() { b.storageFailed(ev.RunID, err) })
			}
		})
	}
	o.update(func(c *registry.Chat) {
		if s.ID != "" {
			c.NativeSession = s.ID
		}
		if s.Title != "" && c.TitleSource == registry.TitleFromPrompt {
			c.Title, c.TitleSource = cleanTitle(s.Title), registry.TitleFromAgent
		}
		if s.Mode != "" && s.Mode != c.Mode {
			c.Mode = s.Mode
		}
	})
	o.Changed()
}

func (b *binding) ask(ev exec.Event) {
	o := b.owner
	r := b.run(ev.RunID)
	if r == nil || o.isFinished(r) {
		return // a stopped run asks nobody
	}
	ask := ev.Ask.Row
	ask.TurnID, ask.RunID = r.turn, r.id
	batch := b.batch(ev, ask)
	batch.Urgent = true
	committed, err := b.ledger.Append(o.s.ctx, batch)
	if err != nil {
		b.storageFailed(ev.RunID, err)
		return
	}
	ask = committed.Rows[0].Row
	o.s.desk.Offer(o.id, ask, o, func(ctx context.Context, a exec.Answer) error {
		return b.integration.Permissions.Answer(ctx, ev.Ask.Request, a)
	})
	if o.isFinished(r) {
		// Stop came between the look above and the offer.
		o.settleRequests(r)
		return
	}
	o.announce(newsAsked, r.turn, askText(ask), 0)
}

// askText says in a line what is asked.
func askText(r row.Row) string {
	switch b := r.Body.(type) {
	case *row.Permission:
		return firstOf(b.Title, b.Input.Command, b.Reason, b.Name)
	case *row.Question:
		if len(b.Questions) > 0 {
			return b.Questions[0].Text
		}
	}
	return ""
}

// Resolved implements [permission.Owner].
func (o *owner) Resolved(r row.Row) error {
	l, err := o.ledger(o.s.ctx)
	if err != nil {
		return err
	}
	defer l.Release()
	if _, err := l.Append(o.s.ctx, ledger.Batch{Rows: []row.Row{r}, Urgent: true}); err != nil {
		return storageError(err)
	}
	return nil
}

func (b *binding) terminal(ev exec.Event) {
	o := b.owner
	r := b.run(ev.RunID)
	if r == nil {
		return
	}
	if e := ev.Terminal.Error; e != nil && isSessionBusy(e) {
		return // the driver gets the same answer and may launch again
	}
	o.finish(r, *ev.Terminal)
	o.nativeEnd(r)
}

// nativeEnd records that the agent has nothing more to say for the run.
func (o *owner) nativeEnd(r *run) {
	o.dropParts(func(p *part) bool { return p.RunID == r.id })
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, r.id)
	if b := r.bind; b != nil {
		b.used = time.Now()
	}
	if !r.closed {
		r.closed = true
		close(r.native)
	}
}
