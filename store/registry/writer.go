package registry

import (
	"context"
	"errors"

	"garcon/store/internal/boltfile"
)

// maxGroup bounds how many changes share one commit, so that the first of them
// does not wait for ever while others come.
const maxGroup = 512

// change is one request to the writer.
type change struct {
	// apply makes the change. It runs on the writer goroutine.
	apply func(*txn) error
	done  chan error
}

// txn is the state as the changes of a group so far make it.
type txn struct {
	base    records // as committed
	group   records // changes of the group that were accepted
	pending records // changes of this one
}

func (t *txn) get(p place) ([]byte, bool) {
	for _, layer := range []records{t.pending, t.group} {
		if v, ok := layer[p.bucket][p.key]; ok {
			return v, v != nil
		}
	}
	v, ok := t.base[p.bucket][p.key]
	return v, ok
}

func (t *txn) put(p place, value []byte) { t.pending.set(p, value) }

func (t *txn) remove(p place) { t.pending.set(p, nil) }

// do has the writer make a change and returns after its commit. When ctx ends
// first, the outcome is unknown.
func (s *Store) do(ctx context.Context, apply func(*txn) error) error {
	c := &change{apply: apply, done: make(chan error, 1)}
	select {
	case <-s.quit:
		return ErrClosed
	default:
	}
	select {
	case s.changes <- c:
	case <-s.quit:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write serves changes until the store is closed; those that are queued by then
// are still made.
func (s *Store) write() {
	for {
		select {
		case c := <-s.changes:
			s.commit(s.gather(c))
		case <-s.quit:
			for {
				select {
				case c := <-s.changes:
					s.commit(s.gather(c))
				default:
					return
				}
			}
		}
	}
}

// gather returns the first change and those that wait behind it.
func (s *Store) gather(first *change) []*change {
	group := []*change{first}
	for len(group) < maxGroup {
		select {
		case c := <-s.changes:
			group = append(group, c)
		default:
			return group
		}
	}
	return group
}

// commit makes a group of changes in one transaction of the file.
func (s *Store) commit(group []*change) {
	if err := s.settleFailure(); err != nil {
		for _, c := range group {
			c.done <- err
		}
		return
	}
	t := &txn{base: s.committed, group: records{}}
	var accepted []*change
	for _, c := range group {
		t.pending = records{}
		if err := c.apply(t); err != nil {
			c.done <- err
			continue
		}
		t.group.merge(t.pending)
		accepted = append(accepted, c)
	}
	var err error
	if len(t.group) > 0 {
		if err = writeAll(s.file, t.group); err == nil {
			s.publish(t.group)
		} else if damage, ok := errors.AsType[*boltfile.DamageError](err); ok {
			err = describe(damage.Path, damage)
		}
	}
	for _, c := range accepted {
		c.done <- err
	}
}

// settleFailure reads the file anew after a commit that failed: it may have
// taken all the same, and what follows must build on what is there.
func (s *Store) settleFailure() error {
	if !s.file.Suspect() {
		return nil
	}
	if err := s.file.Reopen(); err != nil {
		return err
	}
	all, err := readAll(s.file)
	if err != nil {
		return err
	}
	return s.load(all)
}
