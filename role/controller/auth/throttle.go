package auth

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxFailures is how many attempts from one address may fail before it has
	// to wait for lockTime.
	maxFailures = 5
	lockTime    = 15 * time.Minute
	// maxClients bounds the addresses that are remembered; the one that was not
	// heard of for longest is forgotten.
	maxClients = 4096
	// clientBits6 is how much of an IPv6 address counts: one customer has them
	// all.
	clientBits6 = 64
)

// throttle slows down guessing. An attempt counts as failed until it has
// succeeded, so that many at once gain nothing.
type throttle struct {
	mu      sync.Mutex
	clients map[string]*attempts
}

type attempts struct {
	failed int
	last   time.Time
}

// throttleKey returns what addresses are told apart by.
func throttleKey(a netip.Addr) string {
	if a.Is6() {
		if p, err := a.WithZone("").Prefix(clientBits6); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// begin counts an attempt, or returns how long the client has to wait.
func (t *throttle) begin(client string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.clients[client]
	if a != nil && now.Sub(a.last) >= lockTime {
		delete(t.clients, client)
		a = nil
	}
	if a == nil {
		t.makeRoomLocked(now)
		a = &attempts{}
		t.clients[client] = a
	}
	if a.failed >= maxFailures {
		return lockTime - now.Sub(a.last)
	}
	a.failed++
	a.last = now
	return 0
}

func (t *throttle) makeRoomLocked(now time.Time) {
	if len(t.clients) < maxClients {
		return
	}
	oldest := ""
	for c, a := range t.clients {
		if now.Sub(a.last) >= lockTime {
			delete(t.clients, c)
			continue
		}
		if oldest == "" || a.last.Before(t.clients[oldest].last) {
			oldest = c
		}
	}
	if len(t.clients) >= maxClients {
		delete(t.clients, oldest)
	}
}

// clear forgets the failures of a client that succeeded.
func (t *throttle) clear(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.clients, client)
}
