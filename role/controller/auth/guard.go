// Package auth decides who may talk to the controller's listener.
//
// Checks come in this order, before anything is read or written for a request:
// the Host header against an allowlist (against DNS rebinding), the Origin of
// anything a browser sends (against cross-site requests and WebSocket
// hijacking), then the credential. There is no CORS: no answer ever allows
// another origin. The loopback address is not a credential.
package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/role/controller/chat"
	"garcon/store/runtimefile"
)

// Guard checks requests. It is immutable and safe for concurrent use.
type Guard struct {
	hosts      []string // allowed Host headers, lower case, with their port
	capability string
}

// NewGuard returns the guard of a listener on addr. allowed are further hosts
// that the user named, with or without a port; capability is that of the
// runtime descriptor.
func NewGuard(addr net.Addr, allowed []string, capability string) *Guard {
	_, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		port = "0" // no listener of ours; nothing will match
	}
	g := &Guard{capability: capability}
	for _, name := range []string{"127.0.0.1", "localhost", "::1"} {
		g.hosts = append(g.hosts, net.JoinHostPort(name, port))
	}
	for _, h := range allowed {
		h = strings.ToLower(strings.TrimSpace(h))
		g.hosts = append(g.hosts, h)
		if _, _, err := net.SplitHostPort(h); err != nil {
			g.hosts = append(g.hosts, net.JoinHostPort(strings.Trim(h, "[]"), port))
		}
	}
	return g
}

// CheckHost refuses a request whose Host is not one of ours.
func (g *Guard) CheckHost(r *http.Request) error {
	if slices.Contains(g.hosts, strings.ToLower(r.Host)) {
		return nil
	}
	return api.NewError(api.CodeHostRefused, "this host name is not allowed: "+strconv.Quote(clip(r.Host)),
		"If it is a proxy of yours, start the controller with --allowed-host "+hostHint(r.Host)+".")
}

// clip bounds what of a header is repeated.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// hostHint returns a host for a hint, without anything a shell would read.
func hostHint(host string) string {
	for _, c := range host {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]", c) {
			return "HOST"
		}
	}
	return clip(host)
}

// CheckOrigin refuses a request that another site's page made. Requests
// without an Origin come from programs, or are navigations and plain reads of
// a browser; of the latter, a cross-site one is known by its Fetch-Metadata.
func (g *Guard) CheckOrigin(r *http.Request) error {
	refused := api.NewError(api.CodeOriginRefused, "requests from another site are refused", "Open the controller's own address.")
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return refused
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	u, err := url.Parse(origins[0])
	if len(origins) > 1 || err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) {
		return refused
	}
	return nil
}

// Authenticate returns who sent the request.
func (g *Guard) Authenticate(r *http.Request) (chat.Principal, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || !runtimefile.VerifyBearer(g.capability, token) {
		return chat.Principal{}, api.NewError(api.CodeUnauthorized, "the request carries no valid credential",
			"Use the garcon command, which finds the controller by itself.")
	}
	origin := row.OriginCLI
	if r.Header.Get(api.HeaderOrigin) == string(row.OriginBrowser) {
		origin = row.OriginBrowser
	}
	return chat.Principal{Name: "local", Origin: origin}, nil
}

// IsLoopback reports whether a bind address is numeric loopback.
func IsLoopback(bind string) bool {
	ip, err := netip.ParseAddr(strings.Trim(bind, "[]"))
	return err == nil && ip.IsLoopback()
}
