package feed

import (
	"bufio"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"garcon/proto/api"
	"garcon/role/controller/auth"
)

const (
	// maxSockets bounds the open sockets: every tab of every device, many times
	// over.
	maxSockets = 512
	// compressAbove is the size of a frame worth compressing, in bytes.
	compressAbove = 1 << 10
	// sendBuffer is what the system may hold of a socket's data, in bytes. It is
	// small so that data it has accepted is soon on its way: a slow client is
	// told from a dead one by that.
	sendBuffer = 128 << 10
	// writeBuffer is that of the frames' writer, in bytes.
	writeBuffer = 16 << 10
	// closeGrace is how long a close frame may wait for the socket. It is part of
	// the second in which a revoked session loses its sockets.
	closeGrace = 300 * time.Millisecond
	// pingGrace is how long a ping may wait for the socket; the death of the
	// client is found out by other means.
	pingGrace = 10 * time.Second
	// chunk is how much is given to the socket at once, in bytes: each chunk that
	// is accepted is a sign of life.
	chunk = 8 << 10
)

// ServeHTTP upgrades a browser's connection and serves it. What is refused for
// its host or origin gets no upgrade; a browser that is not signed in gets one
// that is closed at once with [api.CloseSignedOut], because it cannot see the
// status of a refusal.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := f.Guard.CheckHost(r); err != nil {
		refuse(w, err)
		return
	}
	if err := f.Guard.CheckOrigin(r); err != nil {
		refuse(w, err)
		return
	}
	who, authErr := f.Guard.Authenticate(r)
	if err := f.Guard.CheckUpgrade(r, who); err != nil {
		if authErr != nil {
			err = authErr
		}
		refuse(w, err)
		return
	}
	if r.Method != http.MethodGet || !websocket.IsWebSocketUpgrade(r) || !slices.Contains(websocket.Subprotocols(r), api.MuxProtocol) {
		refuse(w, api.NewError(api.CodeInvalid, "this is for WebSockets that speak "+api.MuxProtocol, ""))
		return
	}
	done, ok := f.enter()
	if !ok {
		refuse(w, api.NewError(api.CodeTooMany, "too many connections are open, or the controller is shutting down", "Close some tabs."))
		return
	}
	defer done()
	var header http.Header
	if who.Renewed != nil {
		header = http.Header{"Set-Cookie": {who.Renewed.String()}}
	}
	upgrader := websocket.Upgrader{
		ReadBufferSize: 4 << 10, WriteBufferSize: writeBuffer, WriteBufferPool: &f.buffers,
		Subprotocols: []string{api.MuxProtocol}, EnableCompression: true,
		CheckOrigin: func(*http.Request) bool { return true }, // done above
	}
	hijack := &hijacker{ResponseWriter: w}
	conn, err := upgrader.Upgrade(hijack, r, header)
	if err != nil {
		f.Log.Debug("upgrade failed", "err", err)
		return
	}
	c := newSocket(conn, hijack.conn)
	if authErr != nil {
		c.Close(api.CloseSignedOut, "signed out")
		return
	}
	f.serve(c, who)
}

// serve runs a session over a carrier until one of them, or the browser's
// session, ends.
func (f *Feed) serve(c carrier, who auth.Identity) {
	s := newSession(f, c)
	if !f.add(s) {
		c.Close(closeGoingAway, "the controller is shutting down")
		return
	}
	defer f.remove(s)
	if who.Kind == auth.Browser {
		over, detach, ok := f.Guard.Sessions.Attach(s.ctx, who.Session)
		if !ok {
			c.Close(api.CloseSignedOut, "signed out")
			return
		}
		defer detach()
		s.sources.Go(func() {
			select {
			case <-over:
				s.end(api.CloseSignedOut, "signed out")
			case <-s.ctx.Done():
			}
		})
	}
	s.run()
}

