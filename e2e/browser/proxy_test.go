package browser

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between a browser and the controller and spoils what goes
// through it.
type proxy struct {
	listener net.Listener
	target   string
	served   sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]bool
	limit int // bytes an answer may have before it is cut; 0 for any
	// stalled keeps bytes back; resumed is closed when they may go on.
	resumed chan struct{}
	closed  bool
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, open: map[net.Conn]bool{}, resumed: make(chan struct{})}
	close(p.resumed)
	p.served.Go(p.serve)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.resume()
		p.cut()
		p.served.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// lead sets where connections go from now on.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		up, err := net.Dial("tcp", target)
		if err != nil {
			_ = c.Close()
			continue
		}
		if !p.keep(c, up) {
			continue
		}
		p.served.Go(func() { p.pump(up, c, false) })
		p.served.Go(func() { p.pump(c, up, true) })
	}
}

// keep notes the connections, or closes them when the proxy has ended.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.open[c] = true
	}
	return !p.closed
}

// pump copies from one side to the other. Answers can be stalled and cut in the
// middle of whatever frame they are in.
func (p *proxy) pump(to, from net.Conn, answers bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 4<<10)
	sent := 0
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		resumed, limit := p.resumed, p.limit
		p.mu.Unlock()
		if answers {
			<-resumed
			if limit > 0 && sent+n > limit {
				_, _ = to.Write(buf[:max(0, limit-sent)])
				return
			}
		}
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			return
		}
		sent += n
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

// cutAfter makes every answer break off after so many bytes; 0 ends that.
func (p *proxy) cutAfter(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = bytes
}

// stall keeps answers back without closing anything.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumed = make(chan struct{})
}

// resume lets answers go on.
func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resumed:
	default:
		close(p.resumed)
	}
}
