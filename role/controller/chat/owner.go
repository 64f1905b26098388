package chat

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/registry"
)

// owner decides what happens to one chat.
type owner struct {
	s  *Service
	id string
	// admission holds one token: whoever has it may admit, stop, reorder or
	// delete. It is a channel so that waiting for it can be given up.
	admission chan struct{}

	mu sync.Mutex // guards what follows
	// active is the run that makes the chat busy. runs are all whose native end
	// has not been seen: the active one, those that were stopped, and those the
	// agent began beside it.
	active *run
	runs   map[string]*run
	bind   *binding
	queue  queue
	jobs   []exec.Job
	parts  []*part // live parts, in the order they began
	// owed are terminal rows that could not be written; they go before the
	// next append.
	owed []row.Row
	// accepted remembers submissions by request id, oldest first in order.
	accepted map[string]acceptance
	order    []string
	deleted  bool

	revision     uint64
	liveRevision uint64
	lastPart     uint64 // the newest part's serial
	// changed is closed and replaced whenever anything a client can see of the
	// chat changes.
	changed chan struct{}
}

// maxAccepted bounds the submissions a chat remembers in memory. Those that
// became rows are in the ledger as well.
const maxAccepted = 1024

// acceptance is the answer to a submission; err is set when it was committed
// and its delivery is uncertain.
type acceptance struct {
	fingerprint string
	api.Accepted
	err error
}

// part is a live part with its whole text.
type part struct {
	row.Live
	text []byte
	// serial tells parts of the same name apart; rewrites counts how often text
	// that had been there was replaced.
	serial   uint64
	rewrites int
}

// maxPart bounds the text of a live part: a row could not hold more.
const maxPart = row.MaxBytes

func newOwner(s *Service, id string) *owner {
	o := &owner{
		s: s, id: id, admission: make(chan struct{}, 1), runs: map[string]*run{},
		accepted: map[string]acceptance{}, changed: make(chan struct{}),
		// 0 is what a client says that has seen nothing.
		revision: 1,
	}
	o.admission <- struct{}{}
	return o
}

// admit takes the admission token; the caller gives it back by calling the
// returned function.
func (o *owner) admit(ctx context.Context) (release func(), err error) {
	select {
	case <-o.admission:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release = func() { o.admission <- struct{}{} }
	o.s.mu.Lock()
	closing := o.s.closing
	o.s.mu.Unlock()
	if closing {
		release()
		return nil, errClosing()
	}
	o.mu.Lock()
	deleted := o.deleted
	o.mu.Unlock()
	if deleted {
		release()
		return nil, o.s.notFound(o.id)
	}
	return release, nil
}

// record returns the chat's record.
func (o *owner) record() (registry.Chat, error) {
	c, ok := o.s.registry.Chat(o.id)
	if !ok {
		return registry.Chat{}, o.s.notFound(o.id)
	}
	return c, nil
}

// ledger opens the chat's ledger, which the caller releases.
func (o *owner) ledger(ctx context.Context) (*ledger.Ledger, error) {
	l, err := o.s.ledgers.Open(ctx, o.id)
	if err != nil {
		return nil, storageError(err)
	}
	return l, nil
}

// wake tells those who wait that something changed.
func (o *owner) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wakeLocked()
}

func (o *owner) wakeLocked() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// bumpLocked marks a change of what [owner.control] returns.
func (o *owner) bumpLocked() {
	o.revision++
	o.wakeLocked()
	o.s.subs.changed(o.id)
}

// Changed implements [permission.Owner].
func (o *owner) Changed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bumpLocked()
}

// control returns the chat's transient state.
func (o *owner) control() api.Control {
	pending := o.s.desk.Pending(o.id)
	o.mu.Lock()
	defer o.mu.Unlock()
	c := api.Control{
		ChatID: o.id, Revision: o.revision, Phase: api.PhaseIdle,
		Queue: o.queue.view(), Pending: pending, Jobs: make([]api.Job, 0, len(o.jobs)),
	}
	if r := o.active; r != nil {
		c.Phase, c.TurnID, c.RunID, c.StartedAt = r.phase, r.turn, r.id, r.started.UnixMilli()
		if len(pending) > 0 {
			c.Phase = api.PhaseWaiting
		}
	}
	for _, j := range o.jobs {
		c.Jobs = append(c.Jobs, api.Job(j))
	}
	return c
}

// state returns the short form of control.
func (o *owner) state() api.State {
	pending := o.s.desk.Count(o.id)
	o.mu.Lock()
	defer o.mu.Unlock()
	s := api.State{
		Phase: api.PhaseIdle, Queued: len(o.queue.entries), QueuePaused: o.queue.paused, Pending: pending,
	}
	if r := o.active; r != nil {
		s.Phase, s.TurnID, s.RunID = r.phase, r.turn, r.id
		if pending > 0 {
			s.Phase = api.PhaseWaiting
		}
	}
	return s
}

// live returns the live parts whole.
func (o *owner) liveParts() ([]row.Live, uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]row.Live, len(o.parts))
	for i, p := range o.parts {
		out[i] = p.Live
		out[i].Offset, out[i].Text = 0, string(bytes.ToValidUTF8(p.text, []byte("\uFFFD")))
	}
	return out, o.liveRevision
}

// updatePart applies a live update.
func (o *owner) updatePart(l row.Live) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.parts, func(p *part) bool { return p.RunID == l.RunID && p.PartID == l.PartID })
	if i < 0 {
		o.lastPart++
		o.parts = append(o.parts, &part{Live: l, serial: o.lastPart})
		i = len(o.parts) - 1
	}
	p := o.parts[i]
	if l.Title != "" {
		p.Title = l.Title
	}
	// An update always continues or replaces what came before; one that begins
	// further on would be a mistake of the adapter, and showing its text late is
	// better than not at all.
	keep := min(l.Offset, len(p.text))
	if keep < len(p.text) {
		p.rewrites++
	}
	p.text = append(p.text[:keep], l.Text[:min(len(l.Text), max(0, maxPart-keep))]...)
	o.liveRevision++
	o.wakeLocked()
}

// dropParts removes live parts.
func (o *owner) dropParts(match func(*part) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := len(o.parts)
	o.parts = slices.DeleteFunc(o.parts, match)
	if len(o.parts) != before {
		o.liveRevision++
		o.wakeLocked()
	}
}

// rememberLocked keeps an acceptance for later requests with the same id.
func (o *owner) rememberLocked(requestID string, a acceptance) {
	if requestID == "" {
		return
	}
	if _, ok := o.accepted[requestID]; !ok {
		o.order = append(o.order, requestID)
		if len(o.order) > maxAccepted {
			delete(o.accepted, o.order[0])
			o.order = o.order[1:]
		}
	}
	o.accepted[requestID] = a
}

// update changes the chat's record after something happened in it. A failure
// is logged: the list shows less than the transcript holds, and the next update
// mends it.
func (o *owner) update(f func(*registry.Chat)) {
	_, err := o.s.registry.UpdateChat(context.WithoutCancel(o.s.ctx), o.id, func(c *registry.Chat) error {
		f(c)
		return nil
	})
	if err != nil {
		o.s.log.Error("chat record not updated", "chat", o.id, "err", err)
	}
}

// now is the time of records, in Unix milliseconds.
func now() int64 { return time.Now().UnixMilli() }

// maxPreview bounds the preview of a list row, in bytes.
const maxPreview = 300

// firstOf returns the first value that is not zero.
func firstOf(values ...string) string { return cmp.Or(values...) }
