package auth

import (
	"mime"
	"net/http"
	"strings"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/role/controller/chat"
	"garcon/store/runtimefile"
)

// Kind is how a caller proved itself.
type Kind string

// The kinds of callers.
const (
	// Program holds the credential of the runtime descriptor.
	Program Kind = "program"
	// Browser has a session.
	Browser Kind = "browser"
	// Open is any browser, where the controller runs without login.
	Open Kind = "open"
)

// Identity is who sent a request.
type Identity struct {
	chat.Principal
	Kind Kind
	// Session is the id of a browser's session.
	Session string
	// Renewed is the session's cookie when its life was extended; the answer
	// sets it.
	Renewed *http.Cookie
}

// localName is what a program on this machine is called in transcripts.
const localName = "local"

// Authenticate returns who sent the request.
func (g *Guard) Authenticate(r *http.Request) (Identity, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		token, ok := strings.CutPrefix(header, "Bearer ")
		if !ok || !runtimefile.VerifyBearer(g.Capability, token) {
			return Identity{}, errUnauthorized()
		}
		origin := row.OriginCLI
		if r.Header.Get(api.HeaderOrigin) == string(row.OriginBrowser) {
			origin = row.OriginBrowser
		}
		return Identity{Principal: chat.Principal{Name: localName, Origin: origin}, Kind: Program}, nil
	}
	if g.Sessions != nil {
		for _, c := range r.CookiesNamed(g.Sessions.cookie) {
			s, extended, ok := g.Sessions.use(r.Context(), c.Value)
			if !ok {
				continue
			}
			id := Identity{Principal: chat.Principal{Name: s.Label, Origin: row.OriginBrowser}, Kind: Browser, Session: s.ID}
			if extended {
				id.Renewed = g.Cookie(r, c.Value)
			}
			return id, nil
		}
	}
	if g.NoAuth {
		return Identity{Principal: chat.Principal{Name: localName, Origin: row.OriginBrowser}, Kind: Open}, nil
	}
	return Identity{}, errUnauthorized()
}

func errUnauthorized() error {
	return api.NewError(api.CodeUnauthorized, "the request carries no valid credential",
		"Sign in: `garcon login` prints a link. The garcon command finds the controller by itself.")
}

// CheckIntent refuses a change that a browser may have been made to send
// without a script of ours: a form of another site can carry neither the header
// nor the type. upload says that the body is a file.
func (g *Guard) CheckIntent(r *http.Request, by Identity, upload bool) error {
	if by.Kind == Program {
		return nil
	}
	if r.Header.Get(api.HeaderOrigin) != string(row.OriginBrowser) {
		return api.NewError(api.CodeForbidden, "a change from a browser must carry "+api.HeaderOrigin+": browser", "")
	}
	if upload {
		return nil
	}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" {
		return api.NewError(api.CodeMediaType, "a change from a browser must be application/json", "")
	}
	return nil
}

// CheckUpgrade refuses a WebSocket of a browser that does not say which page
// opens it: every browser does.
func (g *Guard) CheckUpgrade(r *http.Request, by Identity) error {
	if by.Kind != Program && r.Header.Get("Origin") == "" {
		return errOrigin()
	}
	return nil
}

// Cookie returns the cookie that carries a session's token to the browser that
// sent r; an empty token removes it.
func (g *Guard) Cookie(r *http.Request, token string) *http.Cookie {
	c := &http.Cookie{
		Name: g.Sessions.cookie, Value: token, Path: g.BasePath + "/", HttpOnly: true,
		Secure: g.IsHTTPS(r), SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds()),
	}
	if token == "" {
		c.MaxAge = -1
	}
	return c
}
