package auth

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"garcon/proto/api"
)

const (
	// linkLife is how long a one-time link is good for.
	linkLife = 10 * time.Minute
	// maxLinks bounds the links that are good at once; the oldest goes.
	maxLinks = 16
)

// links are the secrets of one-time links, by hash. They are in memory only: a
// restart ends them.
type links struct {
	mu     sync.Mutex
	expiry map[string]time.Time
}

func (l *links) issue(now time.Time) (secret string, expires time.Time) {
	secret, expires = rand.Text()+rand.Text(), now.Add(linkLife)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expiry == nil {
		l.expiry = map[string]time.Time{}
	}
	for len(l.expiry) >= maxLinks {
		oldest := ""
		for hash, at := range l.expiry {
			if oldest == "" || at.Before(l.expiry[oldest]) {
				oldest = hash
			}
		}
		delete(l.expiry, oldest)
	}
	l.expiry[hashToken(secret)] = expires
	return secret, expires
}

// redeem takes a secret, once.
func (l *links) redeem(secret string, now time.Time) bool {
	hash := hashToken(secret)
	l.mu.Lock()
	defer l.mu.Unlock()
	expires, ok := l.expiry[hash]
	delete(l.expiry, hash)
	return ok && now.Before(expires)
}

// Link returns a one-time link that begins with base, the address of the user
// interface with a slash at its end. The secret is in the fragment, which a
// browser keeps to itself.
func (s *Sessions) Link(base string) api.LoginLink {
	secret, expires := s.links.issue(time.Now())
	return api.LoginLink{URL: base + "#login=" + secret, ExpiresAt: expires.UnixMilli()}
}

// Login signs the browser that sent r in and returns its cookie and the id of
// its session.
func (g *Guard) Login(ctx context.Context, r *http.Request, req api.LoginRequest) (*http.Cookie, string, error) {
	s := g.Sessions
	if (req.Secret == "") == (req.Password == "") {
		return nil, "", api.NewError(api.CodeInvalid, "give either secret or password", "")
	}
	addr := g.ClientAddr(r)
	client := throttleKey(addr)
	if req.Secret != "" && s.links.redeem(req.Secret, time.Now()) {
		// A link that is right is let in whatever others did from that address:
		// nobody guesses one.
		s.throttle.clear(client)
	} else {
		if wait := s.throttle.begin(client, time.Now()); wait > 0 {
			e := api.NewError(api.CodeTooMany, "too many attempts to sign in failed", "Try again in "+strconv.Itoa(int(wait.Minutes())+1)+" minutes, or use the link that `garcon login` prints.")
			e.Details = map[string]any{"retryAfterMs": wait.Milliseconds()}
			return nil, "", e
		}
		if req.Secret != "" {
			s.log.Warn("sign-in refused", "with", "link", "address", addr)
			return nil, "", api.NewError(api.CodeUnauthorized, "this link was used before or has run out", "`garcon login` prints another.")
		}
		ok, err := s.verifyPassword(ctx, req.Password)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			s.log.Warn("sign-in refused", "with", "password", "address", addr)
			return nil, "", errPassword()
		}
		s.throttle.clear(client)
	}
	token, id, err := s.create(ctx, labelOf(r.UserAgent()), addr.String())
	if err != nil {
		return nil, "", err
	}
	return g.Cookie(r, token), id, nil
}

func errPassword() error {
	return api.NewError(api.CodeUnauthorized, "the password is not right", "")
}

// Logout ends the session of the request, if it has one, and returns the cookie
// that removes the browser's.
func (g *Guard) Logout(ctx context.Context, r *http.Request) (*http.Cookie, error) {
	for _, c := range r.CookiesNamed(g.Sessions.cookie) {
		if found, _, ok := g.Sessions.use(ctx, c.Value); ok {
			if err := g.Sessions.Revoke(ctx, found.ID); err != nil && !isNotFound(err) {
				return nil, err
			}
		}
	}
	return g.Cookie(r, ""), nil
}

// labelOf says in words which browser sends a User-Agent: a kind out of a fixed
// list, because the header is anybody's text.
func labelOf(agent string) string {
	find := func(fallback string, names ...string) string {
		for _, n := range names {
			token, name, _ := strings.Cut(n, "=")
			if strings.Contains(agent, token) {
				return name
			}
		}
		return fallback
	}
	browser := find("A browser", "Edg/=Edge", "OPR/=Opera", "Firefox/=Firefox", "Chrome/=Chrome", "CriOS/=Chrome", "FxiOS/=Firefox", "Safari/=Safari")
	system := find("", "Android=Android", "iPhone=iPhone", "iPad=iPad", "Windows=Windows", "Mac OS X=macOS", "Linux=Linux")
	if system == "" {
		return browser
	}
	return browser + " on " + system
}
