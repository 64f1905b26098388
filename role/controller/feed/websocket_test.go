package feed

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"garcon/proto/api"
	"garcon/role/controller/auth"
	"garcon/store/runtimefile"
)

// newRequest returns a request to the test's address.
func newRequest(method, path string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = testAddr.String()
	r.RemoteAddr = "127.0.0.1:1234"
	return r
}

// site is a feed behind a real listener.
type site struct {
	*world
	host   string
	server *http.Server
	cookie *http.Cookie
}

func newSite(t testing.TB) *site {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return newSiteOn(t, l)
}

func newSiteOn(t testing.TB, l net.Listener) *site {
	t.Helper()
	s := &site{world: newWorld(t), host: l.Addr().String()}
	s.Guard = auth.NewGuard(auth.Options{Addrs: []net.Addr{l.Addr()}, Capability: "capability", Sessions: s.Guard.Sessions})
	s.server = &http.Server{Handler: s.Feed}
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(l) }()
	t.Cleanup(func() {
		_ = s.server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	link := s.Guard.Sessions.Link("")
	var err error
	s.cookie, _, err = s.Guard.Login(context.Background(), r, api.LoginRequest{Secret: link.URL[len("#login="):]})
	must(t, err)
	return s
}

// header returns the header of the site's own page.
func (s *site) header() http.Header {
	return http.Header{"Origin": {"http://" + s.host}, "Cookie": {s.cookie.String()}}
}

func (s *site) dialer() *websocket.Dialer {
	return &websocket.Dialer{Subprotocols: []string{api.MuxProtocol}, EnableCompression: true}
}

func (s *site) dial(t testing.TB) *websocket.Conn {
	t.Helper()
	c, _, err := s.dialer().Dial("ws://"+s.host+api.MuxPath, s.header())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// closeOf reads until the connection is closed and returns the code, and how
// many frames came before.
func closeOf(t testing.TB, c *websocket.Conn) (code, frames int) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(testTimeout)))
	for {
		_, _, err := c.ReadMessage()
		if e, ok := errors.AsType[*websocket.CloseError](err); ok {
			return e.Code, frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames++
	}
}

