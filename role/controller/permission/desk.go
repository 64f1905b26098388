// Package permission keeps the requests that agents make to the user:
// permissions and questions.
//
// The promise: a request is answered by the first answer that names the offer
// it saw, and by nothing else. The agent gets at most one response. An answer
// that was definitely not delivered gives the request back under a new control
// id; one that may have been delivered retires it. Nothing is ever answered for
// the user, and a request whose run or binding ends is withdrawn.
package permission

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// Responder delivers an answer to the agent; see [exec.Permissions].
type Responder func(ctx context.Context, a exec.Answer) error

// Owner is the chat a request belongs to, as the desk needs it. Its methods
// are called without the desk's lock.
type Owner interface {
	// Resolved commits the resolution row of a request.
	Resolved(r row.Row) error
	// Changed says that the chat's pending requests changed.
	Changed()
}

// deliveryTimeout bounds one delivery to the agent. An agent takes an answer
// within milliseconds; this is for one that is stopped or swapped out, and
// lessens how long a card says "answering".
const deliveryTimeout = 15 * time.Second

// maxRemembered bounds how many ended requests are remembered, in order to
// tell "already resolved" from "unknown".
const maxRemembered = 4096

// Desk holds the pending requests of all chats. It is safe for concurrent use.
type Desk struct {
	log *slog.Logger

	mu      sync.Mutex
	chats   map[string][]*request // by chat, oldest first
	ended   map[key]Ending
	endedIn []key // oldest first, for forgetting
}

type key struct{ chat, occurrence string }

// request is one pending request. Its fields are guarded by the desk's mu,
// those above the blank line are constant.
type request struct {
	key
	turnID, runID string
	ask           row.Row
	respond       Responder
	owner         Owner
	since         time.Time

	controlID string
	answering bool
	// by is who is answering.
	by string
	// withdrawn is set when the agent took the request back while an answer
	// was on its way.
	withdrawn row.Outcome
}

// New returns an empty desk.
func New(log *slog.Logger) *Desk {
	return &Desk{log: log, chats: map[string][]*request{}, ended: map[key]Ending{}}
}

// Offer adds a request whose row has been committed.
func (d *Desk) Offer(chat string, ask row.Row, owner Owner, respond Responder) {
	occurrence := occurrenceOf(ask)
	r := &request{
		key: key{chat, occurrence}, turnID: ask.TurnID, runID: ask.RunID, ask: ask,
		respond: respond, owner: owner, since: time.Now(), controlID: rand.Text(),
	}
	d.mu.Lock()
	d.chats[chat] = append(d.chats[chat], r)
	d.mu.Unlock()
	owner.Changed()
}

func occurrenceOf(r row.Row) string {
	return (&exec.Ask{Row: r}).Occurrence()
}

// Pending returns the open requests of a chat, oldest first.
func (d *Desk) Pending(chat string) []api.Pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]api.Pending, 0, len(d.chats[chat]))
	for _, r := range d.chats[chat] {
		encoded, err := r.ask.Encode()
		if err != nil {
			// The row has been committed in this encoding before.
			d.log.Error("pending request does not encode", "chat", chat, "occurrence", r.occurrence, "err", err)
			continue
		}
		out = append(out, api.Pending{
			Occurrence: r.occurrence, RunID: r.runID, ControlID: r.controlID, Kind: r.ask.Kind(),
			Answering: r.answering, AnsweringBy: r.by, Since: r.since.UnixMilli(), Row: encoded,
		})
	}
	return out
}

// Ending is how a request left the desk.
type Ending string

// The endings of requests.
const (
	// EndedAnswered: the agent got an answer.
	EndedAnswered Ending = "answered"
	// EndedAborted: the agent no longer asks, or its run has ended.
	EndedAborted Ending = "aborted"
	// EndedUnknown: an answer was sent and may not have arrived.
	EndedUnknown Ending = "unknown"
)

// Ended returns how a request ended; it is false for one that is pending or is
// not remembered.
func (d *Desk) Ended(chat, occurrence string) (Ending, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	how, ok := d.ended[key{chat, occurrence}]
	return how, ok
}

// Count returns how many requests of a chat are open.
func (d *Desk) Count(chat string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.chats[chat])
}

// Fence names the request an answer is for, and the offer it saw.
type Fence struct {
	Chat, Occurrence, RunID, ControlID string
}

// Decide answers a permission request. by names the principal.
func (d *Desk) Decide(ctx context.Context, f Fence, req api.DecideRequest, by string) (api.Resolved, error) {
	return d.answer(ctx, f, func(ask row.Row) (exec.Answer, row.Body, error) {
		p, ok := ask.Body.(*row.Permission)
		if !ok {
			return exec.Answer{}, nil, api.NewError(api.CodeInvalid, "this request is a question, not a permission",
				"Use `garcon chats answer`.")
		}
		i := slices.IndexFunc(p.Options, func(o row.PermissionOption) bool {
			if req.OptionID != "" {
				return o.ID == req.OptionID
			}
			return o.Decision == req.Decision
		})
		if i < 0 {
			return exec.Answer{}, nil, api.NewError(api.CodeInvalid,
				"the request does not offer this option", "Options: "+optionNames(p.Options)+".")
		}
		o := p.Options[i]
		return exec.Answer{OptionID: o.ID, Message: req.Message},
			&row.PermissionResolved{Decision: o.Decision, OptionID: o.ID, Message: req.Message}, nil
	}, by)
}

