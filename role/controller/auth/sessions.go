package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"garcon/proto/api"
	"garcon/store/registry"
)

const (
	// sessionLife is how long a browser that is not used stays signed in.
	sessionLife = 30 * 24 * time.Hour
	// touchInterval is how often the use of a session is written down: often
	// enough for a list, seldom enough to cost nothing.
	touchInterval = time.Hour
	// maxSessions bounds the browsers that are signed in. The one that was not
	// used for longest goes.
	maxSessions = 128
	// collection and settings are where the registry keeps sessions, and what
	// belongs to all of them.
	collection = "sessions"
	settings   = "browser"
)

// Sessions are the browsers that are signed in to a workspace. Of a token only
// its hash is kept, in memory and on disk. It is safe for concurrent use.
type Sessions struct {
	records  registry.Collection
	registry *registry.Store
	log      *slog.Logger
	cookie   string // its name

	links    links
	throttle throttle
	// hashing bounds how many passwords are hashed at once: each takes memory.
	hashing chan struct{}

	mu       sync.Mutex // guards what follows
	byID     map[string]*session
	password string // its encoded hash, empty for none
}

// session is a browser that is signed in. Fields below the blank line change,
// under the lock of [Sessions].
type session struct {
	ID        string `json:"id"`
	Hash      string `json:"hash"`
	Label     string `json:"label"`
	Address   string `json:"address,omitempty"`
	CreatedAt int64  `json:"createdAt"`

	LastSeen  int64 `json:"lastSeen"`
	ExpiresAt int64 `json:"expiresAt"`

	sockets int
	// ended is closed when the session is revoked.
	ended chan struct{}
}

// shared is what belongs to all sessions of a workspace.
type shared struct {
	// Cookie makes the cookie's name unique: cookies do not tell ports apart.
	Cookie   string `json:"cookie"`
	Password string `json:"password,omitempty"`
}

// OpenSessions reads the sessions of a workspace.
func OpenSessions(ctx context.Context, r *registry.Store, workspace string, log *slog.Logger) (*Sessions, error) {
	s := &Sessions{
		records: r.Collection(collection), registry: r, log: log, byID: map[string]*session{},
		hashing: make(chan struct{}, maxHashing), throttle: throttle{clients: map[string]*attempts{}},
	}
	var all shared
	if raw, ok := r.Setting(settings); ok {
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, fmt.Errorf("read who may sign in: %w", err)
		}
	}
	if all.Cookie == "" {
		all.Cookie = strings.ToLower(rand.Text()[:8])
		if err := s.putShared(ctx, all); err != nil {
			return nil, err
		}
	}
	s.cookie, s.password = "garcon_"+workspace+"_"+all.Cookie, all.Password
	for _, record := range s.records.All() {
		found := &session{ended: make(chan struct{})}
		if err := json.Unmarshal(record.Data, found); err != nil || found.ID != record.ID {
			log.Error("session is not readable; its browser must sign in again", "session", record.ID, "err", err)
			continue
		}
		s.byID[found.ID] = found
	}
	return s, nil
}

func (s *Sessions) putShared(ctx context.Context, all shared) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return s.registry.PutSetting(ctx, settings, raw)
}

// hashToken returns what is kept of a token. Tokens are random and long: a
// plain hash cannot be searched.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Any reports whether a browser is signed in.
func (s *Sessions) Any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID) > 0
}

// create signs a browser in and returns its token.
func (s *Sessions) create(ctx context.Context, label, address string) (token string, id string, err error) {
	token = rand.Text() + rand.Text()
	now := time.Now()
	made := &session{
		ID: strings.ToLower(rand.Text()[:16]), Hash: hashToken(token), Label: label, Address: address,
		CreatedAt: now.UnixMilli(), LastSeen: now.UnixMilli(), ExpiresAt: now.Add(sessionLife).UnixMilli(),
		ended: make(chan struct{}),
	}
	if err := s.put(ctx, *made); err != nil {
		return "", "", err
	}
	s.mu.Lock()
	s.byID[made.ID] = made
	var oldest *session
	if len(s.byID) > maxSessions {
		for _, x := range s.byID {
			if x != made && (oldest == nil || x.LastSeen < oldest.LastSeen) {
				oldest = x
			}
		}
	}
	s.mu.Unlock()
	if oldest != nil {
		if err := s.Revoke(ctx, oldest.ID); err != nil {
			s.log.Error("session over the limit remains stored", "session", oldest.ID, "err", err)
		}
	}
	s.log.Info("browser signed in", "session", made.ID, "label", label, "address", address)
	return token, made.ID, nil
}

