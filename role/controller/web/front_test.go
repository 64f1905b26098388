package web_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"garcon/proto/api"
	"garcon/role/controller/auth"
	"garcon/role/controller/chat"
	"garcon/role/controller/feed"
	"garcon/role/controller/fleet"
	"garcon/role/controller/folder"
	"garcon/role/controller/httpapi"
	"garcon/role/controller/permission"
	"garcon/role/controller/web"
	"garcon/store"
	"garcon/store/runtimefile"
)

const capability = "the capability"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFront returns everything a listener serves, and the cookie of a session.
func newFront(t testing.TB, base string) (*web.Front, *http.Cookie) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	root, err := store.OpenRoot(t.TempDir(), store.RoleController)
	must(t, err)
	ws, err := root.OpenWorkspace(context.Background(), "default", store.Options{Log: log})
	must(t, err)
	desk := permission.New(log)
	chats := chat.New(chat.Options{Workspace: ws, Runtimes: fleet.New(""), Desk: desk, Instance: "instance-1", Log: log})
	folders := folder.Open(ws.Registry(), log)
	sessions, err := auth.OpenSessions(context.Background(), ws.Registry(), "default", log)
	must(t, err)
	guard := auth.NewGuard(auth.Options{
		Addrs: []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}}, Capability: capability, Sessions: sessions, BasePath: base,
	})
	live := feed.New(feed.Options{Chats: chats, Desk: desk, Folders: folders, Guard: guard, Instance: "instance-1", Log: log})
	ui, err := web.New(fstest.MapFS{
		"index.html": {Data: []byte("<html><head></head><body>the page</body></html>")}, "assets/a-1.js": {Data: []byte("the script")},
	}, base, guard)
	must(t, err)
	t.Cleanup(func() {
		live.Close()
		chats.Close(context.Background())
		folders.Close()
		must(t, ws.Close())
		must(t, root.Close())
	})
	link := sessions.Link("")
	cookie, _, err := guard.Login(context.Background(), httptest.NewRequest(http.MethodPost, "/", nil), api.LoginRequest{Secret: strings.TrimPrefix(link.URL, "#login=")})
	must(t, err)
	return &web.Front{Guard: guard, BasePath: base, Feed: live, UI: ui, API: httpapi.New(httpapi.Options{
		Chats: chats, Folders: folders, Answers: live, Guard: guard, Home: "http://127.0.0.1:8080/",
		Descriptor: runtimefile.Descriptor{Schema: runtimefile.Schema, Role: "controller", InstanceID: "instance-1", Capability: capability},
		Workspace:  "default", Version: "test", Log: log, Doctor: func(context.Context) api.Doctor { return api.Doctor{Checks: []api.Check{}} },
	})}, cookie
}

// route is one thing a listener serves.
type route struct {
	method, path string
	// static: it needs no credential, and a link from another site may lead
	// there.
	static bool
	public bool
}

func routes() []route {
	var out []route
	for _, op := range api.Operations {
		path := op.Path
		for _, name := range []string{"chat", "turn", "ordinal", "entry", "occurrence", "digest", "agent", "provider", "session", "event", "folder"} {
			path = strings.ReplaceAll(path, "{"+name+"}", "1")
		}
		out = append(out, route{op.Method, api.Base + path, false, op.Public})
	}
	return append(out,
		route{http.MethodGet, api.MuxPath, false, false},
		route{http.MethodGet, "/", true, true},
		route{http.MethodGet, "/index.html", true, true},
		route{http.MethodGet, "/chat/1", true, true},
		route{http.MethodGet, "/assets/a-1.js", true, true},
		route{http.MethodGet, "/api/v1/nothing", false, true},
		route{http.MethodGet, "/api/v2/chats", false, true},
	)
}

// request is one that a page of ours makes, and that a signed-in browser sends.
func request(r route, cookie *http.Cookie) *http.Request {
	out := httptest.NewRequest(r.method, r.path, strings.NewReader("{}"))
	out.Host = "127.0.0.1:8080"
	out.Header.Set("Origin", "http://127.0.0.1:8080")
	out.Header.Set("Sec-Fetch-Site", "same-origin")
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set(api.HeaderOrigin, "browser")
	out.Header.Set(api.HeaderInstance, "instance-1")
	if r.path == api.MuxPath {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", "websocket")
		out.Header.Set("Sec-Websocket-Version", "13")
		out.Header.Set("Sec-Websocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
		out.Header.Set("Sec-Websocket-Protocol", api.MuxProtocol)
	}
	out.AddCookie(cookie)
	return out
}

// TestHostileRequestsGetNothing sends every route a request with all
// credentials from every hostile host and origin.
func TestHostileRequestsGetNothing(t *testing.T) {
	for _, base := range []string{"", "/garcon"} {
		front, cookie := newFront(t, base)
		hosts := []string{
			"", "evil.example", "evil.example:8080", "127.0.0.1", "127.0.0.1:80", "localhost.:8080", "localhost:8080.evil.example",
			"0.0.0.0:8080", "[::]:8080", "2130706433:8080", "127.0.0.1.nip.io:8080", "127.0.0.1:8080@evil.example",
		}
		origins := []string{
			"null", "http://evil.example", "http://127.0.0.1:3000", "https://127.0.0.1:8080", "http://127.0.0.1:8080.evil.example",
			"http://localhost:8080", "http://evil-127.0.0.1:8080", "chrome-extension://x", "http://127.0.0.1:8080@evil.example", "file://",
		}
		check := func(name string, r route, change func(*http.Request)) {
			t.Helper()
			req := request(r, cookie)
			req.URL.Path = base + req.URL.Path
			change(req)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, req)
			if w.Code != http.StatusForbidden {
				t.Errorf("%s %s%s with %s: status %d", r.method, base, r.path, name, w.Code)
			}
			if body := w.Body.String(); strings.Contains(body, "the page") || strings.Contains(body, "the script") || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s %s%s with %s: got %s", r.method, base, r.path, name, body)
			}
			for h := range w.Header() {
				if strings.HasPrefix(h, "Access-Control-") {
					t.Errorf("%s: the answer has %s", name, h)
				}
			}
		}
		for _, r := range routes() {
			for _, host := range hosts {
				check("host "+host, r, func(req *http.Request) { req.Host = host })
				check("host and origin "+host, r, func(req *http.Request) {
					req.Host = host
					req.Header.Set("Origin", "http://"+host)
				})
			}
			for _, origin := range origins {
				check("origin "+origin, r, func(req *http.Request) { req.Header.Set("Origin", origin) })
			}
			for _, site := range []string{"cross-site", "same-site"} {
				check("fetch from "+site, r, func(req *http.Request) {
					req.Header.Del("Origin")
					req.Header.Set("Sec-Fetch-Site", site)
				})
			}
		}
	}
}

