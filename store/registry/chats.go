package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxTitle bounds a title, in bytes.
	MaxTitle = 4 << 10
	// maxChat bounds the record of a chat, in bytes: it is written with every
	// turn and listed with every look.
	maxChat = 64 << 10
	// maxSubmissions bounds the remembered submissions: far more than a client
	// has in flight.
	maxSubmissions = 4096
	// chatIDLength is the length of a chat id: microseconds since 1970 until
	// the year 2286.
	chatIDLength = 16
)

func (c Chat) clone() Chat {
	c.Tags = slices.Clone(c.Tags)
	c.Settings = maps.Clone(c.Settings)
	if c.Position != nil {
		p := *c.Position
		c.Position = &p
	}
	return c
}

// check refuses what must not be stored.
func (c Chat) check() error {
	switch {
	case len(c.ID) != chatIDLength || strings.Trim(c.ID, "0123456789") != "":
		return fmt.Errorf("%w: chat id %q", ErrInvalid, c.ID)
	case len(c.Title) > MaxTitle || !utf8.ValidString(c.Title):
		return fmt.Errorf("%w: a title is at most %d bytes of UTF-8", ErrInvalid, MaxTitle)
	}
	return nil
}

// encode returns the record of a chat.
func (c Chat) encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxChat {
		return nil, fmt.Errorf("%w: the chat's data has %d bytes, more than %d", ErrInvalid, len(raw), maxChat)
	}
	return raw, nil
}

// NewChatID returns an id no chat of this workspace has or had: 16 decimal
// digits, the time in microseconds, never going back.
func (s *Store) NewChatID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastChat = max(s.lastChat+1, s.clock().UnixMicro())
	return fmt.Sprintf("%0*d", chatIDLength, s.lastChat)
}

// Chat returns a chat.
func (s *Store) Chat(id string) (Chat, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, ok := s.chats[id]
	return c.clone(), ok
}

