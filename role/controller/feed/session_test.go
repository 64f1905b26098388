package feed

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/api"
	"garcon/role/controller/auth"
)

func TestNoStreamBeforeEvents(t *testing.T) {
	w := newWorld(t)
	b := w.connect(auth.Identity{})
	b.open(api.StreamChats, "")
	if why := b.ended(); why.code != api.CloseProtocol {
		t.Errorf("closed with %v", &why)
	}
}

func TestBrokenProtocolEndsTheCarrier(t *testing.T) {
	w := newWorld(t)
	for name, frame := range map[string]string{
		"rubbish":          `{`,
		"second events":    `{"type":"open","stream":2,"name":"$events"}`,
		"number again":     `{"type":"open","stream":1,"name":"chats.list"}`,
		"cancel of future": `{"type":"cancel","stream":9}`,
		"unknown frame":    `{"type":"resize","stream":1}`,
	} {
		b, _ := w.ready()
		b.send(frame)
		if why := b.ended(); why.code != api.CloseProtocol {
			t.Errorf("%s: closed with %v", name, &why)
		}
	}
}

func TestStreamsEndOnce(t *testing.T) {
	w := newWorld(t)
	b, _ := w.ready()
	if e := b.finished(b.open("no.such", "")); e == nil || e.Code != api.CodeNotFound {
		t.Errorf("unknown stream: %v", e)
	}
	if e := b.finished(b.open(api.StreamChats, `{"x":1}`)); e == nil || e.Code != api.CodeInvalid {
		t.Errorf("unexpected arguments: %v", e)
	}
	if e := b.finished(b.open(api.StreamChat, `{"chatId":"1","maxMessages":5}`)); e == nil || e.Code != api.CodeChatNotFound {
		t.Errorf("unknown chat: %v", e)
	}
	n := b.open(api.StreamChats, "")
	var item api.ChatsItem
	b.item(n, &item)
	b.send(fmt.Sprintf(`{"type":"cancel","stream":%d}`, n))
	if e := b.finished(n); e != nil {
		t.Errorf("a cancelled stream ends with %v", e)
	}
	w.start("nothing of this comes")
	b.send(fmt.Sprintf(`{"type":"cancel","stream":%d}`, n)) // too late, and no error
	last := b.open("marker", "")
	for f := b.next(); f.Stream != last; f = b.next() {
		if f.Stream == n {
			t.Errorf("after its end the stream has a frame %s", f.Type)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t)
	b, _ := w.ready()
	for range api.MaxStreams - 1 {
		b.open(api.StreamFolders, "")
	}
	over := b.open(api.StreamFolders, "")
	if e := b.finished(over); e == nil || e.Code != api.CodeTooMany {
		t.Errorf("the stream over the limit: %v", e)
	}
	b.send(`{"type":"cancel","stream":2}`)
	b.finished(2)
	var item api.FoldersItem
	b.item(b.open(api.StreamFolders, ""), &item)
}

func TestAnotherGenerationOnTheSameSocket(t *testing.T) {
	w := newWorld(t)
	b, first := w.ready()
	b.send(`{"type":"cancel","stream":1}`)
	b.finished(1)
	n := b.open(api.StreamEvents, "")
	var second api.EventItem
	b.item(n, &second)
	if second.ClientID == first.ClientID || second.Type != api.EventReady {
		t.Errorf("the second generation begins with %+v", second)
	}
}

// TestLargeSnapshotsLetOthersThrough opens a stream with an item of many parts
// and another behind it: the second does not wait for the first.
func TestLargeSnapshotsLetOthersThrough(t *testing.T) {
	w := newWorld(t)
	a, r := w.start("hello")
	for i := range 60 {
		r.say(strings.Repeat(fmt.Sprint(i), 10<<10))
	}
	r.end()
	w.idle(a.ChatID)
	b, _ := w.ready()
	large := b.open(api.StreamChat, fmt.Sprintf(`{"chatId":%q,"maxMessages":500}`, a.ChatID))
	small := b.open(api.StreamFolders, "")
	var order []uint32
	frames := 0
	for len(order) < 2 {
		if f := b.next(); f.Type == api.FrameItem && (f.Stream == large || f.Stream == small) {
			order = append(order, f.Stream)
			if f.Stream == large {
				frames = b.frames
			}
		}
	}
	if order[0] != small || frames < 10 {
		t.Errorf("items came in the order %v, the large one after %d frames", order, frames)
	}
}

// idle waits until a chat has nothing going.
func (w *world) idle(chat string) {
	w.t.Helper()
	sub := w.Chats.Subscribe()
	defer sub.Close()
	for {
		c, err := w.Chats.Show(chat)
		must(w.t, err)
		if c.State.Phase == api.PhaseIdle {
			return
		}
		receive(w.t, sub.Wake())
		sub.Take()
	}
}

// TestSlowReaderConverges has a client that takes nothing while a chat grows by
// far more than its bound, and then takes everything: it ends up with what the
// transcript holds and was sent a fraction.
func TestSlowReaderConverges(t *testing.T) {
	w := newWorld(t)
	a, r := w.start("hello")
	b, _ := w.ready()
	n := b.open(api.StreamChat, fmt.Sprintf(`{"chatId":%q,"maxMessages":10}`, a.ChatID))
	list := b.open(api.StreamChats, "")
	var item api.FollowItem
	b.item(n, &item)
	const rows, size = 1000, 20 << 10
	for i := range rows {
		r.live("p", 0, fmt.Sprint("token ", i))
		r.say(strings.Repeat("x", size) + fmt.Sprint(i))
	}
	r.end()
	w.idle(a.ChatID)
	before := b.bytes
	cursor, state := item.Cursor, api.Phase("")
	snapshots := 0
	for cursor < rows+2 || state != api.PhaseIdle {
		f := b.next()
		if f.Stream == list {
			var c api.ChatsItem
			must(t, unmarshal(f.Value, &c))
			for _, chat := range c.Chats {
				state = chat.State.Phase
			}
			if c.Chat != nil {
				state = c.Chat.State.Phase
			}
		}
		if f.Stream != n {
			continue
		}
		item = api.FollowItem{}
		must(t, unmarshal(f.Value, &item))
		if item.Type == api.ItemSnapshot {
			snapshots++
		} else if len(item.Rows) > 0 && item.Cursor-int64(len(item.Rows)) != cursor {
			t.Fatalf("rows to %d came after %d", item.Cursor, cursor)
		}
		cursor = max(cursor, item.Cursor)
	}
	if sent := b.bytes - before; snapshots != 1 || sent > 8<<20 {
		t.Errorf("%d snapshots and %d bytes for %d", snapshots, sent, rows*size)
	}
}

func TestSumEndsTheSocketAndNotTheServer(t *testing.T) {
	w := newWorld(t)
	m := newMemory()
	s := newSession(w.Feed, m) // nobody writes: everything waits
	send := func(id uint32, size int) chan error {
		st := &stream{id: id, session: s, taken: make(chan struct{}, 1)}
		done := make(chan error, 1)
		go func() { done <- st.send(s.ctx, bytes.Repeat([]byte("x"), size)) }()
		for queued := false; !queued; {
			s.mu.Lock()
			queued = st.item != nil
			s.mu.Unlock()
		}
		return done
	}
	first := send(1, maxQueued)
	if err := context.Cause(s.ctx); err != nil {
		t.Fatalf("at the limit the session ends: %v", err)
	}
	second := send(2, 1)
	for _, done := range []chan error{first, second} {
		err := receive(t, done)
		if why, ok := err.(*closing); !ok || why.code != api.CloseSlow {
			t.Errorf("a source gets %v", err)
		}
	}
	w.ready() // others are served
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, r := w.start("hello")
		b, _ := w.ready()
		for _, name := range []api.StreamName{api.StreamChats, api.StreamControl, api.StreamFolders, api.StreamExecutors} {
			b.open(name, "")
		}
		b.open(api.StreamChat, fmt.Sprintf(`{"chatId":%q,"maxMessages":5}`, a.ChatID))
		stuck := w.connect(auth.Identity{}) // takes nothing
		stuck.open(api.StreamEvents, "")
		synctest.Wait()
		w.Close()
		for _, c := range []*browser{b, stuck} {
			if why := c.ended(); why.code != closeGoingAway {
				t.Errorf("closed with %v", &why)
			}
		}
		if _, ok := w.enter(); ok {
			t.Error("a closed feed takes connections")
		}
		r.end()
	})
}

