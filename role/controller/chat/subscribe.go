package chat

import (
	"slices"
	"sync"

	"garcon/proto/api"
	"garcon/store/registry"
)

// maxNews bounds the notifications a subscription holds for a reader that is
// behind. The oldest go: what must be right is in a list or a state.
const maxNews = 64

// Subscription collects what happens to all chats: the ids of those whose list
// row or transient state changed, each once however often it did, and
// notifications. It never holds up the service. Ids are complete; of the
// notifications at most [maxNews] wait and the rest is counted.
type Subscription struct {
	from *subscribers
	wake chan struct{} // holds one token while there is something to take

	mu     sync.Mutex // guards what follows
	chats  map[string]struct{}
	news   []api.Notification
	missed int
}

// subscribers are the subscriptions of a service. Its lock is taken after an
// owner's and before a subscription's.
type subscribers struct {
	mu  sync.Mutex
	all map[*Subscription]struct{}
}

// Subscribe begins to collect. Close the subscription.
func (s *Service) Subscribe() *Subscription {
	sub := &Subscription{from: &s.subs, wake: make(chan struct{}, 1), chats: map[string]struct{}{}}
	s.subs.mu.Lock()
	defer s.subs.mu.Unlock()
	s.subs.all[sub] = struct{}{}
	return sub
}

// Close ends the subscription.
func (sub *Subscription) Close() {
	sub.from.mu.Lock()
	defer sub.from.mu.Unlock()
	delete(sub.from.all, sub)
}

// Wake gives a value when there is something to take.
func (sub *Subscription) Wake() <-chan struct{} { return sub.wake }

// News is what a subscription has collected.
type News struct {
	// Chats are the ids of chats that changed or are gone.
	Chats []string
	// Events are notifications, oldest first. Missed is how many came before
	// them and were dropped.
	Events []api.Notification
	Missed int
}

// Take returns what was collected since the last call.
func (sub *Subscription) Take() News {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	n := News{Chats: make([]string, 0, len(sub.chats)), Events: sub.news, Missed: sub.missed}
	for id := range sub.chats {
		n.Chats = append(n.Chats, id)
	}
	slices.Sort(n.Chats)
	clear(sub.chats)
	sub.news, sub.missed = nil, 0
	return n
}

func (s *subscribers) each(f func(*Subscription)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sub := range s.all {
		sub.mu.Lock()
		f(sub)
		sub.mu.Unlock()
		select {
		case sub.wake <- struct{}{}:
		default:
		}
	}
}

// changed notes that a chat changed.
func (s *subscribers) changed(id string) {
	s.each(func(sub *Subscription) { sub.chats[id] = struct{}{} })
}

// announce notes that something happened.
func (s *subscribers) announce(n api.Notification) {
	s.each(func(sub *Subscription) {
		if len(sub.news) == maxNews {
			sub.news = slices.Delete(sub.news, 0, 1)
			sub.missed++
		}
		sub.news = append(sub.news, n)
	})
}

// recordChanged takes news of the registry. It runs on the registry's writer
// goroutine.
func (s *Service) recordChanged(c registry.Change) {
	id := c.Removed
	if c.Chat != nil {
		id = c.Chat.ID
	}
	s.mu.Lock()
	o := s.owners[id]
	s.mu.Unlock()
	if o != nil {
		o.wake()
	}
	s.subs.changed(id)
}

// The kinds of notifications.
const (
	newsFinished = "run-finished"
	newsFailed   = "run-failed"
	newsAsked    = "asked"
)

// announce tells subscribers what happened in a turn of the chat.
func (o *owner) announce(kind, turn, text string, duration int64) {
	c, ok := o.s.registry.Chat(o.id)
	if !ok {
		return
	}
	o.s.subs.announce(api.Notification{
		Kind: kind, ChatID: o.id, TurnID: turn, Title: c.Title, Text: preview(text), DurationMs: duration,
	})
}

// Controls returns the transient state of every chat that is not idle and
// empty, by chat id.
func (s *Service) Controls() []api.Control {
	out := []api.Control{}
	for _, o := range s.live() {
		if c := o.control(); !quiet(c) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b api.Control) int {
		if a.ChatID < b.ChatID {
			return -1
		}
		return 1
	})
	return out
}

func quiet(c api.Control) bool {
	return c.Phase == api.PhaseIdle && len(c.Queue.Entries) == 0 && !c.Queue.Paused && len(c.Pending) == 0 && len(c.Jobs) == 0
}

// Known says what is known of a chat's transient state without touching it.
type Known int

const (
	// Gone: there is no such chat.
	Gone Known = iota
	// Untouched: nothing has happened to it in this process.
	Untouched
	// Touched: it has a state.
	Touched
)

// Peek returns the transient state of a chat that has one.
func (s *Service) Peek(id string) (api.Control, Known) {
	if _, ok := s.registry.Chat(id); !ok {
		return api.Control{}, Gone
	}
	s.mu.Lock()
	o := s.owners[id]
	s.mu.Unlock()
	if o == nil {
		return api.Control{}, Untouched
	}
	return o.control(), Touched
}