// Chats returns every chat, by id.
func (s *Store) Chats() []Chat {
	s.mu.RLock()
	out := make([]Chat, 0, len(s.chats))
	for _, c := range s.chats {
		out = append(out, c.clone())
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b Chat) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Deleted reports whether a chat of that id existed and was deleted.
func (s *Store) Deleted(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.deleted[id]
}

// submissionRecord is what is kept of a submission.
type submissionRecord struct {
	Fingerprint string `json:"fingerprint"`
	ChatID      string `json:"chatId"`
	// Number orders submissions, for forgetting the oldest.
	Number int64 `json:"number"`
}

// CreateChat stores a new chat; an empty id is assigned. A submission seen
// before returns the chat it created and replayed, or fails with [ErrConflict]
// when its fingerprint differs.
func (s *Store) CreateChat(ctx context.Context, c Chat, sub Submission) (created Chat, replayed bool, err error) {
	c = c.clone()
	if c.ID == "" {
		c.ID = s.NewChatID()
	}
	c.Revision = 1
	raw, err := c.encode()
	if err != nil {
		return Chat{}, false, err
	}
	if err := sub.check(); err != nil {
		return Chat{}, false, err
	}
	// The writer may still be at it when ctx ends, so it has variables of its own.
	result, known := c, false
	err = s.do(ctx, func(t *txn) error {
		earlier, err := lookSubmission(t, sub)
		if err != nil {
			return err
		}
		if earlier != "" {
			if at, ok := t.get(place{bucketChats, earlier}); ok {
				result, known = Chat{}, true
				return json.Unmarshal(at, &result)
			}
			// Its chat was deleted. Making another would bring it back.
			return fmt.Errorf("%w: the chat of this request was deleted", ErrConflict)
		}
		if _, ok := t.get(place{bucketChats, c.ID}); ok {
			return fmt.Errorf("%w: there is a chat %s", ErrConflict, c.ID)
		}
		if _, ok := t.get(place{bucketDeleted, c.ID}); ok {
			return fmt.Errorf("%w: chat %s was deleted", ErrConflict, c.ID)
		}
		t.put(place{bucketChats, c.ID}, raw)
		return keepSubmission(t, sub, c.ID)
	})
	if err != nil {
		return Chat{}, false, err
	}
	return result, known, nil
}

// check refuses what cannot be remembered, or would be taken for a record of
// another kind in the same bucket.
func (s Submission) check() error {
	if len(s.RequestID) > maxKey || strings.HasPrefix(s.RequestID, "\x00") {
		return fmt.Errorf("%w: a request id of %d bytes", ErrInvalid, len(s.RequestID))
	}
	return nil
}

// lookSubmission returns the chat an earlier submission made, "" for none.
func lookSubmission(t *txn, sub Submission) (chatID string, err error) {
	if sub.RequestID == "" {
		return "", nil
	}
	raw, ok := t.get(place{bucketSubmissions, sub.RequestID})
	if !ok {
		return "", nil
	}
	var r submissionRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if r.Fingerprint != sub.Fingerprint {
		return "", fmt.Errorf("%w: the request id was used for another chat", ErrConflict)
	}
	return r.ChatID, nil
}

// submissionsKept says in which records the numbers of submissions begin and
// end. They are in the same bucket under keys no request id has.
const (
	submissionOrder = "\x00order-"
	submissionRange = "\x00range"
)

type numberRange struct {
	First int64 `json:"first"`
	Next  int64 `json:"next"`
}

// keepSubmission remembers a submission and forgets the oldest beyond the
// bound.
func keepSubmission(t *txn, sub Submission, chatID string) error {
	if sub.RequestID == "" {
		return nil
	}
	var r numberRange
	if raw, ok := t.get(place{bucketSubmissions, submissionRange}); ok {
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(submissionRecord{sub.Fingerprint, chatID, r.Next})
	if err != nil {
		return err
	}
	t.put(place{bucketSubmissions, sub.RequestID}, raw)
	t.put(orderPlace(r.Next), []byte(sub.RequestID))
	r.Next++
	for r.Next-r.First > maxSubmissions {
		if id, ok := t.get(orderPlace(r.First)); ok {
			t.remove(place{bucketSubmissions, string(id)})
			t.remove(orderPlace(r.First))
		}
		r.First++
	}
	if raw, err = json.Marshal(r); err != nil {
		return err
	}
	t.put(place{bucketSubmissions, submissionRange}, raw)
	return nil
}

func orderPlace(n int64) place {
	return place{bucketSubmissions, submissionOrder + strconv.FormatInt(n, 10)}
}

// Submission returns the chat that an earlier submission made. It fails with
// [ErrConflict] when the fingerprint differs.
func (s *Store) Submission(ctx context.Context, sub Submission) (chatID string, ok bool, err error) {
	if err := sub.check(); err != nil {
		return "", false, err
	}
	var found string
	err = s.do(ctx, func(t *txn) (err error) {
		found, err = lookSubmission(t, sub)
		return err
	})
	if err != nil {
		return "", false, err
	}
	return found, found != "", nil
}

// UpdateChat changes a chat. change runs on the store's writer goroutine, must
// be cheap and must not call the store; an error from it is returned and
// nothing changes.
func (s *Store) UpdateChat(ctx context.Context, id string, change func(*Chat) error) (Chat, error) {
	var out Chat
	err := s.do(ctx, func(t *txn) error {
		raw, ok := t.get(place{bucketChats, id})
		if !ok {
			return fmt.Errorf("%w: chat %s", ErrNotFound, id)
		}
		var c Chat
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		revision := c.Revision
		if err := change(&c); err != nil {
			return err
		}
		c.ID, c.Revision = id, revision+1
		raw, err := c.encode()
		if err != nil {
			return err
		}
		t.put(place{bucketChats, id}, raw)
		out = c.clone()
		return nil
	})
	if err != nil {
		return Chat{}, err
	}
	return out, nil
}

// DeleteChat removes a chat and remembers that its id was used.
func (s *Store) DeleteChat(ctx context.Context, id string) error {
	return s.do(ctx, func(t *txn) error {
		if _, ok := t.get(place{bucketChats, id}); !ok {
			return fmt.Errorf("%w: chat %s", ErrNotFound, id)
		}
		t.remove(place{bucketChats, id})
		t.put(place{bucketDeleted, id}, []byte("{}"))
		return nil
	})
}

// RetractChat removes a chat that was never accepted, and forgets the
// submission that made it: the same request may be made again.
func (s *Store) RetractChat(ctx context.Context, id, requestID string) error {
	return s.do(ctx, func(t *txn) error {
		if _, ok := t.get(place{bucketChats, id}); !ok {
			return fmt.Errorf("%w: chat %s", ErrNotFound, id)
		}
		t.remove(place{bucketChats, id})
		if raw, ok := t.get(place{bucketSubmissions, requestID}); ok && requestID != "" {
			var r submissionRecord
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
			t.remove(place{bucketSubmissions, requestID})
			t.remove(orderPlace(r.Number))
		}
		return nil
	})
}
