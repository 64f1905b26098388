package registry

import (
	"context"
	"errors"
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
	case <-s.ended:
	}
	// The change may have been the last to be made, or have come too late.
	select {
	case err := <-c.done:
		return err
	default:
		return ErrClosed
	}
}

// write serves changes until the store is closed; those that are queued by then
// are still made.
func (s *Store) write() {
	defer close(s.ended)
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
					if err := s.undoFailure(); err != nil {
						s.log.Warn("undo a failed change of the workspace", "err", err)
					}
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
	if err := s.undoFailure(); err != nil {
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
	err := s.store(t.group)
	if err == nil {
		s.publish(t.group)
	}
	for _, c := range accepted {
		c.done <- err
	}
}

// store writes changes to the file. When that fails it remembers what to put
// back.
func (s *Store) store(changes records) error {
	if len(changes) == 0 {
		return nil
	}
	err := writeAll(s.file, changes)
	if errors.Is(err, ErrStorage) {
		for bucket, values := range changes {
			for key := range values {
				s.doubtful.set(place{bucket, key}, s.committed[bucket][key])
			}
		}
	}
	return describe(s.file.Path(), err)
}

// undoFailure makes the file agree with what the owners of a failed commit were
// told. One that failed in its last wait for the disk may have taken all the
// same, so what it touched is written again as it was.
func (s *Store) undoFailure() error {
	if len(s.doubtful) == 0 {
		return nil
	}
	if err := writeAll(s.file, s.doubtful); err != nil {
		return describe(s.file.Path(), err)
	}
	s.doubtful = records{}
	return nil
}
