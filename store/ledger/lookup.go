package ledger

import (
	"context"
	"encoding/json"
	"errors"

	bolt "go.etcd.io/bbolt"
)

// OpenOrCreate returns the chat's ledger, a new one if there is none. The
// caller must release it.
func (s *Set) OpenOrCreate(ctx context.Context, chatID string, meta CreateMeta) (*Ledger, error) {
	l, err := s.Open(ctx, chatID)
	if !errors.Is(err, ErrNotFound) {
		return l, err
	}
	l, err = s.Create(ctx, chatID, meta)
	if errors.Is(err, ErrExists) {
		return s.Open(ctx, chatID) // somebody else was first
	}
	return l, err
}

// Last returns the ordinal of the newest row of a transcript, -1 when it has
// none.
func (l *Ledger) Last(child string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.sequence(child).Rows - 1
}

// Read returns the rows from an ordinal on, as many as one short transaction
// gives; none when there are none yet.
func (l *Ledger) Read(ctx context.Context, child string, from int64) ([]Stored, error) {
	if err := checkID("child id", child); err != nil {
		return nil, err
	}
	var out []Stored
	err := l.view(func(s snapshot) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		end := s.state.sequence(child).Rows
		if from < 0 || from >= end {
			return nil
		}
		var err error
		out, err = l.set.layout.read(s.file, child, from, end)
		return err
	})
	return out, err
}

// Lookup finds an earlier append with the client message id. It returns the
// ordinal of its first row, -1 when that belongs to a replaced view, and whether
// there was one; with another fingerprint it fails with [ErrConflict].
func (l *Ledger) Lookup(ctx context.Context, clientID, fingerprint string) (first int64, ok bool, err error) {
	err = l.view(func(s snapshot) error {
		first, ok = -1, false
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if s.file == nil {
			return nil // nothing has been committed
		}
		if s.file.Suspect() {
			// The last commit failed and may have taken all the same; only the
			// writer can tell, and undo it.
			var failed error
			if err := l.control(ctx, func() { failed = l.recover() }); err != nil || failed != nil {
				return errors.Join(err, failed)
			}
		}
		var (
			r     clientRecord
			found bool
		)
		err := s.file.View(func(tx *bolt.Tx) (err error) {
			r, found, err = l.set.layout.client(tx, clientID)
			return err
		})
		if err != nil || !found {
			return err
		}
		if r.Fingerprint != fingerprint {
			return ErrConflict
		}
		first, ok = r.First, true
		return nil
	})
	return first, ok, err
}

// client reads the record of a client message id.
func (l *layout) client(tx *bolt.Tx, id string) (r clientRecord, ok bool, err error) {
	key := []byte(id)
	sealed := tx.Bucket(l.clients.Name).Get(key)
	if sealed == nil {
		return r, false, nil
	}
	plain, err := l.clients.Unseal(key, sealed)
	if err != nil {
		return r, false, err
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, false, damaged("the record of client message %q is not readable", id)
	}
	return r, true, nil
}
