package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
)

const (
	// maxQueued bounds what waits for one socket, in bytes. A client that leaves
	// more unread is ended; it comes back to a snapshot.
	maxQueued = 16 << 20
	// closeGoingAway and closeNormal are codes of RFC 6455.
	closeGoingAway = 1001
	closeNormal    = 1000
)

// carrier moves frames to and from one client.
type carrier interface {
	// Read returns the next text frame; it is for one goroutine. The frame is
	// valid until the next call. What is no text frame is errProtocol.
	Read() ([]byte, error)
	// Write sends a text frame and blocks until it is accepted. Write and Ping
	// are for one goroutine.
	Write(frame []byte) error
	Ping() error
	// Alive returns when the client last gave a sign of life: it sent something,
	// or took data.
	Alive() time.Time
	// Close tells the client why, if that is possible at once, and ends Read and
	// Write.
	Close(code int, reason string)
}

// closing is why a session ends.
type closing struct {
	code   int
	reason string
}

func (c *closing) Error() string { return fmt.Sprintf("%s (%d)", c.reason, c.code) }

// session is one carrier with its streams.
type session struct {
	feed    *Feed
	carrier carrier
	// ctx is the life of everything of the session; its cause is a [*closing].
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake holds a token when there is something to write.
	wake chan struct{}
	// sources are the goroutines of streams.
	sources sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the streams' fields
	streams map[uint32]*stream
	// turns are the streams with something to write, the next one first.
	turns  []*stream
	last   uint32 // the newest stream number
	queued int    // bytes of items that wait
	events bool   // a $events stream is open
}

// stream is one logical stream. The fields below the blank line are guarded by
// the session's lock.
type stream struct {
	id      uint32
	name    api.StreamName
	session *session
	cancel  context.CancelFunc
	// taken gets a token when the item has been written.
	taken chan struct{}

	item []byte // what is left of the item, nil for none
	// parts says that the item goes in parts.
	parts bool
	size  int // of the whole item
	// final is the frame that ends the stream, once it is known.
	final []byte
	ready bool // the stream is among the turns
}