func TestEndOfTheBrowsersSessionEndsItsSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.signIn(), w.signIn()
		b, idle, other := w.connect(one), w.connect(one), w.connect(two)
		b.open(api.StreamEvents, "")
		synctest.Wait() // b is blocked in a write
		if list := w.Guard.Sessions.List(one.Session); !list[0].Connected || !list[1].Connected {
			t.Errorf("sessions %+v", list)
		}
		start := time.Now()
		must(t, w.Guard.Sessions.Revoke(t.Context(), one.Session))
		for _, c := range []*browser{b, idle} {
			if why := c.ended(); why.code != api.CloseSignedOut {
				t.Errorf("closed with %v", &why)
			}
		}
		if took := time.Since(start); took >= time.Second {
			t.Errorf("it took %v", took)
		}
		select {
		case <-other.done:
			t.Error("the other browser lost its socket")
		default:
		}
		late := w.connect(one)
		if why := late.ended(); why.code != api.CloseSignedOut {
			t.Errorf("a socket of a session that is over closes with %v", &why)
		}
		// The other one runs out.
		start = time.Now()
		if why := other.endedWithin(31 * 24 * time.Hour); why.code != api.CloseSignedOut {
			t.Errorf("closed with %v", &why)
		}
		if took := time.Since(start); took < 29*24*time.Hour || took > 30*24*time.Hour+time.Second {
			t.Errorf("the session ran out after %v", took)
		}
	})
}

