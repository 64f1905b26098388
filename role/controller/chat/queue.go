package chat

import (
	"context"
	"slices"

	"garcon/proto/api"
	"garcon/proto/row"
)

// queue holds the messages that wait for a chat. It is guarded by the owner's
// mu.
type queue struct {
	entries []*entry
	paused  bool
	reason  string
}

type entry struct {
	id       string
	message  message
	revision int64
	queuedAt int64
}

func (q *queue) pause(reason string) { q.paused, q.reason = true, reason }

func (q *queue) resume() { q.paused, q.reason = false, "" }

func (q *queue) index(id string) int {
	return slices.IndexFunc(q.entries, func(e *entry) bool { return e.id == id })
}

func (q *queue) view() api.Queue {
	v := api.Queue{Entries: make([]api.QueueEntry, 0, len(q.entries)), Paused: q.paused, Reason: q.reason}
	for _, e := range q.entries {
		v.Entries = append(v.Entries, api.QueueEntry{
			ID: e.id, TurnID: e.message.turn, Prompt: e.message.text, Attachments: attachmentRefs(e.message.attachments),
			Revision: e.revision, QueuedAt: e.queuedAt,
		})
	}
	return v
}

// enqueue adds a message at the end, or at the front.
func (o *owner) enqueue(m message, front bool) (api.Accepted, error) {
	if m.turn == "" {
		m.turn = newID()
	}
	e := &entry{id: newID(), message: m, revision: 1, queuedAt: now()}
	o.mu.Lock()
	if len(o.queue.entries) >= api.MaxQueue {
		o.mu.Unlock()
		return api.Accepted{}, api.NewError(api.CodeQueueFull, "the queue of this chat is full",
			"Remove messages from it, or wait until some have been sent.")
	}
	o.s.receipts.queued(o.id, m.turn)
	if front {
		o.queue.entries = slices.Insert(o.queue.entries, 0, e)
	} else {
		o.queue.entries = append(o.queue.entries, e)
	}
	accepted := api.Accepted{ChatID: o.id, TurnID: m.turn, Disposition: api.Queued, EntryID: e.id}
	o.rememberLocked(m.requestID, acceptance{m.fingerprint, accepted, nil})
	o.bumpLocked()
	o.mu.Unlock()
	o.drain()
	return accepted, nil
}

// drain sends the first waiting message if the chat is idle.
func (o *owner) drain() {
	o.mu.Lock()
	ready := o.drainableLocked()
	o.mu.Unlock()
	if ready {
		o.s.start(o.drainOne)
	}
}

func (o *owner) drainableLocked() bool {
	return o.active == nil && !o.deleted && !o.queue.paused && len(o.queue.entries) > 0
}

// drainOne admits the head of the queue. An entry leaves the queue when it has
// been admitted; one that cannot be stays there and pauses the queue.
func (o *owner) drainOne() {
	release, err := o.admit(o.s.ctx)
	if err != nil {
		return
	}
	defer release()
	o.mu.Lock()
	if !o.drainableLocked() {
		o.mu.Unlock()
		return
	}
	e := o.queue.entries[0]
	m := e.message
	o.mu.Unlock()
	_, err = o.begin(o.s.ctx, m)
	o.mu.Lock()
	switch {
	case err == nil:
		if i := o.queue.index(e.id); i >= 0 {
			o.queue.entries = slices.Delete(o.queue.entries, i, i+1)
		}
	case isBusy(err):
		// The agent began a run of its own; the end of that drains again.
	default:
		o.queue.pause(err.Error())
	}
	o.bumpLocked()
	o.mu.Unlock()
}

// entryOp runs f on an entry under the admission token, so that no drain is
// sending it meanwhile.
func (s *Service) entryOp(ctx context.Context, chat, id string, f func(o *owner, i int) error) error {
	o, err := s.owner(chat)
	if err != nil {
		return err
	}
	release, err := o.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	o.mu.Lock()
	defer o.mu.Unlock()
	i := o.queue.index(id)
	if i < 0 {
		return errEntryGone()
	}
	if err := f(o, i); err != nil {
		return err
	}
	o.bumpLocked()
	return nil
}

func errEntryGone() error {
	return api.NewError(api.CodeQueueEntryGone, "this message is no longer in the queue",
		"It has been sent or removed. Look at the chat again.")
}