func (s *Sessions) put(ctx context.Context, v session) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.records.Put(ctx, v.ID, raw)
}

// use finds the session of a token and notes that it was used. extended says
// that its life was extended just now.
func (s *Sessions) use(ctx context.Context, token string) (found session, extended, ok bool) {
	hash := hashToken(token)
	now := time.Now()
	s.mu.Lock()
	var hit *session
	for _, x := range s.byID {
		// What is compared is a hash: how long it takes tells nothing of a token.
		if x.Hash == hash {
			hit = x
		}
	}
	if hit == nil || now.UnixMilli() >= hit.ExpiresAt {
		s.mu.Unlock()
		return session{}, false, false
	}
	extended = now.UnixMilli()-hit.LastSeen >= touchInterval.Milliseconds()
	if extended {
		hit.LastSeen, hit.ExpiresAt = now.UnixMilli(), now.Add(sessionLife).UnixMilli()
	}
	found = *hit
	s.mu.Unlock()
	if extended {
		// The use counts even when it cannot be written down.
		if err := s.put(context.WithoutCancel(ctx), found); err != nil {
			s.log.Error("use of a session not stored", "session", found.ID, "err", err)
		}
		s.mu.Lock()
		_, here := s.byID[found.ID]
		s.mu.Unlock()
		if !here {
			// It was revoked meanwhile, and must not come back with the next start.
			s.forget(found.ID)
			return session{}, false, false
		}
	}
	return found, extended, true
}

func (s *Sessions) forget(id string) {
	if err := s.records.Delete(context.Background(), id); err != nil {
		s.log.Error("ended session remains stored", "session", id, "err", err)
	}
}

// List returns the sessions, the most recently used first. current is the
// caller's.
func (s *Sessions) List(current string) []api.BrowserSession {
	now := time.Now().UnixMilli()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]api.BrowserSession, 0, len(s.byID))
	for _, x := range s.byID {
		if x.ExpiresAt <= now {
			continue
		}
		out = append(out, api.BrowserSession{
			ID: x.ID, Label: x.Label, Address: x.Address, CreatedAt: x.CreatedAt, LastSeen: x.LastSeen,
			ExpiresAt: x.ExpiresAt, Current: x.ID == current, Connected: x.sockets > 0,
		})
	}
	slices.SortFunc(out, func(a, b api.BrowserSession) int {
		if a.LastSeen != b.LastSeen {
			return int(b.LastSeen - a.LastSeen)
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// Revoke ends a session and with it its sockets. It is over at once even when
// that cannot be stored; then the error says so.
func (s *Sessions) Revoke(ctx context.Context, id string) error {
	s.mu.Lock()
	x := s.byID[id]
	if x != nil {
		delete(s.byID, id)
		close(x.ended)
	}
	s.mu.Unlock()
	if x == nil {
		return api.NewError(api.CodeNotFound, "there is no such session", "")
	}
	s.log.Info("browser signed out", "session", id, "label", x.Label)
	return s.records.Delete(context.WithoutCancel(ctx), id)
}

// revokeOthers ends every session but one.
func (s *Sessions) revokeOthers(ctx context.Context, keep string) error {
	for _, x := range s.List("") {
		if x.ID == keep {
			continue
		}
		if err := s.Revoke(ctx, x.ID); err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}

func isNotFound(err error) bool {
	e, ok := err.(*api.Error)
	return ok && e.Code == api.CodeNotFound
}

// Attach counts a socket of a session. over is closed when the session ends,
// by revocation or by running out; the caller calls detach when the socket is
// closed. It is false for a session that is over.
func (s *Sessions) Attach(ctx context.Context, id string) (over <-chan struct{}, detach func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[id]
	if x == nil {
		return nil, nil, false
	}
	x.sockets++
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		if s.wait(ctx, x) {
			close(done)
		}
	})
	return done, func() {
		cancel()
		wait.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		x.sockets--
	}, true
}

// wait reports whether the session was over before ctx.
func (s *Sessions) wait(ctx context.Context, x *session) bool {
	for {
		s.mu.Lock()
		left := time.Until(time.UnixMilli(x.ExpiresAt))
		s.mu.Unlock()
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C: // it may have been extended
		case <-x.ended:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