// refuse answers a request that gets no upgrade.
func refuse(w http.ResponseWriter, err error) {
	e := toAPI(err)
	body, encoding := encode(api.Envelope{Error: e})
	if encoding != nil {
		http.Error(w, "refused", http.StatusForbidden)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(api.StatusOf(e.Code))
	_, _ = w.Write(body) // the client has gone
}

// hijacker hands the upgrader a connection that notes what the client takes.
type hijacker struct {
	http.ResponseWriter
	conn *progress
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	under, ok := h.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("the connection cannot be taken over")
	}
	conn, rw, err := under.Hijack()
	if err != nil {
		return nil, nil, err
	}
	if t, ok := tcpOf(conn); ok {
		// Without it a slow client is found out later; nothing else depends on it.
		_ = t.SetWriteBuffer(sendBuffer)
	}
	h.conn = &progress{Conn: conn}
	h.conn.note()
	return h.conn, rw, nil
}

// tcpOf returns the TCP connection below a connection.
func tcpOf(c net.Conn) (*net.TCPConn, bool) {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	t, ok := c.(*net.TCPConn)
	return t, ok
}

// progress is a connection that notes when the other end gave a sign of life.
type progress struct {
	net.Conn
	last atomic.Int64 // Unix nanoseconds
	// pinging keeps pings from counting as data that was taken.
	pinging atomic.Bool
}

func (p *progress) note() { p.last.Store(time.Now().UnixNano()) }

// Write writes in pieces, each of which is a sign of life once it is accepted.
func (p *progress) Write(data []byte) (int, error) {
	n := 0
	for {
		piece := data[n:min(n+chunk, len(data))]
		m, err := p.Conn.Write(piece)
		n += m
		if err != nil {
			return n, err
		}
		if !p.pinging.Load() {
			p.note()
		}
		if n == len(data) {
			return n, nil
		}
	}
}

// socket is the carrier over a WebSocket.
type socket struct {
	conn *websocket.Conn
	net  *progress
	once sync.Once
}

func newSocket(conn *websocket.Conn, under *progress) *socket {
	s := &socket{conn: conn, net: under}
	conn.SetReadLimit(api.MaxFrame)
	conn.SetPongHandler(func(string) error {
		under.note()
		return nil
	})
	_ = conn.SetCompressionLevel(flate.BestSpeed) // the level is a valid one
	return s
}

// Read implements [carrier].
func (s *socket) Read() ([]byte, error) {
	kind, r, err := s.conn.NextReader()
	if err != nil {
		return nil, readError(err)
	}
	s.net.note()
	if kind != websocket.TextMessage {
		return nil, fmt.Errorf("%w: a binary frame without a terminal", errProtocol)
	}
	// The limit of the connection is one of compressed bytes.
	data, err := io.ReadAll(io.LimitReader(r, api.MaxFrame+1))
	if err != nil {
		return nil, readError(err)
	}
	return data, nil
}

// readError tells a client that breaks the protocol from one that has gone.
func readError(err error) error {
	if errors.Is(err, websocket.ErrReadLimit) {
		return fmt.Errorf("%w: a frame of more than %d bytes", errProtocol, api.MaxFrame)
	}
	return err
}

// Write implements [carrier].
func (s *socket) Write(frame []byte) error {
	s.conn.EnableWriteCompression(len(frame) > compressAbove)
	return s.conn.WriteMessage(websocket.TextMessage, frame)
}

// Ping implements [carrier].
func (s *socket) Ping() error {
	s.net.pinging.Store(true)
	defer s.net.pinging.Store(false)
	return s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(pingGrace))
}

// Alive implements [carrier].
func (s *socket) Alive() time.Time { return time.Unix(0, s.net.last.Load()) }

// maxReason bounds the reason of a close frame, in bytes; see RFC 6455.
const maxReason = 120

// Close implements [carrier].
func (s *socket) Close(code int, reason string) {
	s.once.Do(func() {
		if len(reason) > maxReason {
			reason = reason[:maxReason]
		}
		// A client that takes nothing learns nothing.
		_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(closeGrace))
		_ = s.conn.Close()
	})
}