// endedWithin is ended for what takes long.
func (b *browser) endedWithin(limit time.Duration) closing {
	b.t.Helper()
	select {
	case <-b.done:
	case <-time.After(limit):
		b.t.Fatal("the session did not end")
	}
	return b.why
}

// signIn makes a session of a browser.
func (w *world) signIn() auth.Identity {
	w.t.Helper()
	r := newRequest("POST", "/")
	link := w.Guard.Sessions.Link("http://x/")
	cookie, id, err := w.Guard.Login(context.Background(), r, api.LoginRequest{Secret: link.URL[strings.Index(link.URL, "=")+1:]})
	must(w.t, err)
	r.AddCookie(cookie)
	who, err := w.Guard.Authenticate(r)
	must(w.t, err)
	if who.Session != id || who.Kind != auth.Browser {
		w.t.Fatalf("signed in as %+v", who)
	}
	return who
}

func TestADeadClientIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := &silent{memory: newMemory()}
		start := time.Now()
		w.serve(m, auth.Identity{})
		if took := time.Since(start); took < deadTime || took > deadTime+w.Heartbeat {
			t.Errorf("it took %v", took)
		}
		if m.why.code != closeGoingAway || m.pings < 4 {
			t.Errorf("closed with %v after %d pings", &m.why, m.pings)
		}
	})
}

// silent is a carrier whose client answers no ping.
type silent struct {
	*memory
	pings int
}

func (s *silent) Ping() error {
	s.pings++
	return nil
}

func TestASlowClientThatTakesDataIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, r := w.start("hello")
		for i := range 60 {
			r.say(strings.Repeat(fmt.Sprint(i), 10<<10))
		}
		b := &browser{memory: newMemory(), t: t, parts: map[uint32][]byte{}, done: make(chan struct{})}
		go func() {
			defer close(b.done)
			w.serve(&silent{memory: b.memory}, auth.Identity{})
		}()
		b.open(api.StreamEvents, "")
		b.open(api.StreamChat, fmt.Sprintf(`{"chatId":%q,"maxMessages":500}`, a.ChatID))
		for b.frames < 12 {
			time.Sleep(9 * time.Second) // a frame, now and then
			select {
			case raw := <-b.down:
				b.frames++
				b.bytes += len(raw)
			case <-b.done:
				t.Fatalf("ended after %d frames: %v", b.frames, &b.why)
			}
		}
		b.memory.Close(closeNormal, "")
		r.end()
	})
}

func TestUpgradesAreCounted(t *testing.T) {
	w := newWorld(t)
	var all []func()
	for range maxSockets {
		done, ok := w.enter()
		if !ok {
			t.Fatal("refused below the limit")
		}
		all = append(all, done)
	}
	if _, ok := w.enter(); ok {
		t.Error("there is one too many")
	}
	for _, done := range all {
		done()
	}
	if done, ok := w.enter(); ok {
		done()
	} else {
		t.Error("places are not given back")
	}
}