func TestUpgradesAreGuarded(t *testing.T) {
	s := newSite(t)
	own := "http://" + s.host
	_, port, err := net.SplitHostPort(s.host)
	must(t, err)
	bearer := "Bearer " + runtimefile.Bearer("capability")
	tests := []struct {
		name   string
		change func(http.Header)
		status int // 0: upgraded and served, 101: upgraded and closed
	}{
		{"own page", func(http.Header) {}, 0},
		{"program", func(h http.Header) { h.Del("Origin"); h.Del("Cookie"); h.Set("Authorization", bearer) }, 0},
		{"foreign host", func(h http.Header) { h.Set("Host", "evil.example:"+port) }, 403},
		{"foreign host, its own origin", func(h http.Header) {
			h.Set("Host", "evil.example:"+port)
			h.Set("Origin", "http://evil.example:"+port)
		}, 403},
		{"all interfaces", func(h http.Header) { h.Set("Host", "0.0.0.0:"+port) }, 403},
		{"other port", func(h http.Header) { h.Set("Host", "127.0.0.1:1") }, 403},
		{"foreign origin", func(h http.Header) { h.Set("Origin", "http://evil.example") }, 403},
		{"null origin", func(h http.Header) { h.Set("Origin", "null") }, 403},
		{"other loopback port", func(h http.Header) { h.Set("Origin", "http://127.0.0.1:3000") }, 403},
		{"suffix trick", func(h http.Header) { h.Set("Origin", own+".evil.example") }, 403},
		{"other scheme", func(h http.Header) { h.Set("Origin", "https://"+s.host) }, 403},
		{"cross-site", func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"cookie without origin", func(h http.Header) { h.Del("Origin") }, 403},
		{"no credential", func(h http.Header) { h.Del("Cookie") }, 101},
		{"wrong cookie", func(h http.Header) { h.Set("Cookie", s.cookie.Name+"=x") }, 101},
		{"wrong bearer", func(h http.Header) { h.Del("Origin"); h.Set("Authorization", "Bearer x") }, 401},
		{"token in the query", func(h http.Header) { h.Del("Cookie"); h.Set("Query", "?token="+runtimefile.Bearer("capability")) }, 101},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := s.header()
			tt.change(h)
			query := h.Get("Query")
			h.Del("Query")
			c, reply, err := s.dialer().Dial("ws://"+s.host+api.MuxPath+query, h)
			if tt.status >= 400 {
				if err == nil || reply == nil || reply.StatusCode != tt.status {
					t.Fatalf("got %v, %v; want status %d", reply, err, tt.status)
				}
				body, _ := io.ReadAll(reply.Body)
				if !bytes.Contains(body, []byte(`"code":`)) || bytes.Contains(body, []byte("capability")) {
					t.Errorf("the answer is %s", body)
				}
				return
			}
			must(t, err)
			defer c.Close()
			must(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"open","stream":1,"name":"$events"}`)))
			if tt.status == 0 {
				if _, m, err := c.ReadMessage(); err != nil || !bytes.Contains(m, []byte(`"ready"`)) {
					t.Errorf("got %s, %v", m, err)
				}
				return
			}
			if code, frames := closeOf(t, c); code != api.CloseSignedOut || frames != 0 {
				t.Errorf("closed with %d after %d frames", code, frames)
			}
		})
	}
	if _, reply, err := (&websocket.Dialer{Subprotocols: []string{"other"}}).Dial("ws://"+s.host+api.MuxPath, s.header()); err == nil || reply.StatusCode != 400 {
		t.Errorf("another protocol gets %v", reply)
	}
}

func TestRevokedSessionsAreClosedWithTheirCode(t *testing.T) {
	s := newSite(t)
	c := s.dial(t)
	id := s.Guard.Sessions.List("")[0].ID
	for !s.Guard.Sessions.List("")[0].Connected {
		runtime.Gosched()
	}
	start := time.Now()
	must(t, s.Guard.Sessions.Revoke(t.Context(), id))
	if code, _ := closeOf(t, c); code != api.CloseSignedOut {
		t.Errorf("closed with %d", code)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v", took)
	}
	again, _, err := s.dialer().Dial("ws://"+s.host+api.MuxPath, s.header())
	must(t, err)
	defer again.Close()
	if code, frames := closeOf(t, again); code != api.CloseSignedOut || frames != 0 {
		t.Errorf("redialing closes with %d", code)
	}
}

func TestHijackedSocketsEndAtShutdown(t *testing.T) {
	s := newSite(t)
	c := s.dial(t)
	must(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"open","stream":1,"name":"$events"}`)))
	_, _, err := c.ReadMessage()
	must(t, err)
	s.Close()
	if code, _ := closeOf(t, c); code != closeGoingAway {
		t.Errorf("closed with %d", code)
	}
	if _, reply, err := s.dialer().Dial("ws://"+s.host+api.MuxPath, s.header()); err == nil || reply.StatusCode != api.StatusOf(api.CodeTooMany) {
		t.Errorf("a closed feed answers %v", reply)
	}
}

