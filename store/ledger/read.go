package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// Bounds of one read.
const (
	// maxPageBytes bounds the rows of a page and of one read of a follower,
	// unless a single row is larger.
	maxPageBytes = 2 << 20
	// maxPageMessages bounds PageQuery.MaxMessages.
	maxPageMessages = 1000
)

// snapshot is what a reader needs of the ledger at one moment.
type snapshot struct {
	state *state
	file  *boltfile.File
	views int
}

func (l *Ledger) snapshot() (snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return snapshot{l.state, l.file, l.views}, l.dead
}

// view runs read against the current state until it was not disturbed by a
// replacement of the view, which closes the file under it.
func (l *Ledger) view(read func(snapshot) error) error {
	for {
		s, err := l.snapshot()
		if err != nil {
			return err
		}
		err = read(s)
		if errors.Is(err, boltfile.ErrClosed) {
			if again, dead := l.snapshot(); dead == nil && again.views == s.views {
				return ErrClosed
			}
			continue
		}
		return l.fail(err)
	}
}

// Page returns the rows before a position, back to the MaxMessages-th message
// or to [maxPageBytes], whichever comes first.
func (l *Ledger) Page(ctx context.Context, q PageQuery) (Page, error) {
	if q.MaxMessages < 1 || q.Through < -1 || q.Before < -1 {
		return Page{}, fmt.Errorf("%w: page of %d messages through %d before %d", ErrInvalid, q.MaxMessages, q.Through, q.Before)
	}
	if err := checkID("child id", q.Child); err != nil {
		return Page{}, err
	}
	var page Page
	err := l.view(func(s snapshot) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		seq := s.state.sequence(q.Child)
		if q.View != "" && q.View != s.state.head.View {
			return ErrViewReplaced
		}
		if q.Through >= seq.Rows {
			return fmt.Errorf("%w: page through %d of %d rows", ErrInvalid, q.Through, seq.Rows)
		}
		page = Page{First: -1, Last: -1, View: s.state.head.View, Through: q.Through}
		end := q.Through
		if q.Before >= 0 {
			end = min(end, q.Before-1)
		}
		if end < 0 {
			return nil
		}
		var raw [][]byte
		t := l.set.layout.transcript(q.Child)
		err := s.file.View(func(tx *bolt.Tx) error {
			start, err := t.messageBefore(tx, end, min(q.MaxMessages, maxPageMessages))
			if err != nil {
				return err
			}
			raw, err = t.backward(tx, start, end, maxPageBytes)
			return err
		})
		if err != nil {
			return err
		}
		page.Last = end
		page.First = end - int64(len(raw)) + 1
		page.HasMore = page.First > 0
		page.Rows, err = decode(raw)
		return err
	})
	return page, err
}

// messageBefore returns the ordinal of the n-th message at or before end, 0
// when there are fewer.
func (t transcript) messageBefore(tx *bolt.Tx, end int64, n int) (int64, error) {
	c := tx.Bucket(t.anchors.Name).Cursor()
	k, v := seekAtOrBefore(c, t.key(end))
	start, index := int64(0), int64(-1)
	for range n {
		ordinal, ok := int64(0), false
		if k != nil {
			ordinal, ok = t.ordinal(k)
		}
		if !ok {
			if index > 0 {
				return 0, damaged("%d messages are missing before row %d", index, start)
			}
			return 0, nil
		}
		i, err := unsealAnchor(t.anchors, k, v)
		if err != nil {
			return 0, err
		}
		if index >= 0 && i != index-1 {
			return 0, damaged("a message is missing before row %d", start)
		}
		start, index = ordinal, i
		k, v = c.Prev()
	}
	return start, nil
}

// seekAtOrBefore returns the last entry whose key is not after key.
func seekAtOrBefore(c *bolt.Cursor, key []byte) (k, v []byte) {
	k, v = c.Seek(key)
	switch {
	case k == nil:
		return c.Last()
	case !bytes.Equal(k, key):
		return c.Prev()
	}
	return k, v
}

// backward returns copies of the rows from start to end, in order, cut at the
// front to max bytes.
func (t transcript) backward(tx *bolt.Tx, start, end int64, max int) ([][]byte, error) {
	c := tx.Bucket(t.rows.Name).Cursor()
	k, v := c.Seek(t.key(end))
	var out [][]byte
	size := 0
	for at := end; at >= start; at-- {
		data, err := t.row(k, v, at)
		if err != nil {
			return nil, err
		}
		if size += len(data); size > max && len(out) > 0 {
			break
		}
		out = append(out, bytes.Clone(data))
		if at > start {
			k, v = c.Prev()
		}
	}
	slices.Reverse(out)
	return out, nil
}

// forward returns copies of the rows from start up to before end, cut to max
// bytes.
func (t transcript) forward(tx *bolt.Tx, start, end int64, max int) ([][]byte, error) {
	c := tx.Bucket(t.rows.Name).Cursor()
	k, v := c.Seek(t.key(start))
	var out [][]byte
	size := 0
	for at := start; at < end; at++ {
		data, err := t.row(k, v, at)
		if err != nil {
			return nil, err
		}
		if size += len(data); size > max && len(out) > 0 {
			break
		}
		out = append(out, bytes.Clone(data))
		if at < end-1 {
			k, v = c.Next()
		}
	}
	return out, nil
}

// row checks that the entry is the row at the ordinal and returns its JSON,
// which is valid within the transaction.
func (t transcript) row(k, v []byte, at int64) ([]byte, error) {
	if found, ok := t.ordinal(k); !ok || found != at {
		return nil, damaged("row %d is missing", at)
	}
	return t.rows.Unseal(k, v)
}

// decode makes rows of their JSON.
func decode(raw [][]byte) ([]Stored, error) {
	out := make([]Stored, len(raw))
	for i, data := range raw {
		r, err := row.Decode(data)
		if err != nil {
			return nil, err
		}
		out[i] = Stored{Row: r, JSON: data}
	}
	return out, nil
}

// Row returns one row.
func (l *Ledger) Row(ctx context.Context, child string, ordinal int64) (Stored, error) {
	if err := checkID("child id", child); err != nil {
		return Stored{}, err
	}
	var out Stored
	err := l.view(func(s snapshot) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if ordinal < 0 || ordinal >= s.state.sequence(child).Rows {
			return ErrNotFound
		}
		rows, err := l.set.layout.read(s.file, child, ordinal, ordinal+1)
		if err == nil {
			out = rows[0]
		}
		return err
	})
	return out, err
}

// read returns the rows from start up to before end, or the first of them up to
// [maxPageBytes].
func (l *layout) read(file *boltfile.File, child string, start, end int64) ([]Stored, error) {
	var raw [][]byte
	t := l.transcript(child)
	err := file.View(func(tx *bolt.Tx) (err error) {
		raw, err = t.forward(tx, start, end, maxPageBytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

// Children lists the subagents' transcripts, by id.
func (l *Ledger) Children(ctx context.Context) ([]Child, error) {
	s, err := l.snapshot()
	if err != nil {
		return nil, err
	}
	out := make([]Child, 0, len(s.state.children))
	for id, q := range s.state.children {
		out = append(out, Child{ID: id, Last: q.Rows - 1, Rows: q.Rows, Messages: q.Messages})
	}
	slices.SortFunc(out, func(a, b Child) int { return strings.Compare(a.ID, b.ID) })
	return out, context.Cause(ctx)
}
