package ledger

import (
	"context"
	"errors"
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

// Read returns rows from the ordinal on, as many as one short transaction
// gives; it waits for the first of them to be committed, until ctx ends.
func (l *Ledger) Read(ctx context.Context, child string, from int64) ([]Stored, error) {
	f, err := l.Follow(from, child)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Next(ctx)
}

// Last returns the ordinal of the newest row of a transcript, -1 when it has
// none.
func (l *Ledger) Last(ctx context.Context, child string) (int64, error) {
	if child == "" {
		return l.Head().Last, nil
	}
	children, err := l.Children(ctx)
	if err != nil {
		return -1, err
	}
	for _, c := range children {
		if c.ID == child {
			return c.Last, nil
		}
	}
	return -1, nil
}
