package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/role/controller/chat"
	"garcon/store/registry"
	"garcon/store/runtimefile"
)

const testPassword = "correct horse battery"

// world is a guard with the sessions of a workspace.
type world struct {
	*Guard
	t        testing.TB
	path     string
	registry *registry.Store
	options  Options
	log      *bytes.Buffer
}

func newWorld(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "workspace.db"), log: &bytes.Buffer{}, options: Options{
		Addrs: []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}}, Capability: "capability",
	}}
	for _, f := range change {
		f(&w.options)
	}
	w.open()
	t.Cleanup(func() { must(t, w.registry.Close()) })
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) open() {
	w.t.Helper()
	r, err := registry.Open(context.Background(), w.path, registry.Options{})
	must(w.t, err)
	w.registry = r
	w.options.Sessions, err = OpenSessions(context.Background(), r, "default", slog.New(slog.NewTextHandler(w.log, nil)))
	must(w.t, err)
	w.Guard = NewGuard(w.options)
}

// restart closes the workspace and opens it again.
func (w *world) restart() {
	w.t.Helper()
	must(w.t, w.registry.Close())
	w.open()
}

func (w *world) secret() string {
	_, secret, _ := strings.Cut(w.Sessions.Link("http://x/").URL, "#login=")
	return secret
}

func from(addr string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Host, r.RemoteAddr = "localhost:8080", net.JoinHostPort(addr, "1234")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0")
	return r
}

// signIn returns the cookie of a new session.
func (w *world) signIn() *http.Cookie {
	w.t.Helper()
	cookie, _, err := w.Login(w.t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: w.secret()})
	must(w.t, err)
	return cookie
}

func (w *world) who(cookie *http.Cookie) (Identity, error) {
	r := from("127.0.0.1")
	r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	return w.Authenticate(r)
}

func wantCode(t testing.TB, err error, code api.Code) *api.Error {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != code {
		t.Errorf("got %v, want %s", err, code)
		return &api.Error{}
	}
	return e
}

func TestLinksWorkOnce(t *testing.T) {
	w := newWorld(t)
	secret := w.secret()
	cookie, id, err := w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: secret})
	must(t, err)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.Path != "/" ||
		!strings.HasPrefix(cookie.Name, "garcon_default_") || cookie.Domain != "" {
		t.Errorf("cookie %+v", cookie)
	}
	who, err := w.who(cookie)
	must(t, err)
	if who.Kind != Browser || who.Session != id || who.Name != "Firefox on Linux" || who.Origin != row.OriginBrowser {
		t.Errorf("signed in as %+v", who)
	}
	_, _, err = w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: secret})
	wantCode(t, err, api.CodeUnauthorized)
	_, _, err = w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{})
	wantCode(t, err, api.CodeInvalid)
	_, _, err = w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: "a", Password: "b"})
	wantCode(t, err, api.CodeInvalid)
}

func TestLinksRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		early, late := w.secret(), w.secret()
		time.Sleep(linkLife - time.Second)
		_, _, err := w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: early})
		must(t, err)
		time.Sleep(time.Second)
		_, _, err = w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: late})
		wantCode(t, err, api.CodeUnauthorized)
	})
}

func TestLinksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.secret()
		for range maxLinks {
			time.Sleep(time.Millisecond)
			w.secret()
		}
		_, _, err := w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: first})
		wantCode(t, err, api.CodeUnauthorized)
		if n := len(w.Sessions.links.expiry); n != maxLinks {
			t.Errorf("%d links", n)
		}
	})
}

func TestSecretsAreNowhere(t *testing.T) {
	w := newWorld(t)
	secret := w.secret()
	cookie, _, err := w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Secret: secret})
	must(t, err)
	must(t, w.SetPassword(t.Context(), from("127.0.0.1"), Identity{Kind: Program}, api.PasswordRequest{Next: testPassword}))
	_, _, err = w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Password: "a wrong canary"})
	wantCode(t, err, api.CodeUnauthorized)
	data, err := os.ReadFile(w.path)
	must(t, err)
	for _, s := range []string{secret, cookie.Value, testPassword, "a wrong canary"} {
		if bytes.Contains(data, []byte(s)) || strings.Contains(w.log.String(), s) {
			t.Errorf("%q is in the file or the log", s)
		}
	}
	if !strings.Contains(w.log.String(), "sign-in refused") || !strings.Contains(w.log.String(), "browser signed in") {
		t.Errorf("the log is %s", w.log)
	}
}