// UpdateEntry changes a waiting message.
func (s *Service) UpdateEntry(ctx context.Context, chat, id string, req api.QueueUpdateRequest) error {
	var attachments []row.Attachment
	if req.Attachments != nil {
		var err error
		if attachments, err = s.attached(*req.Attachments); err != nil {
			return err
		}
	}
	if req.Prompt != nil {
		if err := checkPrompt(*req.Prompt, len(attachments)); err != nil {
			return err
		}
	}
	return s.entryOp(ctx, chat, id, func(o *owner, i int) error {
		e := o.queue.entries[i]
		if e.revision != req.Revision {
			return api.NewError(api.CodeConflict, "somebody else has changed this message", "Look at it again.")
		}
		if req.Prompt != nil {
			e.message.text = *req.Prompt
		}
		if req.Attachments != nil {
			e.message.attachments = attachments
		}
		// The text is no longer what the request id stood for.
		e.message.requestID, e.message.fingerprint = "", ""
		e.revision++
		return nil
	})
}

// RemoveEntry takes a message out of the queue.
func (s *Service) RemoveEntry(ctx context.Context, chat, id string) error {
	return s.entryOp(ctx, chat, id, func(o *owner, i int) error {
		s.receipts.end(o.queue.entries[i].message.turn, api.Receipt{Outcome: api.TurnRemoved, EndedAt: now()})
		o.queue.entries = slices.Delete(o.queue.entries, i, i+1)
		return nil
	})
}

// OrderQueue reorders the queue; ids names every entry once.
func (s *Service) OrderQueue(ctx context.Context, chat string, ids []string) error {
	return s.queueOp(ctx, chat, func(o *owner) error {
		sorted := make([]*entry, 0, len(ids))
		seen := map[string]bool{}
		for _, id := range ids {
			i := o.queue.index(id)
			if i < 0 {
				return errEntryGone()
			}
			if seen[id] {
				return api.NewError(api.CodeInvalid, "an entry is named twice", "")
			}
			seen[id] = true
			sorted = append(sorted, o.queue.entries[i])
		}
		if len(sorted) != len(o.queue.entries) {
			return api.NewError(api.CodeConflict, "the queue has other messages than the order names", "Look at the chat again.")
		}
		o.queue.entries = sorted
		return nil
	})
}

// PauseQueue keeps waiting messages from being sent.
func (s *Service) PauseQueue(ctx context.Context, chat string) error {
	return s.queueOp(ctx, chat, func(o *owner) error {
		o.queue.pause("you paused it")
		return nil
	})
}

// ResumeQueue lets waiting messages be sent again.
func (s *Service) ResumeQueue(ctx context.Context, chat string) error {
	return s.queueOp(ctx, chat, func(o *owner) error {
		o.queue.resume()
		return nil
	})
}

// queueOp runs f under the admission token and lets the queue drain after it.
func (s *Service) queueOp(ctx context.Context, chat string, f func(o *owner) error) error {
	o, err := s.owner(chat)
	if err != nil {
		return err
	}
	release, err := o.admit(ctx)
	if err != nil {
		return err
	}
	o.mu.Lock()
	err = f(o)
	o.bumpLocked()
	o.mu.Unlock()
	release()
	if err == nil {
		o.drain()
	}
	return err
}

// SendEntry sends a waiting message at once: it steers the active run with it,
// or interrupts that run.
func (s *Service) SendEntry(ctx context.Context, chat, id string, how api.BusyPolicy) (api.Accepted, error) {
	o, err := s.owner(chat)
	if err != nil {
		return api.Accepted{}, err
	}
	release, err := o.admit(ctx)
	if err != nil {
		return api.Accepted{}, err
	}
	defer release()
	o.mu.Lock()
	i := o.queue.index(id)
	if i < 0 {
		o.mu.Unlock()
		return api.Accepted{}, errEntryGone()
	}
	e := o.queue.entries[i]
	o.mu.Unlock()
	// The token keeps the entry where it is until its fate is known.
	accepted, err := o.admitMessage(ctx, e.message, how)
	if err != nil {
		return api.Accepted{}, err
	}
	o.mu.Lock()
	if i := o.queue.index(id); i >= 0 {
		o.queue.entries = slices.Delete(o.queue.entries, i, i+1)
	}
	o.bumpLocked()
	o.mu.Unlock()
	if accepted.Disposition == api.Steered {
		s.receipts.end(e.message.turn, api.Receipt{Outcome: api.TurnRemoved, EndedAt: now()})
	}
	return accepted, nil
}
