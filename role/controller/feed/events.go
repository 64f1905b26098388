package feed

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/role/controller/chat"
	"garcon/role/controller/permission"
)

// maxSettled bounds the offers a client remembers after they were taken back,
// to tell a late answer from one to nothing.
const maxSettled = 256

// clients are the live generations.
type clients struct {
	mu   sync.Mutex
	byID map[string]*client
}

// client is one generation. Its fields are guarded by the lock of [clients].
type client struct {
	id string
	// offers are by event id. An event is one offer of a request, so that the
	// same request offered anew is another.
	offers  map[string]*offer
	settled []string // events that are over, oldest first
}

type offer struct {
	fence permission.Fence
	ask   json.RawMessage
	kind  row.Kind
	// passed says that the client answered next, over that the offer was taken
	// back.
	passed, over bool
}

// join begins a generation.
func (c *clients) join() *client {
	me := &client{id: rand.Text(), offers: map[string]*offer{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[me.id] = me
	return me
}

func (c *clients) leave(me *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, me.id)
}

// events is the source of [api.StreamEvents].
func (f *Feed) events(ctx context.Context, st *stream, args json.RawMessage) error {
	if err := decodeArgs(args, &struct{}{}); err != nil {
		return err
	}
	// Everything that extends a baseline is installed before ready says that
	// baselines may be asked for.
	sub := f.Chats.Subscribe()
	defer sub.Close()
	me := f.clients.join()
	defer f.clients.leave(me)
	host := f.Host
	if err := st.sendItem(ctx, api.EventItem{
		Type: api.EventReady, ClientID: me.id, Host: &host, ServerInstanceID: f.Instance,
	}); err != nil {
		return err
	}
	waiting := []string{}
	for _, c := range f.Chats.Controls() {
		if len(c.Pending) > 0 {
			waiting = append(waiting, c.ChatID)
		}
	}
	news := chat.News{Chats: waiting}
	for {
		for _, e := range news.Events {
			if err := st.sendItem(ctx, api.EventItem{Type: api.EventEmit, Event: &e}); err != nil {
				return err
			}
		}
		for _, id := range news.Chats {
			for _, item := range f.offer(me, id) {
				if err := st.sendItem(ctx, item); err != nil {
					return err
				}
			}
		}
		if err := wait(ctx, sub.Wake()); err != nil {
			return err
		}
		news = sub.Take()
	}
}

// offer brings a client's offers of a chat up to date and returns what to tell
// it.
func (f *Feed) offer(me *client, chatID string) []api.EventItem {
	pending := f.Desk.Pending(chatID)
	f.clients.mu.Lock()
	defer f.clients.mu.Unlock()
	var items []api.EventItem
	for event, o := range me.offers {
		if o.fence.Chat != chatID || o.over {
			continue
		}
		i := slices.IndexFunc(pending, func(p api.Pending) bool { return p.Occurrence == o.fence.Occurrence })
		if i >= 0 && pending[i].ControlID == o.fence.ControlID {
			continue
		}
		me.settle(event)
		items = append(items, api.EventItem{
			Type: api.EventCancel, EventID: event, ChatID: chatID, Reason: f.reason(o.fence, i >= 0),
		})
	}
	for _, p := range pending {
		// The id of an offer is fresh, and so is the event's.
		event := p.ControlID
		if me.offers[event] != nil || p.Answering {
			continue
		}
		me.offers[event] = &offer{
			fence: permission.Fence{Chat: chatID, Occurrence: p.Occurrence, RunID: p.RunID, ControlID: p.ControlID},
			ask:   p.Row, kind: p.Kind,
		}
		items = append(items, api.EventItem{Type: api.EventWaterfall, EventID: event, ChatID: chatID, Request: &p})
	}
	return items
}

// settle notes that an offer is over.
func (c *client) settle(event string) {
	c.offers[event].over = true
	c.offers[event].ask = nil
	c.settled = append(c.settled, event)
	if len(c.settled) > maxSettled {
		delete(c.offers, c.settled[0])
		c.settled = c.settled[1:]
	}
}

// reason says why an offer is taken back.
func (f *Feed) reason(fence permission.Fence, again bool) string {
	if again {
		return api.CancelOfferedAgain
	}
	switch how, _ := f.Desk.Ended(fence.Chat, fence.Occurrence); how {
	case permission.EndedAnswered:
		return api.CancelResolved
	case permission.EndedUnknown:
		return api.CancelUnknown
	}
	return api.CancelAborted
}

// Answer takes a client's answer to an event. The desk decides whether it is
// the first.
func (f *Feed) Answer(ctx context.Context, event string, req api.EventAnswerRequest, by chat.Principal) (api.EventAnswered, error) {
	f.clients.mu.Lock()
	me := f.clients.byID[req.ClientID]
	var o offer
	found := false
	if me != nil && me.offers[event] != nil {
		o, found = *me.offers[event], true
	}
	f.clients.mu.Unlock()
	if !found {
		return api.EventAnswered{}, api.NewError(api.CodeRequestGone, "this connection was not offered such a request",
			"It belongs to an earlier connection. What is open is shown again.")
	}
	switch req.Kind {
	case api.AnswerNext:
		return api.EventAnswered{Outcome: api.AnswerNext, Waiting: f.pass(me, event)}, nil
	case api.AnswerResult, api.AnswerRejection:
	default:
		return api.EventAnswered{}, api.NewError(api.CodeInvalid, "kind must be result, rejection or next", "")
	}
	var (
		resolved api.Resolved
		err      error
	)
	if o.kind == row.KindQuestion {
		resolved, err = f.Chats.Answer(ctx, o.fence, api.AnswerRequest{
			Answers: req.Answers, Decline: req.Kind == api.AnswerRejection, Message: req.Message,
		}, by)
	} else {
		decide := api.DecideRequest{OptionID: req.OptionID, Decision: req.Decision, Message: req.Message}
		if req.Kind == api.AnswerRejection {
			decide.OptionID, decide.Decision = "", refusal(o.ask)
		}
		if decide.OptionID == "" && decide.Decision == "" {
			return api.EventAnswered{}, api.NewError(api.CodeInvalid, "give either optionId or decision", "")
		}
		resolved, err = f.Chats.Decide(ctx, o.fence, decide, by)
	}
	if err != nil {
		return api.EventAnswered{}, err
	}
	return api.EventAnswered{Outcome: resolved.Outcome}, nil
}

// pass notes that a client leaves an event to others and returns how many of
// them have yet to say something. When nobody is left the request stays open:
// nothing is answered for the user.
func (f *Feed) pass(me *client, event string) (waiting int) {
	f.clients.mu.Lock()
	defer f.clients.mu.Unlock()
	if o := me.offers[event]; o != nil {
		o.passed = true
	}
	for _, c := range f.clients.byID {
		if o := c.offers[event]; o != nil && !o.passed && !o.over {
			waiting++
		}
	}
	return waiting
}

// refusal returns the decision of a permission's mildest refusal.
func refusal(ask json.RawMessage) row.Decision {
	var r row.Row
	if err := r.UnmarshalJSON(ask); err == nil {
		if p, ok := r.Body.(*row.Permission); ok && !slices.ContainsFunc(p.Options, func(o row.PermissionOption) bool { return o.Decision == row.Deny }) {
			return row.DenyStop
		}
	}
	return row.Deny
}