func TestSessionsOutliveARestartAndSlide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		used, unused := w.signIn(), w.signIn()
		for range 4 {
			time.Sleep(10 * 24 * time.Hour)
			w.restart()
			who, err := w.who(used)
			must(t, err)
			if who.Renewed == nil || who.Renewed.Value != used.Value || who.Renewed.MaxAge != int(sessionLife.Seconds()) {
				t.Errorf("the cookie is renewed as %+v", who.Renewed)
			}
			if again, err := w.who(used); err != nil || again.Renewed != nil {
				t.Errorf("a second use renews it again: %+v, %v", again.Renewed, err)
			}
		}
		_, err := w.who(unused)
		wantCode(t, err, api.CodeUnauthorized)
		if list := w.Sessions.List(""); len(list) != 1 {
			t.Errorf("sessions %+v", list)
		}
	})
}

func TestRevokedSessionsStayOut(t *testing.T) {
	w := newWorld(t)
	one, two := w.signIn(), w.signIn()
	who, err := w.who(one)
	must(t, err)
	must(t, w.Sessions.Revoke(t.Context(), who.Session))
	wantCode(t, w.Sessions.Revoke(t.Context(), who.Session), api.CodeNotFound)
	for range 2 {
		_, err = w.who(one)
		wantCode(t, err, api.CodeUnauthorized)
		_, err = w.who(two)
		must(t, err)
		w.restart()
	}
	r := from("127.0.0.1")
	r.AddCookie(two)
	gone, err := w.Logout(t.Context(), r)
	must(t, err)
	if gone.MaxAge >= 0 || gone.Value != "" || gone.Name != two.Name {
		t.Errorf("signing out sets %+v", gone)
	}
	_, err = w.who(two)
	wantCode(t, err, api.CodeUnauthorized)
}

func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.signIn()
		for range maxSessions {
			time.Sleep(time.Second)
			w.signIn()
		}
		_, err := w.who(first)
		wantCode(t, err, api.CodeUnauthorized)
		if n := len(w.Sessions.List("")); n != maxSessions {
			t.Errorf("%d sessions", n)
		}
	})
}

func TestCookiesOfOthersOpenNothing(t *testing.T) {
	w := newWorld(t)
	cookie := w.signIn()
	for name, c := range map[string]http.Cookie{
		"other name":  {Name: "garcon_other_abcdefgh", Value: cookie.Value},
		"other value": {Name: cookie.Name, Value: cookie.Value + "x"},
		"empty":       {Name: cookie.Name},
		"hash":        {Name: cookie.Name, Value: hashToken(cookie.Value)},
	} {
		if _, err := w.who(&c); err == nil {
			t.Errorf("%s is let in", name)
		}
	}
	other := newWorld(t)
	if _, err := other.who(&http.Cookie{Name: other.Sessions.cookie, Value: cookie.Value}); err == nil {
		t.Error("a session of another workspace is let in")
	}
	if other.Sessions.cookie == w.Sessions.cookie {
		t.Error("two workspaces share a cookie")
	}
}

func TestPasswords(t *testing.T) {
	w := newWorld(t)
	login := func(password string) error {
		_, _, err := w.Login(t.Context(), from("127.0.0.1"), api.LoginRequest{Password: password})
		return err
	}
	wantCode(t, login(testPassword), api.CodeUnauthorized)
	here, err := w.who(w.signIn())
	must(t, err)
	elsewhere := w.signIn()
	for _, bad := range []string{"short", strings.Repeat("x", api.MaxPassword+1)} {
		wantCode(t, w.SetPassword(t.Context(), from("127.0.0.1"), here, api.PasswordRequest{Next: bad}), api.CodeInvalid)
	}
	must(t, w.SetPassword(t.Context(), from("127.0.0.1"), here, api.PasswordRequest{Next: testPassword}))
	if _, err := w.who(elsewhere); err == nil {
		t.Error("another browser stays signed in")
	}
	w.restart()
	if !w.Sessions.PasswordSet() {
		t.Fatal("the password is forgotten")
	}
	must(t, login(testPassword))
	wantCode(t, login(testPassword+" "), api.CodeUnauthorized)
	// A change needs the current one again, from a browser.
	const next = "another good one"
	wantCode(t, w.SetPassword(t.Context(), from("127.0.0.1"), here, api.PasswordRequest{Next: next}), api.CodeForbidden)
	wantCode(t, w.SetPassword(t.Context(), from("127.0.0.1"), here, api.PasswordRequest{Current: "wrong", Next: ""}), api.CodeForbidden)
	must(t, w.SetPassword(t.Context(), from("127.0.0.1"), here, api.PasswordRequest{Current: testPassword, Next: next}))
	must(t, login(next))
	must(t, w.SetPassword(t.Context(), from("127.0.0.1"), Identity{Kind: Program}, api.PasswordRequest{}))
	wantCode(t, login(next), api.CodeUnauthorized)
	if w.Sessions.PasswordSet() {
		t.Error("the password was not removed")
	}
}

