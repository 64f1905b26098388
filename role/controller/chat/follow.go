package chat

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/store/ledger"
)

const (
	// liveInterval is the least time between two updates of live parts to one
	// follower: a frame of a display. What comes meanwhile is in the next.
	liveInterval = 16 * time.Millisecond
	// maxBacklog is how many bytes of rows a follower may be behind and still
	// be sent them all; beyond it is sent the newest page again.
	maxBacklog = 4 << 20
)

// FollowQuery chooses what a [Follow] shows.
type FollowQuery struct {
	// Child selects a subagent's transcript.
	Child string
	// MaxMessages is that of the snapshot's page.
	MaxMessages int
}

// Follow shows one chat as it changes: a snapshot, then rows without gaps, live
// parts and the list row. It holds nothing for a reader that is behind: what
// happened meanwhile is read when the reader comes back, or skipped by another
// snapshot. It is for one goroutine and starts no agent.
type Follow struct {
	s     *Service
	owner *owner
	query FollowQuery

	// rows is nil until the chat has a transcript.
	rows   *ledger.Follower
	ledger *ledger.Ledger
	// begun says that the snapshot has been given and still holds.
	begun  bool
	view   string
	cursor int64

	header api.Chat
	// seen are the revisions of what the header was made of.
	seen seenHeader
	// parts are the live parts the reader knows, by serial.
	parts map[uint64]*sentPart
	// liveAt is when live parts may be sent again.
	liveAt time.Time
}

type seenHeader struct {
	record  int64
	control uint64
}

// Follow begins to show a chat. Close it.
func (s *Service) Follow(ctx context.Context, id string, q FollowQuery) (*Follow, error) {
	o, err := s.owner(id)
	if err != nil {
		return nil, err
	}
	if q.MaxMessages <= 0 {
		q.MaxMessages = defaultPageMessages
	}
	q.MaxMessages = min(q.MaxMessages, api.MaxPageMessages)
	if q.Child != "" {
		if err := s.checkChild(ctx, id, q.Child); err != nil {
			return nil, err
		}
	}
	return &Follow{s: s, owner: o, query: q, cursor: -1, parts: map[uint64]*sentPart{}}, nil
}

// errFound ends a search.
var errFound = errors.New("found")

