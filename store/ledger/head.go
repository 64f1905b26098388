package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	bolt "go.etcd.io/bbolt"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

var headKey = []byte("head")

// Bounds of what the head keeps, so that it stays a small value written with
// every commit. The oldest entries go first.
const (
	// maxWatermarks: a chat has one live binding; a few more are kept while one
	// follows another.
	maxWatermarks = 8
	maxOpenRuns   = 64
	maxOpenAsks   = 256
)

// sequence counts a transcript. Ordinals have no gaps, so the newest is one
// less than the rows.
type sequence struct {
	Rows     int64 `json:"rows"`
	Messages int64 `json:"messages"`
}

// headRecord is what the meta bucket stores under headKey with every commit.
type headRecord struct {
	ChatID string `json:"chatId"`
	// Commit counts commits. After a failed one it tells whether it took.
	Commit       uint64       `json:"commit"`
	View         string       `json:"view"`
	ContentStart int64        `json:"contentStart,omitempty"`
	Main         sequence     `json:"main"`
	Bytes        int64        `json:"bytes"`
	Watermarks   []Watermark  `json:"watermarks,omitempty"`
	Session      *row.Session `json:"session,omitempty"`
	Runs         []OpenRun    `json:"runs,omitempty"`
	Asks         []OpenAsk    `json:"asks,omitempty"`
}

// state is everything known of a ledger without reading rows. A published state
// is immutable; its successor is made with clone.
type state struct {
	head     headRecord
	children map[string]sequence
}

func newState(chatID string, meta CreateMeta) *state {
	return &state{
		head:     headRecord{ChatID: chatID, View: meta.View, ContentStart: meta.ContentStart},
		children: map[string]sequence{},
	}
}

// clone returns a copy whose children may be changed. Changes to the slices of
// the head must replace them.
func (s *state) clone() *state {
	return &state{head: s.head, children: maps.Clone(s.children)}
}

func (s *state) sequence(child string) sequence {
	if child == "" {
		return s.head.Main
	}
	return s.children[child]
}

func (s *state) setSequence(child string, q sequence) {
	if child == "" {
		s.head.Main = q
		return
	}
	s.children[child] = q
}

func (s *state) watermark(w Watermark) {
	keep := slices.DeleteFunc(slices.Clone(s.head.Watermarks), func(o Watermark) bool { return o.Binding == w.Binding })
	s.head.Watermarks = newest(append(keep, w), maxWatermarks)
}

// track follows which runs and which requests to the user are open.
func (s *state) track(r row.Row) {
	if r.Imported {
		return
	}
	h := &s.head
	switch b := r.Body.(type) {
	case *row.Run:
		if r.RunID == "" || r.Child != "" {
			return
		}
		h.Runs = without(h.Runs, func(o OpenRun) bool { return o.RunID == r.RunID })
		if b.Phase == row.RunStarted {
			h.Runs = newest(append(h.Runs, OpenRun{RunID: r.RunID, TurnID: r.TurnID, Ordinal: r.Ordinal}), maxOpenRuns)
			return
		}
		h.Asks = without(h.Asks, func(o OpenAsk) bool { return o.RunID == r.RunID })
	case *row.Permission:
		s.ask(r, b.Occurrence)
	case *row.Question:
		s.ask(r, b.Occurrence)
	case *row.PermissionResolved:
		h.Asks = without(h.Asks, func(o OpenAsk) bool { return o.Occurrence == b.Occurrence })
	case *row.QuestionResolved:
		h.Asks = without(h.Asks, func(o OpenAsk) bool { return o.Occurrence == b.Occurrence })
	}
}

func (s *state) ask(r row.Row, occurrence string) {
	h := &s.head
	h.Asks = without(h.Asks, func(o OpenAsk) bool { return o.Occurrence == occurrence })
	h.Asks = newest(append(h.Asks, OpenAsk{
		Occurrence: occurrence, Kind: r.Kind(), RunID: r.RunID, TurnID: r.TurnID, Child: r.Child, Ordinal: r.Ordinal,
	}), maxOpenAsks)
}

// without returns a copy of list without the matching elements and with room
// for one more.
func without[T any](list []T, match func(T) bool) []T {
	out := make([]T, 0, len(list)+1)
	for _, e := range list {
		if !match(e) {
			out = append(out, e)
		}
	}
	return out
}

// newest cuts list to its last max elements.
func newest[T any](list []T, max int) []T {
	return list[len(list)-min(len(list), max):]
}

// public returns the state as callers see it.
func (s *state) public() Head {
	h := s.head
	out := Head{
		View: h.View, ContentStart: h.ContentStart, Last: h.Main.Rows - 1, Rows: h.Main.Rows, Messages: h.Main.Messages,
		Bytes: h.Bytes, Watermarks: slices.Clone(h.Watermarks), UnfinishedRuns: slices.Clone(h.Runs), OpenAsks: slices.Clone(h.Asks),
	}
	if h.Session != nil {
		session := *h.Session
		out.Session = &session
	}
	return out
}

// load reads the state of a file and checks it against the newest row.
func (l *layout) load(tx *bolt.Tx, chatID string) (*state, error) {
	s := &state{children: map[string]sequence{}}
	for _, space := range []boltfile.Space{l.meta, l.rows, l.anchors, l.childRows, l.childAnchors, l.children, l.clients} {
		if tx.Bucket(space.Name) == nil {
			return nil, damaged("it has no %s bucket", space.Name)
		}
	}
	if err := l.get(tx, l.meta, headKey, &s.head); err != nil {
		return nil, err
	}
	if s.head.ChatID != chatID {
		return nil, damaged("it is the ledger of chat %s", s.head.ChatID)
	}
	c := tx.Bucket(l.children.Name).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		plain, err := l.children.Unseal(k, v)
		if err != nil {
			return nil, err
		}
		var q sequence
		if err := json.Unmarshal(plain, &q); err != nil {
			return nil, damaged("the sequence of child %q is not readable", k)
		}
		s.children[string(k)] = q
	}
	return s, l.checkEnd(tx, s.head.Main)
}

// checkEnd makes sure that the newest row and the newest message are those the
// head says.
func (l *layout) checkEnd(tx *bolt.Tx, q sequence) error {
	t := l.transcript("")
	last := int64(-1)
	if k, v := tx.Bucket(t.rows.Name).Cursor().Last(); k != nil {
		if _, err := t.rows.Unseal(k, v); err != nil {
			return err
		}
		last, _ = t.ordinal(k)
	}
	if last != q.Rows-1 {
		return damaged("its newest row is %d and should be %d", last, q.Rows-1)
	}
	messages := int64(0)
	if k, v := tx.Bucket(t.anchors.Name).Cursor().Last(); k != nil {
		index, err := unsealAnchor(t.anchors, k, v)
		if err != nil {
			return err
		}
		messages = index + 1
	}
	if messages != q.Messages {
		return damaged("it has anchors for %d messages of %d", messages, q.Messages)
	}
	return nil
}

// get decodes a JSON value that must be there.
func (l *layout) get(tx *bolt.Tx, space boltfile.Space, key []byte, into any) error {
	plain, err := space.Unseal(key, tx.Bucket(space.Name).Get(key))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return damaged("its %s %s is not readable: %v", space.Name, key, err)
	}
	return nil
}

func damaged(format string, args ...any) error {
	return &boltfile.DamageError{Reason: fmt.Sprintf(format, args...)}
}
