package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	bolt "go.etcd.io/bbolt"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// importBytes is how much of an import goes into one transaction of the staged
// file: enough to spread its cost, little enough to keep in memory.
const importBytes = 1 << 20

// Replace imports rows into a staged file and swaps it in atomically under a
// new view id. next gives the rows in order and [io.EOF] after the last. On any
// failure the current view is untouched. Rows appended since the call make it
// fail with [ErrChanged]. Client message ids, watermarks and the native session
// are kept; followers end with [ErrViewReplaced].
func (l *Ledger) Replace(ctx context.Context, view string, next func(context.Context) ([]row.Row, error)) (Head, error) {
	base, err := l.snapshot()
	if err != nil {
		return Head{}, err
	}
	if view == "" || view == base.state.head.View {
		return Head{}, fmt.Errorf("%w: a replacement needs a new view id", ErrInvalid)
	}
	staged, err := boltfile.Stage(l.path, l.set.format, l.set.faults)
	if err != nil {
		return Head{}, err
	}
	st := newState(l.id, CreateMeta{View: view})
	err = staged.Update(l.set.layout.create)
	for err == nil {
		var rows []row.Row
		if rows, err = next(ctx); err == nil {
			st, err = l.stage(staged, st, rows)
		}
	}
	if !errors.Is(err, io.EOF) {
		staged.Discard()
		return Head{}, fmt.Errorf("reload the transcript of chat %s: %w", l.id, err)
	}
	var head Head
	closed := l.control(ctx, func() { head, err = l.swap(staged, st, base) })
	if closed != nil {
		staged.Discard()
		return Head{}, closed
	}
	return head, err
}

// stage adds rows to the staged file.
func (l *Ledger) stage(staged *boltfile.Staged, st *state, rows []row.Row) (*state, error) {
	for len(rows) > 0 {
		p := newPlan(l.set.layout, st)
		for size := 0; len(rows) > 0 && size < importBytes; rows = rows[1:] {
			e, err := encode(rows[0], l.set.now)
			if err != nil {
				return nil, err
			}
			size += len(e.json)
			p.add(e)
		}
		if err := p.finish(); err != nil {
			return nil, err
		}
		if err := staged.Update(p.apply); err != nil {
			return nil, err
		}
		st = p.state
	}
	return st, nil
}

// swap puts the staged file in place of the ledger's. It runs in the writer
// goroutine and consumes staged.
func (l *Ledger) swap(staged *boltfile.Staged, st *state, base snapshot) (Head, error) {
	err := l.recover()
	if err == nil && l.state.head.Commit != base.state.head.Commit {
		err = ErrChanged
	}
	if err == nil {
		err = l.carryClients(staged)
	}
	p := newPlan(l.set.layout, st)
	h := &p.state.head
	h.Watermarks, h.Session = l.state.head.Watermarks, l.state.head.Session
	h.Commit = l.state.head.Commit
	if err == nil {
		err = p.finish()
	}
	if err == nil {
		err = staged.Update(p.apply)
	}
	if err != nil {
		staged.Discard()
		return Head{}, l.fail(err)
	}
	file, err := staged.Publish(l.file != nil)
	if err != nil {
		return Head{}, l.fail(err)
	}
	old := l.file
	l.mu.Lock()
	l.file, l.state = file, p.state
	l.views++
	for _, t := range l.tails {
		t.commits, t.bytes = nil, 0
	}
	l.wakeLocked()
	l.mu.Unlock()
	if old != nil {
		if err := old.Close(); err != nil {
			l.set.log.Warn("close a replaced ledger", "chat", l.id, "err", err)
		}
	}
	return p.state.public(), nil
}

// carryBatch is how many client message ids are copied in one transaction.
const carryBatch = 1000

// carryClients copies the client message ids, so that a submission repeated
// after a reload is still recognized. Their rows are gone.
func (l *Ledger) carryClients(staged *boltfile.Staged) error {
	if l.file == nil {
		return nil
	}
	space := l.set.layout.clients
	var after []byte
	for {
		var puts []put
		err := l.file.View(func(tx *bolt.Tx) error {
			c := tx.Bucket(space.Name).Cursor()
			k, v := c.Seek(after)
			for ; k != nil && len(puts) < carryBatch; k, v = c.Next() {
				plain, err := space.Unseal(k, v)
				if err != nil {
					return err
				}
				var r clientRecord
				if err := json.Unmarshal(plain, &r); err != nil {
					return damaged("the record of client message %q is not readable", k)
				}
				r.First, r.Last = -1, -1
				data, err := json.Marshal(r)
				if err != nil {
					return err
				}
				key := append([]byte(nil), k...)
				puts = append(puts, put{space, key, space.Seal(key, data)})
			}
			return nil
		})
		if err != nil || len(puts) == 0 {
			return err
		}
		after = append(puts[len(puts)-1].key, 0)
		p := plan{layout: l.set.layout, puts: puts}
		if err := staged.Update(p.apply); err != nil {
			return err
		}
	}
}
