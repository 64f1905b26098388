// Package auth decides who may talk to the controller's listener.
//
// Checks come in this order, before anything is read or written for a request:
// the Host header against an allowlist (against DNS rebinding), the Origin of
// anything a browser sends (against cross-site requests and WebSocket
// hijacking), then the credential. There is no CORS: no answer ever allows
// another origin. The loopback address is not a credential.
//
// A program proves that it may read the controller's runtime descriptor, by a
// bearer token derived from it. A browser has a session: a random token in a
// cookie, of which the controller keeps a hash. It gets one for the secret of a
// one-time link or for the password.
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
)

// Options are what a guard works with.
type Options struct {
	// Addrs are the addresses of the listeners whose requests come here.
	Addrs []net.Addr
	// TLS says that the listeners but the one for programs speak TLS.
	TLS bool
	// PublicURL is how browsers reach the controller, nil for the listener's
	// own address.
	PublicURL *url.URL
	// BasePath is the path in front of everything, without a slash at the end.
	BasePath string
	// AllowedHosts are further hosts to answer to, with or without a port.
	AllowedHosts []string
	// TrustProxy is how many proxies in front are the user's own. Only what the
	// farthest of them says of the client is believed.
	TrustProxy int
	// NoAuth lets every browser in.
	NoAuth bool
	// Capability is that of the runtime descriptor.
	Capability string
	// Sessions are the browsers that are signed in; nil for none.
	Sessions *Sessions
}

// Guard checks requests. It is immutable and safe for concurrent use.
type Guard struct {
	Options
	hosts []string // allowed Host headers, lower case, with their port
	// crossOrigin is the standard library's own check, beside ours.
	crossOrigin http.CrossOriginProtection
}

// defaultPorts are those that a Host header leaves out.
var defaultPorts = map[string]string{"http": "80", "https": "443"}

// NewGuard returns a guard.
func NewGuard(o Options) *Guard {
	g := &Guard{Options: o}
	ports := []string{}
	for _, addr := range o.Addrs {
		host, port, err := net.SplitHostPort(addr.String())
		if err != nil {
			continue // no listener of ours; nothing will match
		}
		ports = append(ports, port)
		names := []string{"127.0.0.1", "localhost", "::1"}
		// The address a listener is bound to is no name that could be pointed
		// elsewhere.
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			names = append(names, ip.WithZone("").String())
		}
		for _, name := range names {
			g.allow(name, port)
		}
	}
	for _, h := range o.AllowedHosts {
		h = strings.ToLower(strings.TrimSpace(h))
		if name, port, err := net.SplitHostPort(h); err == nil {
			g.allow(name, port)
			continue
		}
		g.hosts = append(g.hosts, h)
		for _, port := range ports {
			g.allow(strings.Trim(h, "[]"), port)
		}
	}
	if u := o.PublicURL; u != nil {
		port := u.Port()
		if port == "" {
			port = defaultPorts[u.Scheme]
		}
		g.allow(strings.ToLower(u.Hostname()), port)
	}
	return g
}

// allow adds a host, as browsers write it.
func (g *Guard) allow(name, port string) {
	g.hosts = append(g.hosts, net.JoinHostPort(name, port))
	if port == "80" || port == "443" {
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		g.hosts = append(g.hosts, name)
	}
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

func errOrigin() error {
	return api.NewError(api.CodeOriginRefused, "requests from another site are refused", "Open the controller's own address.")
}

// CheckOrigin refuses a request that another site's page made. Requests
// without an Origin come from programs, or are navigations and plain reads of
// a browser; of the latter, a cross-site one is known by its Fetch-Metadata.
func (g *Guard) CheckOrigin(r *http.Request) error {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return errOrigin()
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if len(origins) > 1 || !g.ownOrigin(origins[0], r) {
		return errOrigin()
	}
	// The library compares with the Host alone, which a proxy may have changed.
	if g.crossOrigin.Check(r) != nil && !g.isPublic(origins[0]) {
		return errOrigin()
	}
	return nil
}

// CheckNavigation is [Guard.CheckOrigin] for what a person may follow a link
// to: another site may show one, but not fetch or frame what is behind it.
func (g *Guard) CheckNavigation(r *http.Request) error {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if read && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return g.CheckOrigin(r)
}

// ownOrigin reports whether a page of that origin is one of this controller's.
func (g *Guard) ownOrigin(origin string, r *http.Request) bool {
	if g.isPublic(origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, r.Host) || origin != u.Scheme+"://"+u.Host {
		return false
	}
	if scheme, sure := g.scheme(r); sure {
		return u.Scheme == scheme
	}
	return u.Scheme == "http" || u.Scheme == "https"
}

// isPublic reports the origin of the public URL. A proxy that changes the Host
// header leaves nothing else to compare with.
func (g *Guard) isPublic(origin string) bool {
	return g.PublicURL != nil && strings.EqualFold(origin, g.PublicURL.Scheme+"://"+g.PublicURL.Host)
}

// scheme returns how the browser reached the controller. It is not sure for a
// name the user allowed without saying how it is reached.
func (g *Guard) scheme(r *http.Request) (scheme string, sure bool) {
	switch {
	case r.TLS != nil:
		return "https", true
	case g.TrustProxy > 0 && r.Header.Get("X-Forwarded-Proto") != "":
		return strings.ToLower(hop(r.Header.Values("X-Forwarded-Proto"), g.TrustProxy)), true
	case g.PublicURL != nil && strings.EqualFold(r.Host, g.PublicURL.Host):
		return g.PublicURL.Scheme, true
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return "http", true
	}
	return "http", false
}

// IsHTTPS reports whether the browser reached the controller encrypted, as far
// as that is known.
func (g *Guard) IsHTTPS(r *http.Request) bool {
	if scheme, sure := g.scheme(r); sure {
		return scheme == "https"
	}
	return strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

// ClientAddr returns the address of the client: what the farthest trusted proxy
// saw, or the other end of the connection.
func (g *Guard) ClientAddr(r *http.Request) netip.Addr {
	if forwarded := r.Header.Values("X-Forwarded-For"); g.TrustProxy > 0 && len(forwarded) > 0 {
		if a, err := netip.ParseAddr(hop(forwarded, g.TrustProxy)); err == nil {
			return a.Unmap()
		}
	}
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

// hop returns what the farthest of n trusted proxies added to a header: each
// adds one entry at the end, and what is before those anybody can have written.
func hop(values []string, n int) string {
	entries := strings.Split(strings.Join(values, ","), ",")
	return strings.TrimSpace(entries[max(0, len(entries)-n)])
}

// IsLoopback reports whether a bind address is numeric loopback.
func IsLoopback(bind string) bool {
	ip, err := netip.ParseAddr(strings.Trim(bind, "[]"))
	return err == nil && ip.IsLoopback()
}
