package ledger

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"

	"garcon/store/internal/boltfile"
)

// maxTailBytes bounds what a transcript with followers keeps of its newest rows
// in memory, beside its last commit. A follower further behind reads the file.
const maxTailBytes = 1 << 20

// tail is the newest rows of a transcript, by commit. Commits are not copied:
// followers share them.
type tail struct {
	followers int
	commits   [][]Stored
	bytes     int
}

// add appends the rows of a commit.
func (t *tail) add(rows []Stored) {
	if len(rows) == 0 {
		return
	}
	t.commits = append(t.commits, rows)
	t.bytes += size(rows)
	for t.bytes > maxTailBytes && len(t.commits) > 1 {
		t.bytes -= size(t.commits[0])
		t.commits[0] = nil
		t.commits = t.commits[1:]
	}
}

func size(rows []Stored) int {
	n := 0
	for i := range rows {
		n += len(rows[i].JSON) + rowCost
	}
	return n
}

// from returns the rows at and after the ordinal, up to the end of their
// commit, or nil when they are no longer in memory.
func (t *tail) from(ordinal int64) []Stored {
	i := sort.Search(len(t.commits), func(i int) bool { return t.commits[i][0].Row.Ordinal > ordinal }) - 1
	if i < 0 {
		return nil
	}
	rows := t.commits[i]
	at := ordinal - rows[0].Row.Ordinal
	return rows[at:len(rows):len(rows)]
}

// Follower gives the rows of one transcript in order, without gaps or doubles,
// first from disk and then as they are committed. It is for one goroutine;
// Close may be called from any.
type Follower struct {
	l     *Ledger
	child string
	next  int64
	views int

	once   sync.Once
	closed chan struct{}
}

// Follow starts reading a transcript at the ordinal from, which is at most one
// after the newest. It keeps the ledger open until it is closed.
func (l *Ledger) Follow(from int64, child string) (*Follower, error) {
	if err := checkID("child id", child); err != nil {
		return nil, err
	}
	if err := l.set.retain(l); err != nil {
		return nil, err
	}
	l.mu.Lock()
	err := l.dead
	rows := l.state.sequence(child).Rows
	if err == nil && (from < 0 || from > rows) {
		err = fmt.Errorf("%w: follow from %d of %d rows", ErrInvalid, from, rows)
	}
	if err != nil {
		l.mu.Unlock()
		l.Release()
		return nil, err
	}
	defer l.mu.Unlock()
	t := l.tails[child]
	if t == nil {
		t = &tail{}
		l.tails[child] = t
	}
	t.followers++
	return &Follower{l: l, child: child, next: from, views: l.views, closed: make(chan struct{})}, nil
}

// Next blocks until there are rows and returns them. It fails with
// [ErrViewReplaced] when the view was replaced, with what ended the ledger, or
// with [ErrClosed] after Close.
func (f *Follower) Next(ctx context.Context) ([]Stored, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		select {
		case <-f.closed:
			return nil, ErrClosed
		default:
		}
		rows, wait, err := f.poll()
		if err != nil || len(rows) > 0 {
			f.next += int64(len(rows))
			return rows, err
		}
		select {
		case <-wait:
		case <-f.closed:
		case <-ctx.Done():
		}
	}
}

// poll returns the next rows, or what to wait for when there are none.
func (f *Follower) poll() ([]Stored, <-chan struct{}, error) {
	l := f.l
	l.mu.Lock()
	if err := l.dead; err != nil {
		l.mu.Unlock()
		return nil, nil, err
	}
	if f.views != l.views {
		l.mu.Unlock()
		return nil, nil, ErrViewReplaced
	}
	end, wait, file := l.state.sequence(f.child).Rows, l.changed, l.file
	var rows []Stored
	if f.next < end {
		rows = l.tails[f.child].from(f.next)
	}
	l.mu.Unlock()
	if rows != nil || f.next >= end {
		return rows, wait, nil
	}
	rows, err := l.set.layout.read(file, f.child, f.next, end)
	if errors.Is(err, boltfile.ErrClosed) {
		// The view was replaced or the ledger closed meanwhile; the caller
		// looks again.
		return nil, closedChan(), nil
	}
	return rows, wait, l.fail(err)
}

func closedChan() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Close ends the follower and a Next in progress.
func (f *Follower) Close() {
	f.once.Do(func() {
		close(f.closed)
		l := f.l
		l.mu.Lock()
		if t := l.tails[f.child]; t != nil {
			if t.followers--; t.followers == 0 {
				delete(l.tails, f.child)
			}
		}
		l.mu.Unlock()
		l.Release()
	})
}