func optionNames(options []row.PermissionOption) string {
	s := ""
	for i, o := range options {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s (%s)", o.ID, o.Label)
	}
	return s
}

// Answer answers a question. by names the principal.
func (d *Desk) Answer(ctx context.Context, f Fence, req api.AnswerRequest, by string) (api.Resolved, error) {
	return d.answer(ctx, f, func(ask row.Row) (exec.Answer, row.Body, error) {
		q, ok := ask.Body.(*row.Question)
		if !ok {
			return exec.Answer{}, nil, api.NewError(api.CodeInvalid, "this request is a permission, not a question",
				"Use `garcon chats decide`.")
		}
		if err := checkAnswers(q, req); err != nil {
			return exec.Answer{}, nil, err
		}
		return exec.Answer{Answers: req.Answers, Decline: req.Decline, Message: req.Message},
			&row.QuestionResolved{Answers: req.Answers, Declined: req.Decline, Message: req.Message}, nil
	}, by)
}

// checkAnswers reports an answer the question does not allow.
func checkAnswers(q *row.Question, req api.AnswerRequest) error {
	invalid := func(format string, args ...any) error {
		return api.NewError(api.CodeInvalid, fmt.Sprintf(format, args...), "Look at the question again, or decline it.")
	}
	if req.Decline {
		if len(req.Answers) > 0 {
			return invalid("an answer cannot both decline and choose")
		}
		return nil
	}
	for id := range req.Answers {
		if !slices.ContainsFunc(q.Questions, func(i row.QuestionItem) bool { return i.ID == id }) {
			return invalid("there is no question %q", id)
		}
	}
	for _, item := range q.Questions {
		given := req.Answers[item.ID]
		if len(given) == 0 {
			return invalid("question %q has no answer", item.ID)
		}
		if len(given) > 1 && !item.Multi {
			return invalid("question %q takes one answer", item.ID)
		}
		for _, g := range given {
			known := slices.ContainsFunc(item.Options, func(o row.QuestionOption) bool { return o.Label == g })
			if !known && !item.FreeText {
				return invalid("question %q has no option %q", item.ID, g)
			}
		}
	}
	return nil
}

// answer claims the request, delivers and settles it. build runs under the
// lock, before the claim: an answer that is not allowed claims nothing.
func (d *Desk) answer(ctx context.Context, f Fence, build func(row.Row) (exec.Answer, row.Body, error), by string) (api.Resolved, error) {
	d.mu.Lock()
	r, err := d.findLocked(f)
	if err != nil {
		d.mu.Unlock()
		return api.Resolved{}, err
	}
	answer, body, err := build(r.ask)
	if err != nil {
		d.mu.Unlock()
		return api.Resolved{}, err
	}
	r.answering, r.by = true, by
	d.mu.Unlock()
	r.owner.Changed()

	// The delivery outlives the request that asked for it: a browser that goes
	// away must not turn a decision into an unknown one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryTimeout)
	defer cancel()
	return d.settle(r, body, by, r.respond(ctx, answer))
}

// findLocked returns the request the fence names, if it can be answered.
func (d *Desk) findLocked(f Fence) (*request, error) {
	k := key{f.Chat, f.Occurrence}
	i := slices.IndexFunc(d.chats[f.Chat], func(r *request) bool { return r.key == k })
	if i < 0 {
		if _, ok := d.ended[k]; ok {
			return nil, errResolved()
		}
		return nil, api.NewError(api.CodeRequestGone, "the agent no longer waits for this answer",
			"The request belongs to a turn that ended, or to an earlier run of the controller.")
	}
	r := d.chats[f.Chat][i]
	if r.answering {
		return nil, errResolved()
	}
	if r.runID != f.RunID || r.controlID != f.ControlID {
		return nil, api.NewError(api.CodeAlreadyResolved, "the request has been offered again since you saw it",
			"Look at it again and answer what is shown now.")
	}
	return r, nil
}

func errResolved() *api.Error {
	return api.NewError(api.CodeAlreadyResolved, "somebody else has already answered this request", "")
}