func newSession(f *Feed, c carrier) *session {
	s := &session{feed: f, carrier: c, wake: make(chan struct{}, 1), streams: map[uint32]*stream{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// end ends the session; the first reason counts.
func (s *session) end(code int, reason string) { s.cancel(&closing{code, reason}) }

// run serves the session until it is over.
func (s *session) run() {
	var carried sync.WaitGroup
	carried.Go(s.read)
	carried.Go(s.write)
	carried.Go(s.watch)
	<-s.ctx.Done()
	why, ok := errors.AsType[*closing](context.Cause(s.ctx))
	if !ok {
		why = &closing{closeGoingAway, "over"}
	}
	s.feed.Log.Debug("browser connection ends", "code", why.code, "reason", why.reason)
	s.carrier.Close(why.code, why.reason)
	carried.Wait()
	s.sources.Wait()
}

func (s *session) read() {
	for {
		data, err := s.carrier.Read()
		if err == nil {
			var f api.ClientFrame
			if f, err = decodeFrame(data); err == nil {
				err = s.take(f)
			}
		}
		switch {
		case errors.Is(err, errProtocol):
			s.end(api.CloseProtocol, err.Error())
			return
		case err != nil:
			s.end(closeNormal, "the client has gone")
			return
		}
	}
}

// take carries out a client's frame.
func (s *session) take(f api.ClientFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Type == api.FrameCancel {
		if st := s.streams[f.Stream]; st != nil {
			st.cancel()
		} else if f.Stream > s.last {
			return fmt.Errorf("%w: cancel of a stream that was never opened", errProtocol)
		}
		return nil // it has ended by itself meanwhile
	}
	if f.Stream <= s.last {
		return fmt.Errorf("%w: the number of the stream was used before", errProtocol)
	}
	s.last = f.Stream
	if isEvents := f.Name == api.StreamEvents; isEvents == s.events {
		if isEvents {
			return fmt.Errorf("%w: there is a $events stream", errProtocol)
		}
		return fmt.Errorf("%w: the first stream is $events", errProtocol)
	}
	st := &stream{id: f.Stream, name: f.Name, session: s, taken: make(chan struct{}, 1)}
	if f.Name == api.StreamEvents {
		s.events = true
	}
	ctx, cancel := context.WithCancel(s.ctx)
	st.cancel = cancel
	full := len(s.streams) >= api.MaxStreams
	s.streams[st.id] = st
	source, ok := s.feed.source(f.Name)
	switch {
	case full:
		s.finishLocked(st, api.NewError(api.CodeTooMany, "too many streams are open", "Close some."))
	case !ok:
		s.finishLocked(st, api.NewError(api.CodeNotFound, "there is no such stream", ""))
	default:
		args := append(json.RawMessage(nil), f.Args...)
		s.sources.Go(func() { s.serve(ctx, st, source, args) })
	}
	return nil
}

// serve runs a source to its end.
func (s *session) serve(ctx context.Context, st *stream, source source, args json.RawMessage) {
	var err error
	func() {
		defer func() {
			if v := recover(); v != nil {
				s.feed.Log.Error("source panicked", "stream", st.name, "panic", v, "stack", string(debug.Stack()))
				err = api.NewError(api.CodeInternal, "the controller made a mistake; its log has the details", "")
			}
		}()
		err = source(ctx, st, args)
	}()
	if ctx.Err() != nil {
		err = nil // the client asked for the end, or is gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishLocked(st, err)
}

// finishLocked ends a stream: what is waiting of it is dropped, so that a part
// is followed by nothing but the end.
func (s *session) finishLocked(st *stream, err error) {
	st.cancel()
	if st.item != nil {
		s.queued -= st.size
		st.item = nil
	}
	st.final = appendEnd(nil, st.id)
	if err != nil {
		frame, encoding := appendError(nil, st.id, toAPI(err))
		if encoding == nil {
			st.final = frame
		}
	}
	s.readyLocked(st)
}

// toAPI returns what a client is told of a failure.
func toAPI(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return api.FromExec(e)
	}
	return api.NewError(api.CodeInternal, err.Error(), "The controller's log has more.")
}

func (s *session) readyLocked(st *stream) {
	if !st.ready {
		st.ready = true
		s.turns = append(s.turns, st)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send has an item written and blocks until it has been, so that the source
// makes its next one from what is true then. value must not be changed.
func (st *stream) send(ctx context.Context, value []byte) error {
	s := st.session
	s.mu.Lock()
	if err := context.Cause(ctx); err != nil {
		s.mu.Unlock()
		return err
	}
	st.item, st.size, st.parts = value, len(value), len(value) > itemRoom
	s.queued += st.size
	over := s.queued > maxQueued
	s.readyLocked(st)
	s.mu.Unlock()
	if over {
		s.end(api.CloseSlow, "the client reads too slowly")
	}
	select {
	case <-st.taken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendItem encodes and sends an item.
func (st *stream) sendItem(ctx context.Context, item any) error {
	value, err := encode(item)
	if err != nil {
		return err
	}
	return st.send(ctx, value)
}

// frame returns the next frame to write, built on buf; nil when there is none.
func (s *session) frame(buf []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return nil
	}
	st := s.turns[0]
	s.turns = append(s.turns[:0], s.turns[1:]...)
	st.ready = false
	if st.item == nil {
		// Nothing is left but its end.
		delete(s.streams, st.id)
		if st.name == api.StreamEvents {
			s.events = false
		}
		return append(buf, st.final...)
	}
	n := len(st.item)
	if st.parts {
		buf, n = appendPart(buf, st.id, st.item)
	} else {
		buf = appendItem(buf, st.id, st.item)
	}
	if st.item = st.item[n:]; len(st.item) > 0 {
		s.readyLocked(st)
		return buf
	}
	st.item = nil
	s.queued -= st.size
	st.taken <- struct{}{} // has room: there is one item at a time
	return buf
}

func (s *session) write() {
	ping := time.NewTicker(s.feed.Heartbeat)
	defer ping.Stop()
	var buf []byte
	for {
		// A ping goes before the data, or a large snapshot would hold it up.
		select {
		case <-s.ctx.Done():
			return
		case <-ping.C:
			if err := s.carrier.Ping(); err != nil {
				s.end(closeGoingAway, "the client has gone")
				return
			}
		default:
		}
		if frame := s.frame(buf[:0]); frame != nil {
			if err := s.carrier.Write(frame); err != nil {
				s.end(closeGoingAway, "the client has gone")
				return
			}
			buf = frame
			continue
		}
		select {
		case <-s.wake:
		case <-ping.C:
			if err := s.carrier.Ping(); err != nil {
				s.end(closeGoingAway, "the client has gone")
				return
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// deadTime is how long a client may give no sign of life: it has missed two
// pongs by then, and a slow phone has taken some of a snapshot that is in front
// of the ping.
const deadTime = 10 * time.Second

// watch ends the session of a client that is dead.
func (s *session) watch() {
	patience := max(deadTime, 3*s.feed.Heartbeat)
	tick := time.NewTicker(s.feed.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if time.Since(s.carrier.Alive()) >= patience {
				s.end(closeGoingAway, "the client gave no sign of life")
				return
			}
		}
	}
}
