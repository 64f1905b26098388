package role

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"garcon/role/controller/auth"
)

// ListenOptions say how a controller is reached.
type ListenOptions struct {
	// Bind is a numeric address; port 0 chooses one.
	Bind string
	Port int
	// TLSCert and TLSKey are files in PEM; both or neither.
	TLSCert, TLSKey string
	// PublicURL is how browsers reach the controller, when that is not the
	// address it listens on.
	PublicURL string
	// BasePath is the path in front of everything, such as /garcon.
	BasePath string
	// AllowedHosts are further Host headers to answer to.
	AllowedHosts []string
	// TrustProxy is how many proxies in front are the user's own.
	TrustProxy int
	// NoAuth lets every browser in without login.
	NoAuth bool
}

// basePaths are the paths that can be in front of everything.
var basePaths = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// maxProxies bounds TrustProxy: more in a row are a mistake.
const maxProxies = 16

// Check refuses options that are not safe or cannot be.
func (o ListenOptions) Check() error {
	_, _, err := o.check()
	return err
}

// check refuses what is not safe or cannot be, and returns the public URL, nil
// for none, and the base path without a slash at its end.
func (o ListenOptions) check() (public *url.URL, base string, err error) {
	if _, err := netip.ParseAddr(o.Bind); err != nil {
		return nil, "", fmt.Errorf("--bind %s is not a numeric address such as 127.0.0.1", o.Bind)
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, "", errors.New("--tls-cert and --tls-key belong together: give both")
	}
	if o.TrustProxy < 0 || o.TrustProxy > maxProxies {
		return nil, "", fmt.Errorf("--trust-proxy %d is not a number of proxies: give 0 to %d", o.TrustProxy, maxProxies)
	}
	if o.NoAuth {
		switch {
		case !auth.IsLoopback(o.Bind):
			return nil, "", fmt.Errorf("--no-auth with --bind %s would let everybody who reaches this machine run programs on it; bind to 127.0.0.1, or leave --no-auth out", o.Bind)
		case o.PublicURL != "" || o.TrustProxy > 0 || len(o.AllowedHosts) > 0:
			return nil, "", errors.New("--no-auth would let everybody in who reaches the proxy; leave it out together with --public-url, --allowed-host and --trust-proxy")
		}
	}
	base = strings.TrimSuffix(o.BasePath, "/")
	if o.PublicURL != "" {
		public, err = url.Parse(strings.TrimSuffix(o.PublicURL, "/"))
		if err != nil || public.Scheme != "http" && public.Scheme != "https" || public.Host == "" || public.User != nil || public.RawQuery != "" || public.Fragment != "" {
			return nil, "", fmt.Errorf("--public-url must be like https://box.example or https://box.example/garcon")
		}
		public.Host = strings.ToLower(public.Host)
		switch {
		case base == "":
			base = public.Path
		case public.Path == "":
			public.Path = base
		case public.Path != base:
			return nil, "", fmt.Errorf("the path of --public-url is %s, and --base-path is %s; make them equal", public.Path, base)
		}
	}
	if base != "" && !basePaths.MatchString(base) || strings.HasPrefix(base+"/", "/api/") {
		return nil, "", fmt.Errorf("--base-path %s cannot be: give one like /garcon", o.BasePath)
	}
	return public, base, nil
}

// doors are where a controller listens.
type doors struct {
	// front is for browsers.
	front net.Listener
	// back is for programs on this machine, which cannot check a certificate or
	// are not where front is; nil when front serves them too.
	back net.Listener
	// url is where programs reach the controller, plain and on loopback.
	url string
	// home is where browsers find the user interface, with a slash at the end.
	home string
	// tls says that front speaks TLS.
	tls bool
}

func (d *doors) listeners() []net.Listener {
	if d.back == nil {
		return []net.Listener{d.front}
	}
	return []net.Listener{d.front, d.back}
}

func (d *doors) addrs() []net.Addr {
	var out []net.Addr
	for _, l := range d.listeners() {
		out = append(out, l.Addr())
	}
	return out
}

func (d *doors) close() {
	for _, l := range d.listeners() {
		_ = l.Close() // the server has closed it
	}
}

// openDoors listens as the options say. The options have been checked.
func openDoors(o ListenOptions, public *url.URL, base string) (*doors, error) {
	var certificate tls.Certificate
	if o.TLSCert != "" {
		var err error
		if certificate, err = tls.LoadX509KeyPair(o.TLSCert, o.TLSKey); err != nil {
			return nil, fmt.Errorf("load the certificate: %w", err)
		}
	}
	front, err := listen(o.Bind, o.Port)
	if err != nil {
		return nil, err
	}
	d := &doors{front: front}
	_, port, err := net.SplitHostPort(front.Addr().String())
	if err != nil {
		d.close()
		return nil, err
	}
	ip := netip.MustParseAddr(o.Bind) // checked
	// What is bound to no address in particular is reached by loopback as well.
	here := ip.String()
	switch {
	case ip.Is6() && ip.IsUnspecified():
		here = "::1"
	case ip.IsUnspecified():
		here = "127.0.0.1"
	}
	d.url = "http://" + net.JoinHostPort(here, port)
	scheme := "http"
	if o.TLSCert != "" {
		scheme, d.tls = "https", true
		d.front = tls.NewListener(front, &tls.Config{
			Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12,
			// WebSockets need a connection of their own.
			NextProtos: []string{"http/1.1"},
		})
	}
	if d.tls || !ip.IsLoopback() && !ip.IsUnspecified() {
		if d.back, err = listen("127.0.0.1", 0); err != nil {
			d.close()
			return nil, err
		}
		d.url = "http://" + d.back.Addr().String()
	}
	d.home = scheme + "://" + net.JoinHostPort(here, port) + base + "/"
	if public != nil {
		d.home = public.String() + "/"
	}
	return d, nil
}

// listen binds the one address asked for. A port that is taken is never
// replaced by another.
func listen(bind string, port int) (net.Listener, error) {
	address := net.JoinHostPort(bind, strconv.Itoa(port))
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	if holder := holderOf(port); isInUse(err) && holder != "" {
		return nil, fmt.Errorf("listen on %s: the port is taken by %s; stop that, or choose another with --port", address, holder)
	}
	return nil, fmt.Errorf("listen on %s: %w; choose another port with --port", address, err)
}

// exposure says what a controller that others can reach exposes, "" for one
// that only this machine can.
func exposure(o ListenOptions, public *url.URL) string {
	if auth.IsLoopback(o.Bind) {
		return ""
	}
	s := "Every machine that reaches " + net.JoinHostPort(o.Bind, strconv.Itoa(o.Port)) + " gets the sign-in page. Whoever signs in can run programs here as you.\n"
	if o.TLSCert == "" && (public == nil || public.Scheme != "https") {
		s += "Nothing is encrypted: others on the network can read along and take over a session. Use --tls-cert and --tls-key, or a proxy that speaks https with --public-url.\n"
	}
	return s
}