// settle ends a claimed request by the outcome of its delivery.
func (d *Desk) settle(r *request, body row.Body, by string, delivery error) (api.Resolved, error) {
	if delivery == nil {
		err := r.owner.Resolved(resolution(r, body, by, row.Answered))
		d.remove(r, EndedAnswered)
		r.owner.Changed()
		if err != nil {
			return api.Resolved{}, err
		}
		return api.Resolved{Occurrence: r.occurrence, Outcome: "delivered"}, nil
	}
	e := exec.AsError(delivery)
	d.mu.Lock()
	withdrawn := r.withdrawn
	ending := EndedUnknown
	if withdrawn == "" && e.Dispatched == exec.NotDispatched && !final(e.Code) {
		r.answering, r.by = false, ""
		r.controlID = rand.Text()
		d.mu.Unlock()
		r.owner.Changed()
		return api.Resolved{}, api.FromExec(e)
	}
	d.mu.Unlock()
	var err error
	switch {
	case withdrawn != "":
		ending = EndedAborted
		err = r.owner.Resolved(resolution(r, emptyResolution(r), "", withdrawn))
	case e.Dispatched == exec.NotDispatched:
		ending = EndedAborted
		err = r.owner.Resolved(resolution(r, emptyResolution(r), "", row.Withdrawn))
	default:
		// No resolution row: it would claim to know.
		err = r.owner.Resolved(row.New(r.turnID, r.runID, &row.Notice{
			Code: string(exec.CodeOutcomeUnknown), Title: "Answer may not have arrived",
			Text: "An answer was sent, but the agent did not confirm it: " + e.Message,
		}))
	}
	d.remove(r, ending)
	r.owner.Changed()
	if err != nil {
		d.log.Error("resolution not recorded", "chat", r.chat, "occurrence", r.occurrence, "err", err)
	}
	return api.Resolved{}, api.FromExec(e)
}

// final reports failures after which the agent cannot be asked again.
func final(c exec.Code) bool {
	return c == exec.CodeStaleResource || c == exec.CodeAlreadyResolved
}

// Withdraw ends a request that the agent no longer makes.
func (d *Desk) Withdraw(chat, occurrence string) {
	d.end(chat, row.Withdrawn, func(r *request) bool { return r.occurrence == occurrence })
}

// EndRun takes the open requests of a run off the desk and returns their
// resolution rows, which the caller commits before the run's terminal. A request
// whose answer is on its way is left to that answer.
func (d *Desk) EndRun(chat, runID string) []row.Row {
	taken := d.take(chat, row.Ended, func(r *request) bool { return r.runID == runID })
	rows := make([]row.Row, len(taken))
	for i, r := range taken {
		rows[i] = resolution(r, emptyResolution(r), "", row.Ended)
	}
	return rows
}

func (d *Desk) end(chat string, outcome row.Outcome, match func(*request) bool) {
	for _, r := range d.take(chat, outcome, match) {
		if err := r.owner.Resolved(resolution(r, emptyResolution(r), "", outcome)); err != nil {
			d.log.Error("withdrawal not recorded", "chat", chat, "occurrence", r.occurrence, "err", err)
		}
		r.owner.Changed()
	}
}

// take removes what matches. One that is being answered stays until its
// delivery has an outcome, and then ends as given here unless it was delivered.
func (d *Desk) take(chat string, outcome row.Outcome, match func(*request) bool) []*request {
	d.mu.Lock()
	defer d.mu.Unlock()
	var taken []*request
	kept := d.chats[chat][:0:0]
	for _, r := range d.chats[chat] {
		switch {
		case !match(r):
			kept = append(kept, r)
		case r.answering:
			r.withdrawn = outcome
			kept = append(kept, r)
		default:
			taken = append(taken, r)
			d.rememberLocked(r.key, EndedAborted)
		}
	}
	d.storeLocked(chat, kept)
	return taken
}

func (d *Desk) remove(r *request, how Ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.storeLocked(r.chat, slices.DeleteFunc(slices.Clone(d.chats[r.chat]), func(o *request) bool { return o == r }))
	d.rememberLocked(r.key, how)
}

func (d *Desk) storeLocked(chat string, rs []*request) {
	if len(rs) == 0 {
		delete(d.chats, chat)
		return
	}
	d.chats[chat] = rs
}

func (d *Desk) rememberLocked(k key, how Ending) {
	if _, ok := d.ended[k]; ok {
		return
	}
	d.ended[k] = how
	d.endedIn = append(d.endedIn, k)
	if len(d.endedIn) > maxRemembered {
		delete(d.ended, d.endedIn[0])
		d.endedIn = d.endedIn[1:]
	}
}

func emptyResolution(r *request) row.Body {
	if r.ask.Kind() == row.KindQuestion {
		return &row.QuestionResolved{}
	}
	return &row.PermissionResolved{}
}

// resolution completes a resolution body.
func resolution(r *request, body row.Body, by string, outcome row.Outcome) row.Row {
	switch b := body.(type) {
	case *row.PermissionResolved:
		b.Occurrence, b.By, b.Outcome = r.occurrence, by, outcome
	case *row.QuestionResolved:
		b.Occurrence, b.By, b.Outcome = r.occurrence, by, outcome
	}
	return row.New(r.turnID, r.runID, body)
}