func TestOversizedFramesEndTheSocket(t *testing.T) {
	s := newSite(t)
	t.Run("plain", func(t *testing.T) {
		c := s.dial(t)
		c.EnableWriteCompression(false)
		must(t, c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("x"), api.MaxFrame+1)))
		if code, _ := closeOf(t, c); code != websocket.CloseMessageTooBig && code != api.CloseProtocol {
			t.Errorf("closed with %d", code)
		}
	})
	t.Run("compressed", func(t *testing.T) {
		c := s.dial(t)
		must(t, c.SetCompressionLevel(flate.BestCompression))
		// What is left unread of it may reset the connection before the close
		// frame is seen; that it ends, and its place is given back, is the point.
		if err := c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("x"), 32<<20)); err == nil {
			must(t, c.SetReadDeadline(time.Now().Add(testTimeout)))
			_, _, err = c.ReadMessage()
			if e, ok := errors.AsType[*websocket.CloseError](err); ok && e.Code != api.CloseProtocol {
				t.Errorf("closed with %v", e)
			}
		}
		for start := time.Now(); s.count() > 0; runtime.Gosched() {
			if time.Since(start) > testTimeout {
				t.Fatal("the socket is still open")
			}
		}
	})
	t.Run("binary", func(t *testing.T) {
		c := s.dial(t)
		must(t, c.WriteMessage(websocket.BinaryMessage, binary.BigEndian.AppendUint32(nil, 1)))
		if code, _ := closeOf(t, c); code != api.CloseProtocol {
			t.Errorf("closed with %d", code)
		}
	})
}

// counting counts what a client reads from the network.
type counting struct {
	net.Conn
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func TestLargeFramesAreCompressed(t *testing.T) {
	s := newSite(t)
	a, r := s.start("hello")
	for range 40 {
		r.say(strings.Repeat("the same again ", 700))
	}
	r.end()
	s.idle(a.ChatID)
	var wire atomic.Int64
	d := s.dialer()
	d.NetDial = func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		return counting{c, &wire}, err
	}
	c, _, err := d.Dial("ws://"+s.host+api.MuxPath, s.header())
	must(t, err)
	defer c.Close()
	must(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"open","stream":1,"name":"$events"}`)))
	must(t, c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"open","stream":2,"name":"chat.follow","args":{"chatId":%q,"maxMessages":500}}`, a.ChatID)))
	total := 0
	for done := false; !done; {
		_, m, err := c.ReadMessage()
		must(t, err)
		total += len(m)
		done = bytes.Contains(m, []byte(`"last":true`))
	}
	if total < 400<<10 || wire.Load() > int64(total)/10 {
		t.Errorf("%d bytes of frames were %d on the wire", total, wire.Load())
	}
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}
func (p *pipes) Addr() net.Addr { return testAddr }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// connectPiped opens a WebSocket in memory with a client that has opened its
// events.
func connectPiped(t *testing.T, s *site, p *pipes) *websocket.Conn {
	t.Helper()
	d := s.dialer()
	d.NetDialContext = p.dial
	c, _, err := d.Dial("ws://"+s.host+api.MuxPath, s.header())
	must(t, err)
	must(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"open","stream":1,"name":"$events"}`)))
	_, _, err = c.ReadMessage()
	must(t, err)
	return c
}

func (f *Feed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func TestAStalledSocketIsEndedAfterTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := newSiteOn(t, p)
		c := connectPiped(t, s, p)
		// The client reads no more: a link that went without a word.
		start := time.Now()
		for s.count() > 0 {
			time.Sleep(100 * time.Millisecond)
			if time.Since(start) > time.Minute {
				t.Fatal("it was never ended")
			}
		}
		if took := time.Since(start); took < deadTime || took > deadTime+s.Heartbeat+time.Second {
			t.Errorf("it took %v", took)
		}
		_ = c.Close()
	})
}

func TestAnIdleSocketLivesByItsPongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s := newSiteOn(t, p)
		c := connectPiped(t, s, p)
		pings := 0
		answer := c.PingHandler()
		c.SetPingHandler(func(data string) error {
			pings++
			return answer(data)
		})
		read := make(chan error, 1)
		go func() {
			_, _, err := c.ReadMessage()
			read <- err
		}()
		time.Sleep(time.Hour)
		select {
		case err := <-read:
			t.Fatalf("ended: %v", err)
		default:
		}
		_ = c.Close()
		<-read
		if want := int(time.Hour / s.Heartbeat); pings < want-1 || pings > want+1 {
			t.Errorf("%d pings in an hour", pings)
		}
	})
}