// checkChild reports a subagent that is not the chat's. The chat's own
// transcript decides, which a subagent's rows may not have reached yet.
func (s *Service) checkChild(ctx context.Context, id, child string) error {
	l, err := s.ledgers.Open(ctx, id)
	if err == nil {
		defer l.Release()
		children, err := l.Children(ctx)
		if err != nil {
			return storageError(err)
		}
		if slices.ContainsFunc(children, func(c ledger.Child) bool { return c.ID == child }) {
			return nil
		}
	} else if !errors.Is(err, ledger.ErrNotFound) {
		return storageError(err)
	}
	err = s.eachRow(ctx, id, "", func(r ledger.Stored) error {
		if b, ok := r.Row.Body.(*row.Subagent); ok && b.ChildID == child {
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return nil
	case err != nil:
		return err
	}
	return api.NewError(api.CodeNotFound, "the chat has no such subagent", "")
}

// Close ends the follow.
func (f *Follow) Close() {
	if f.rows != nil {
		f.rows.Close()
		f.rows = nil
	}
	if f.ledger != nil {
		f.ledger.Release()
		f.ledger = nil
	}
}

// Next blocks until there is something to show. It fails when the chat is
// deleted or its transcript cannot be read, or the service closes.
func (f *Follow) Next(ctx context.Context) (api.FollowItem, error) {
	for {
		f.owner.mu.Lock()
		changed, deleted := f.owner.changed, f.owner.deleted
		f.owner.mu.Unlock()
		if deleted {
			return api.FollowItem{}, f.s.notFound(f.owner.id)
		}
		if !f.begun {
			return f.snapshot(ctx)
		}
		item, grown, err := f.news(ctx)
		if err != nil {
			return api.FollowItem{}, err
		}
		if !f.begun {
			continue
		}
		if item != nil {
			return *item, nil
		}
		live, later := f.live()
		if live != nil {
			return *live, nil
		}
		if header := f.changedHeader(); header != nil {
			return *header, nil
		}
		var timer <-chan time.Time
		if later > 0 {
			// There is something to send and it is too early. Until then only rows
			// count: waking for every token would cost more than sending them.
			timer, changed = time.After(later), nil
		}
		select {
		case <-changed:
		case <-grown:
		case <-timer:
		case <-f.s.ctx.Done():
			return api.FollowItem{}, errClosing()
		case <-ctx.Done():
			return api.FollowItem{}, context.Cause(ctx)
		}
	}
}

// snapshot makes the first item, or one that replaces all before it.
func (f *Follow) snapshot(ctx context.Context) (api.FollowItem, error) {
	f.Close()
	c, ok := f.s.registry.Chat(f.owner.id)
	if !ok {
		return api.FollowItem{}, f.s.notFound(f.owner.id)
	}
	f.view, f.cursor = c.View, -1
	page, err := f.open(ctx)
	if err != nil {
		return api.FollowItem{}, err
	}
	f.begun = true
	f.noteHeader()
	item := api.FollowItem{
		Type: api.ItemSnapshot, View: f.view, Header: &f.header, Cursor: f.cursor,
		Rows: f.encoded(page.Rows), HasMore: page.HasMore,
	}
	clear(f.parts)
	item.Live = f.owner.liveNews(f.query.Child, f.parts, page.Rows)
	f.liveAt = time.Now().Add(liveInterval)
	header := f.header
	item.Header = &header
	return item, nil
}

// open opens the transcript and returns its newest page; both are empty when
// there is none yet.
func (f *Follow) open(ctx context.Context) (ledger.Page, error) {
	l, err := f.s.ledgers.Open(ctx, f.owner.id)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Page{}, nil
	}
	if err != nil {
		return ledger.Page{}, storageError(err)
	}
	f.ledger = l
	for {
		head := l.Head()
		last := l.Last(f.query.Child)
		page, err := l.Page(ctx, ledger.PageQuery{
			View: head.View, Through: last, Before: -1, MaxMessages: f.query.MaxMessages, Child: f.query.Child,
		})
		if err == nil {
			f.rows, err = l.Follow(last+1, f.query.Child)
		}
		if err == nil && l.Head().View == head.View {
			f.view, f.cursor = head.View, last
			return page, nil
		}
		// A replacement of the view came in between; the next look sees the new
		// one.
		if f.rows != nil {
			f.rows.Close()
			f.rows = nil
		}
		if err != nil && l.Head().View == head.View {
			return ledger.Page{}, storageError(err)
		}
	}
}

func (f *Follow) encoded(rows []ledger.Stored) []json.RawMessage {
	out := make([]json.RawMessage, len(rows))
	for i, r := range rows {
		out[i] = f.s.heads.of(f.owner.id, f.view, r)
	}
	return out
}

// news returns the rows that came, or a channel to wait on. When the reader is
// too far behind, or the transcript was replaced, it clears f.begun instead.
func (f *Follow) news(ctx context.Context) (*api.FollowItem, <-chan struct{}, error) {
	if f.rows == nil {
		// The chat is there and its first row was not yet.
		page, err := f.open(ctx)
		if err != nil || f.rows == nil {
			return nil, nil, err
		}
		switch {
		case len(page.Rows) == 0:
			return f.news(ctx)
		case page.HasMore:
			f.begun = false
			return nil, nil, nil
		}
		f.owner.endParts(f.parts, page.Rows)
		return &api.FollowItem{Type: api.ItemRows, Cursor: f.cursor, Rows: f.encoded(page.Rows)}, nil, nil
	}
	item := &api.FollowItem{Type: api.ItemRows}
	for size := 0; ; {
		rows, wait, err := f.rows.Poll()
		switch {
		case errors.Is(err, ledger.ErrViewReplaced):
			f.begun = false
			return nil, nil, nil
		case err != nil:
			return nil, nil, f.readError(err)
		case len(rows) == 0 && len(item.Rows) == 0:
			return nil, wait, nil
		case len(rows) == 0:
			item.Cursor = f.cursor
			return item, nil, nil
		}
		for _, e := range f.encoded(rows) {
			size += len(e)
			item.Rows = append(item.Rows, e)
		}
		f.cursor = rows[len(rows)-1].Row.Ordinal
		f.owner.endParts(f.parts, rows)
		if size > maxBacklog {
			f.begun = false
			return nil, nil, nil
		}
	}
}

// readError says why a transcript can be read no further. A ledger that was
// closed belongs to a chat that is being deleted, or the service is closing.
func (f *Follow) readError(err error) error {
	if !errors.Is(err, ledger.ErrClosed) {
		return storageError(err)
	}
	select {
	case <-f.s.ctx.Done():
		return errClosing()
	default:
		return f.s.notFound(f.owner.id)
	}
}

// live returns what changed of the live parts, or how long to wait before
// looking.
func (f *Follow) live() (item *api.FollowItem, later time.Duration) {
	if wait := time.Until(f.liveAt); wait > 0 {
		if f.owner.hasLiveNews(f.query.Child, f.parts) {
			return nil, wait
		}
		return nil, 0
	}
	item = &api.FollowItem{Type: api.ItemLive, Cursor: f.cursor}
	item.Live = f.owner.liveNews(f.query.Child, f.parts, nil)
	gone := f.owner.vanished(f.parts)
	if len(gone) > 0 && (f.ledger == nil || f.cursor >= f.ledger.Last(f.query.Child)) {
		// Their rows, had they become any, would have been sent.
		for _, serial := range gone {
			if p := f.parts[serial]; !p.ended {
				item.Ended = append(item.Ended, p.id)
			}
			delete(f.parts, serial)
		}
	}
	if len(item.Live) == 0 && len(item.Ended) == 0 {
		return nil, 0
	}
	f.liveAt = time.Now().Add(liveInterval)
	return item, 0
}

// noteHeader makes the list row anew and reports whether it differs.
func (f *Follow) noteHeader() bool {
	c, ok := f.s.registry.Chat(f.owner.id)
	if !ok {
		return false // the deletion is about to be seen
	}
	f.owner.mu.Lock()
	seen := seenHeader{c.Revision, f.owner.revision}
	f.owner.mu.Unlock()
	if seen == f.seen {
		return false
	}
	header := f.s.present(c)
	f.seen = seen
	if reflect.DeepEqual(header, f.header) {
		return false
	}
	f.header = header
	return true
}

func (f *Follow) changedHeader() *api.FollowItem {
	if !f.noteHeader() {
		return nil
	}
	header := f.header
	return &api.FollowItem{Type: api.ItemHeader, Header: &header, Cursor: f.cursor}
}