func TestDamagedHashesLetNobodyIn(t *testing.T) {
	good := hashPassword(testPassword)
	if !matches(good, testPassword) || matches(good, testPassword+"x") {
		t.Fatal("the good hash is wrong")
	}
	for _, bad := range []string{
		"", "$", testPassword, strings.Replace(good, "argon2id", "argon2i", 1), strings.Replace(good, "v=19", "v=16", 1),
		strings.Replace(good, "t=3", "t=0", 1), strings.Replace(good, "p=4", "p=0", 1), strings.Replace(good, "m=65536", "m=0", 1),
		good[:strings.LastIndexByte(good, '$')+1], good + "$", good[:len(good)-1] + "!",
	} {
		if matches(bad, testPassword) {
			t.Errorf("%q lets in", bad)
		}
	}
}

func TestGuessingIsThrottledByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		must(t, w.SetPassword(t.Context(), from("127.0.0.1"), Identity{Kind: Program}, api.PasswordRequest{Next: testPassword}))
		try := func(addr string, req api.LoginRequest) error {
			_, _, err := w.Login(t.Context(), from(addr), req)
			return err
		}
		const guesser = "192.0.2.1"
		for range maxFailures {
			wantCode(t, try(guesser, api.LoginRequest{Password: "a guess"}), api.CodeUnauthorized)
		}
		e := wantCode(t, try(guesser, api.LoginRequest{Password: testPassword}), api.CodeTooMany)
		if ms, _ := e.Details["retryAfterMs"].(int64); ms <= 0 || ms > lockTime.Milliseconds() {
			t.Errorf("details %v", e.Details)
		}
		wantCode(t, try(guesser, api.LoginRequest{Secret: "a guess"}), api.CodeTooMany)
		must(t, try("192.0.2.2", api.LoginRequest{Password: testPassword}))
		time.Sleep(lockTime)
		must(t, try(guesser, api.LoginRequest{Password: testPassword}))
		// Success forgets failures, and a link that is right is always let in.
		for range maxFailures {
			_ = try(guesser, api.LoginRequest{Password: "a guess"})
		}
		must(t, try(guesser, api.LoginRequest{Secret: w.secret()}))
		must(t, try(guesser, api.LoginRequest{Password: testPassword}))
	})
}