// TestNothingIsSaidBeforeAuthentication sends every route a request of our own
// page without a credential, and with ones that are no good.
func TestNothingIsSaidBeforeAuthentication(t *testing.T) {
	front, cookie := newFront(t, "")
	for _, r := range routes() {
		if r.public || r.path == api.MuxPath {
			continue // the socket has a test of its own
		}
		for name, change := range map[string]func(*http.Request){
			"none":         func(req *http.Request) { req.Header.Del("Cookie") },
			"wrong cookie": func(req *http.Request) { req.Header.Set("Cookie", cookie.Name+"=wrong") },
			"wrong bearer": func(req *http.Request) { req.Header.Set("Authorization", "Bearer wrong") },
			"capability":   func(req *http.Request) { req.Header.Set("Authorization", "Bearer "+capability) },
			"query token": func(req *http.Request) {
				req.Header.Del("Cookie")
				req.URL.RawQuery = "token=" + runtimefile.Bearer(capability)
			},
		} {
			req := request(r, cookie)
			change(req)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, req)
			if w.Code != http.StatusUnauthorized || !bytes.Contains(w.Body.Bytes(), []byte(`"code":"UNAUTHORIZED"`)) || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s %s with %s: %d %s", r.method, r.path, name, w.Code, w.Body)
			}
		}
	}
}

// TestChangesNeedIntent sends every change with a cookie alone, as a form of
// another site could if everything else failed.
func TestChangesNeedIntent(t *testing.T) {
	front, cookie := newFront(t, "")
	for _, r := range routes() {
		if r.method == http.MethodGet {
			continue
		}
		for name, tt := range map[string]struct {
			change func(*http.Request)
			status int
		}{
			"no header":   {func(req *http.Request) { req.Header.Del(api.HeaderOrigin) }, http.StatusForbidden},
			"form":        {func(req *http.Request) { req.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
			"no type":     {func(req *http.Request) { req.Header.Del("Content-Type") }, http.StatusUnsupportedMediaType},
			"no instance": {func(req *http.Request) { req.Header.Del(api.HeaderInstance) }, http.StatusConflict},
		} {
			upload := r.path == api.Base+"/attachments" && name != "no header" && name != "no instance"
			if upload || r.public && name == "no instance" {
				continue
			}
			req := request(r, cookie)
			tt.change(req)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, req)
			if w.Code != tt.status {
				t.Errorf("%s %s with %s: %d %s", r.method, r.path, name, w.Code, w.Body)
			}
		}
	}
}

func TestOwnPagesAreServed(t *testing.T) {
	for _, tt := range []struct{ base, path, want string }{
		{"", "/", "the page"},
		{"", "/chat/1", "the page"},
		{"", "/assets/a-1.js", "the script"},
		{"", api.Base + "/chats", `"chats":[]`},
		{"/garcon", "/garcon/", "the page"},
		{"/garcon", "/garcon/assets/a-1.js", "the script"},
		{"/garcon", "/garcon" + api.Base + "/chats", `"chats":[]`},
		{"/garcon", "/", "the page"},
		{"/garcon", api.Base + "/chats", `"chats":[]`}, // a proxy that strips the path
	} {
		front, cookie := newFront(t, tt.base)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, request(route{method: http.MethodGet, path: tt.path}, cookie))
		if w.Code != 200 || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s below %q: %d %s", tt.path, tt.base, w.Code, w.Body)
		}
	}
	front, cookie := newFront(t, "/garcon")
	w := httptest.NewRecorder()
	front.ServeHTTP(w, request(route{method: http.MethodGet, path: "/garcon"}, cookie))
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "/garcon/" {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	// A person follows a link from a mail.
	req := request(route{method: http.MethodGet, path: "/"}, cookie)
	req.Header.Del("Origin")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	w = httptest.NewRecorder()
	front.ServeHTTP(w, req)
	if w.Code != 200 {
		t.Errorf("a followed link gets %d", w.Code)
	}
	req.URL.Path = api.Base + "/chats"
	w = httptest.NewRecorder()
	front.ServeHTTP(w, req)
	if w.Code != http.StatusForbidden {
		t.Errorf("a followed link into the interface for programs gets %d", w.Code)
	}
}
