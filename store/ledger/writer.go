package ledger

import (
	"sync/atomic"
	"time"
)

// Commit cadence. A commit costs two waits for the disk, so rows that nobody
// waits for share one.
const (
	// commitInterval is the grid: 20 commits a second of one busy chat.
	commitInterval = 50 * time.Millisecond
	// maxCommitInterval is how far the grid stretches.
	maxCommitInterval = 200 * time.Millisecond
	// calmChats is how many busy chats the grid serves unstretched: at
	// commitInterval they make 640 commits a second.
	calmChats = 32
	// busyPeriod is how long after a commit a chat counts as busy.
	busyPeriod = time.Second
)

// pace stretches the grid of all ledgers of a set with the number of busy ones.
type pace struct{ busy atomic.Int64 }

func (p *pace) interval() time.Duration {
	n := p.busy.Load()
	if n <= calmChats {
		return commitInterval
	}
	return min(commitInterval*time.Duration(n)/calmChats, maxCommitInterval)
}

// write is the writer goroutine. It ends when the queue is closed and empty.
func (l *Ledger) write() {
	defer close(l.written)
	busy := false
	defer func() {
		if busy {
			l.set.pace.busy.Add(-1)
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for {
		queued, urgent, closed := l.queue.status()
		wait := time.Until(last.Add(l.set.pace.interval()))
		switch {
		case !queued && closed:
			return
		case queued && (urgent || closed || wait <= 0):
			last = time.Now()
			if !busy {
				busy = true
				l.set.pace.busy.Add(1)
			}
			l.flush(l.queue.take())
			continue
		case !queued && busy:
			wait = time.Until(last.Add(busyPeriod))
			if wait <= 0 {
				busy = false
				l.set.pace.busy.Add(-1)
				continue
			}
		case !queued:
			<-l.queue.wake
			continue
		}
		timer.Reset(wait)
		select {
		case <-l.queue.wake:
		case <-timer.C:
		}
	}
}

// flush commits the items, running control functions in their places.
func (l *Ledger) flush(items []*pending) {
	defer l.queue.release(items)
	start := 0
	for i, p := range items {
		if p.control == nil {
			continue
		}
		l.commit(items[start:i])
		p.control()
		start = i + 1
	}
	l.commit(items[start:])
}