func TestParallelGuessesGainNothing(t *testing.T) {
	th := throttle{clients: map[string]*attempts{}}
	let := make(chan bool)
	const n = 100
	for range n {
		go func() { let <- th.begin("x", time.Unix(0, 0)) == 0 }()
	}
	passed := 0
	for range n {
		if <-let {
			passed++
		}
	}
	if passed != maxFailures {
		t.Errorf("%d attempts were let through", passed)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	th := throttle{clients: map[string]*attempts{}}
	for i := range 2 * maxClients {
		th.begin(string(rune(i))+"x", time.Unix(int64(i), 0))
	}
	if len(th.clients) > maxClients {
		t.Errorf("%d clients", len(th.clients))
	}
}

func TestClientAddrBelievesTheTrustedHopsOnly(t *testing.T) {
	tests := []struct {
		name    string
		trust   int
		forward []string
		want    string
	}{
		{"no proxy", 0, nil, "198.51.100.7"},
		{"header from anybody", 0, []string{"1.1.1.1"}, "198.51.100.7"},
		{"one proxy", 1, []string{"203.0.113.9"}, "203.0.113.9"},
		{"forged in front", 1, []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"two headers", 1, []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		{"two proxies", 2, []string{"1.1.1.1, 203.0.113.9, 10.0.0.1"}, "203.0.113.9"},
		{"fewer than trusted", 3, []string{"203.0.113.9, 10.0.0.1"}, "203.0.113.9"},
		{"rubbish", 1, []string{"unknown"}, "198.51.100.7"},
		{"trusted and absent", 1, nil, "198.51.100.7"},
		{"mapped", 1, []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := from("198.51.100.7")
			for _, f := range tt.forward {
				r.Header.Add("X-Forwarded-For", f)
			}
			if got := NewGuard(Options{TrustProxy: tt.trust}).ClientAddr(r); got.String() != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNeighboursInIPv6CountAsOne(t *testing.T) {
	a, b, c := throttleKeyOf("2001:db8:1:2::3"), throttleKeyOf("2001:db8:1:2:ffff::4"), throttleKeyOf("2001:db8:1:3::3")
	if a != b || a == c {
		t.Errorf("keys %s, %s, %s", a, b, c)
	}
}

func throttleKeyOf(addr string) string {
	return throttleKey(NewGuard(Options{}).ClientAddr(from(addr)))
}

func TestSecureCookiesUnderHTTPS(t *testing.T) {
	public, err := url.Parse("https://box.example/garcon")
	must(t, err)
	for name, tt := range map[string]struct {
		change func(*Options)
		host   string
		header string
		secure bool
	}{
		"loopback":              {func(*Options) {}, "localhost:8080", "", false},
		"forged header":         {func(*Options) {}, "localhost:8080", "https", false},
		"trusted header":        {func(o *Options) { o.TrustProxy = 1 }, "box.example", "https", true},
		"trusted header, plain": {func(o *Options) { o.TrustProxy = 1 }, "box.example", "http", false},
		"public URL":            {func(o *Options) { o.PublicURL = public }, "box.example", "", true},
	} {
		g := newWorld(t, tt.change)
		r := from("127.0.0.1")
		r.Host = tt.host
		if tt.header != "" {
			r.Header.Set("X-Forwarded-Proto", tt.header)
		}
		if c := g.Cookie(r, "x"); c.Secure != tt.secure {
			t.Errorf("%s: secure is %v", name, c.Secure)
		}
	}
	based := newWorld(t, func(o *Options) { o.BasePath = "/garcon" })
	if c := based.Cookie(from("127.0.0.1"), "x"); c.Path != "/garcon/" {
		t.Errorf("path %s", c.Path)
	}
}

func TestPublicAndAllowedHosts(t *testing.T) {
	public, err := url.Parse("https://box.example/garcon")
	must(t, err)
	g := NewGuard(Options{
		Addrs:     []net.Addr{&net.TCPAddr{IP: net.IPv4(192, 168, 1, 5), Port: 80}, &net.TCPAddr{IP: net.IPv4zero, Port: 9000}},
		PublicURL: public, AllowedHosts: []string{"proxied.example"},
	})
	for host, want := range map[string]bool{
		"box.example": true, "box.example:443": true, "BOX.example": true, "box.example:80": false, "box.example.evil.example": false,
		"192.168.1.5": true, "192.168.1.5:80": true, "192.168.1.5:9000": false, "localhost": true, "localhost:9000": true, "localhost:80": true,
		"0.0.0.0:9000": false, "[::]:9000": false, "0.0.0.0": false, "proxied.example": true, "evil.example": false, "": false,
	} {
		r := from("127.0.0.1")
		r.Host = host
		if got := g.CheckHost(r) == nil; got != want {
			t.Errorf("host %q: %v", host, got)
		}
	}
	for _, tt := range []struct {
		host, origin string
		ok           bool
	}{
		{"box.example", "https://box.example", true},
		{"box.example", "http://box.example", false},
		{"box.example", "https://box.example:8443", false},
		{"127.0.0.1:9000", "https://box.example", true}, // a proxy that changes the host
		{"127.0.0.1:9000", "http://box.example", false},
		{"proxied.example", "https://proxied.example", true},
		{"proxied.example", "http://proxied.example", true},
		{"proxied.example", "https://box.example.evil.example", false},
		{"localhost:9000", "http://localhost:9000/", false},
	} {
		r := from("127.0.0.1")
		r.Host = tt.host
		r.Header.Set("Origin", tt.origin)
		if got := g.CheckOrigin(r) == nil; got != tt.ok {
			t.Errorf("origin %s to %s: %v", tt.origin, tt.host, got)
		}
	}
}

func TestLinksFromOtherSitesMayBeFollowed(t *testing.T) {
	g := guard()
	for _, tt := range []struct {
		method, mode, dest, origin string
		ok                         bool
	}{
		{http.MethodGet, "navigate", "document", "", true},
		{http.MethodHead, "navigate", "document", "", true},
		{http.MethodPost, "navigate", "document", "", false},
		{http.MethodGet, "navigate", "iframe", "", false},
		{http.MethodGet, "no-cors", "script", "", false},
		{http.MethodGet, "no-cors", "image", "", false},
		{http.MethodGet, "navigate", "document", "http://evil.example", false},
	} {
		r := httptest.NewRequest(tt.method, "/", nil)
		r.Host = "localhost:8080"
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", tt.mode)
		r.Header.Set("Sec-Fetch-Dest", tt.dest)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if got := g.CheckNavigation(r) == nil; got != tt.ok {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestIntentOfBrowsersIsChecked(t *testing.T) {
	g := guard()
	browser := Identity{Kind: Browser, Principal: chat.Principal{Name: "x"}}
	for _, tt := range []struct {
		name         string
		by           Identity
		header, kind string
		upload       bool
		code         api.Code
	}{
		{"script of ours", browser, "browser", "application/json", false, ""},
		{"with charset", browser, "browser", "application/json; charset=utf-8", false, ""},
		{"no header", browser, "", "application/json", false, api.CodeForbidden},
		{"other header", browser, "cli", "application/json", false, api.CodeForbidden},
		{"form", browser, "browser", "application/x-www-form-urlencoded", false, api.CodeMediaType},
		{"no type", browser, "browser", "", false, api.CodeMediaType},
		{"upload", browser, "browser", "image/png", true, ""},
		{"upload without header", browser, "", "image/png", true, api.CodeForbidden},
		{"without login", Identity{Kind: Open}, "", "application/json", false, api.CodeForbidden},
		{"nobody yet", Identity{}, "", "application/json", false, api.CodeForbidden},
		{"program", Identity{Kind: Program}, "", "", false, ""},
	} {
		r := from("127.0.0.1")
		r.Header.Set(api.HeaderOrigin, tt.header)
		r.Header.Set("Content-Type", tt.kind)
		err := g.CheckIntent(r, tt.by, tt.upload)
		if tt.code == "" && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if tt.code != "" {
			wantCode(t, err, tt.code)
		}
	}
}

func TestWithoutLoginEveryBrowserIsIn(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.NoAuth = true })
	who, err := w.Authenticate(from("127.0.0.1"))
	if err != nil || who.Kind != Open || who.Origin != row.OriginBrowser {
		t.Errorf("%+v, %v", who, err)
	}
	r := from("127.0.0.1")
	r.Header.Set("Authorization", "Bearer wrong")
	if _, err := w.Authenticate(r); err == nil {
		t.Error("a wrong bearer is let in")
	}
	r.Header.Set("Authorization", "Bearer "+runtimefile.Bearer("capability"))
	if who, err := w.Authenticate(r); err != nil || who.Kind != Program {
		t.Errorf("%+v, %v", who, err)
	}
	if err := w.CheckUpgrade(from("127.0.0.1"), Identity{Kind: Open}); err == nil {
		t.Error("a WebSocket without origin is let in")
	}
}

func TestLabelsComeFromAFixedList(t *testing.T) {
	for agent, want := range map[string]string{
		"": "A browser", "<script>": "A browser", "curl/8": "A browser",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/130.0 Mobile Safari/537.36":              "Chrome on Android",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605 Version/18.0 Safari/604":    "Safari on iPhone",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605 Version/18 Safari/605":             "Safari on macOS",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537 Chrome/130.0 Safari/537.36 Edg/130.0":    "Edge on Windows",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/130.0 Chrome/130.0 Safari/537.3": "Chrome on Linux",
	} {
		if got := labelOf(agent); got != want {
			t.Errorf("%q is called %q", agent, got)
		}
	}
}
