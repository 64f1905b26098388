package chat

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"garcon/proto/api"
	"garcon/store/ledger"
)

// defaultPageMessages is how many messages a page holds when none are asked
// for.
const defaultPageMessages = 50

// Control returns a chat's transient state.
func (s *Service) Control(id string) (api.Control, error) {
	o, err := s.owner(id)
	if err != nil {
		return api.Control{}, err
	}
	return o.control(), nil
}

// PageQuery chooses a page of a transcript. Through and Before are ordinals;
// -1 stands for the newest row and for none.
type PageQuery struct {
	Through, Before int64
	Max             int
	Child           string
	// Heads replaces large rows by their heads.
	Heads bool
}

// Page returns a page of a transcript. It starts nothing.
func (s *Service) Page(ctx context.Context, id string, q PageQuery) (api.Page, error) {
	o, err := s.owner(id)
	if err != nil {
		return api.Page{}, err
	}
	out := api.Page{ChatID: id, Through: -1, Rows: []json.RawMessage{}}
	l, err := s.ledgers.Open(ctx, o.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return api.Page{}, storageError(err)
	}
	defer l.Release()
	if q.Max <= 0 {
		q.Max = defaultPageMessages
	}
	if q.Through < 0 {
		q.Through = l.Last(q.Child)
	}
	page, err := l.Page(ctx, ledger.PageQuery{
		Through: q.Through, Before: q.Before, MaxMessages: min(q.Max, api.MaxPageMessages), Child: q.Child,
	})
	if err != nil {
		return api.Page{}, storageError(err)
	}
	out.View, out.Through, out.HasMore = page.View, q.Through, page.HasMore
	for _, r := range page.Rows {
		encoded := json.RawMessage(r.JSON)
		if q.Heads {
			encoded = s.heads.of(id, page.View, r)
		}
		out.Rows = append(out.Rows, encoded)
	}
	return out, nil
}

// Body returns one row whole.
func (s *Service) Body(ctx context.Context, id, child string, ordinal int64) (json.RawMessage, error) {
	o, err := s.owner(id)
	if err != nil {
		return nil, err
	}
	l, err := o.ledger(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	stored, err := l.Row(ctx, child, ordinal)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, api.NewError(api.CodeNotFound, "the transcript has no such row", "")
	}
	if err != nil {
		return nil, storageError(err)
	}
	return stored.JSON, nil
}

// Seen is what a client has seen of a chat.
type Seen struct {
	// After is the ordinal of the last row, -1 for none.
	After int64
	// Control and Live are revisions, 0 for none. NoLive skips live parts.
	Control, Live uint64
	NoLive        bool
}

// Changes returns what is new since seen, waiting for something until wait is
// over; then it returns an empty answer.
func (s *Service) Changes(ctx, wait context.Context, id string, seen Seen) (api.Changes, error) {
	o, err := s.owner(id)
	if err != nil {
		return api.Changes{}, err
	}
	l, err := s.ledgers.Open(ctx, id)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return api.Changes{}, storageError(err)
	}
	if l != nil {
		defer func() { l.Release() }()
	}
	for {
		o.mu.Lock()
		changed, deleted, live := o.changed, o.deleted, o.liveRevision
		o.mu.Unlock()
		if l == nil {
			// The chat is there and its first row is not yet.
			if l, err = s.ledgers.Open(ctx, id); err != nil && !errors.Is(err, ledger.ErrNotFound) {
				return api.Changes{}, storageError(err)
			}
		}
		out := api.Changes{After: seen.After, Rows: []json.RawMessage{}, LiveRevision: seen.Live, Deleted: deleted}
		if l != nil && !deleted {
			if err := readAfter(ctx, l, &out); err != nil {
				return api.Changes{}, err
			}
		}
		if c := o.control(); c.Revision != seen.Control {
			out.Control = &c
		}
		if !seen.NoLive && live != seen.Live {
			out.Live, out.LiveRevision = o.liveParts()
		}
		if len(out.Rows) > 0 || out.Control != nil || out.LiveRevision != seen.Live || deleted {
			return out, nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return api.Changes{}, errClosing()
		case <-wait.Done():
			return out, nil
		}
	}
}

// readAfter adds the rows after out.After, as many as the ledger gives at
// once.
func readAfter(ctx context.Context, l *ledger.Ledger, out *api.Changes) error {
	head := l.Head()
	out.View = head.View
	if head.Last <= out.After {
		return nil
	}
	rows, err := l.Read(ctx, "", out.After+1)
	if err != nil {
		return storageError(err)
	}
	for _, r := range rows {
		out.Rows = append(out.Rows, r.JSON)
		out.After = r.Row.Ordinal
	}
	return nil
}

// eachRow calls f with every row of a transcript that is there now, oldest
// first. Each read is one short transaction of the ledger.
func (s *Service) eachRow(ctx context.Context, id, child string, f func(ledger.Stored) error) error {
	o, err := s.owner(id)
	if err != nil {
		return err
	}
	l, err := s.ledgers.Open(ctx, o.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storageError(err)
	}
	defer l.Release()
	last := l.Last(child)
	for next := int64(0); next <= last; {
		rows, err := l.Read(ctx, child, next)
		if err != nil {
			return storageError(err)
		}
		if len(rows) == 0 {
			return nil
		}
		for _, r := range rows {
			if r.Row.Ordinal > last {
				return nil
			}
			if err := f(r); err != nil {
				return err
			}
			next = r.Row.Ordinal + 1
		}
	}
	return nil
}

// Attach stores an uploaded file.
func (s *Service) Attach(ctx context.Context, r io.Reader, name, mediaType string) (api.Uploaded, error) {
	digest, size, err := s.attachments.Put(ctx, r, api.MaxAttachment)
	if err != nil {
		return api.Uploaded{}, storageError(err)
	}
	return api.Uploaded{Digest: digest, Size: size, Name: name, MediaType: mediaType}, nil
}

// Attachment opens a stored file.
func (s *Service) Attachment(digest string) (io.ReadSeekCloser, int64, error) {
	f, size, err := s.attachments.Open(digest)
	if err != nil {
		return nil, 0, api.NewError(api.CodeNotFound, "there is no such attachment", "")
	}
	return f, size, nil
}
