package chat

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// mirror is what a client would show of a chat: it applies items and checks
// that they fit together.
type mirror struct {
	t         testing.TB
	f         *Follow
	rows      []string
	ended     []string // parts that went without a row
	live      map[string]string
	cursor    int64
	snapshots int
	lives     int
	header    api.Chat
}

func (w *world) follow(t testing.TB, chat string, q FollowQuery) *mirror {
	t.Helper()
	f, err := w.Follow(t.Context(), chat, q)
	must(t, err)
	t.Cleanup(f.Close)
	return &mirror{t: t, f: f, live: map[string]string{}}
}

// next takes one item.
func (m *mirror) next() api.FollowItem {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), testTimeout)
	defer cancel()
	item, err := m.f.Next(ctx)
	must(m.t, err)
	if (item.Type == api.ItemSnapshot) != (m.snapshots == 0) && item.Type != api.ItemSnapshot {
		m.t.Fatalf("the first item is %s", item.Type)
	}
	if item.Type == api.ItemSnapshot {
		m.snapshots++
		m.rows, m.live, m.cursor = nil, map[string]string{}, item.Cursor-int64(len(item.Rows))
	}
	if item.Header != nil {
		m.header = *item.Header
	}
	for _, raw := range item.Rows {
		var r row.Row
		must(m.t, r.UnmarshalJSON(raw))
		if r.Ordinal != m.cursor+1 {
			m.t.Fatalf("row %d came after %d", r.Ordinal, m.cursor)
		}
		m.cursor = r.Ordinal
		m.rows = append(m.rows, short(r))
		delete(m.live, r.PartID)
	}
	if item.Cursor != m.cursor {
		m.t.Fatalf("a %s item says cursor %d, the rows say %d", item.Type, item.Cursor, m.cursor)
	}
	for _, l := range item.Live {
		m.lives++
		if l.Offset != 0 && l.Offset != len(m.live[l.PartID]) {
			m.t.Fatalf("part %s goes on at %d, %d bytes are known", l.PartID, l.Offset, len(m.live[l.PartID]))
		}
		m.live[l.PartID] = m.live[l.PartID][:l.Offset] + l.Text
	}
	for _, id := range item.Ended {
		m.ended = append(m.ended, id)
		delete(m.live, id)
	}
	return item
}

// until takes items until ok.
func (m *mirror) until(ok func() bool) {
	m.t.Helper()
	for !ok() {
		m.next()
	}
}

func (m *mirror) has(short string) func() bool {
	return func() bool {
		for _, r := range m.rows {
			if r == short {
				return true
			}
		}
		return false
	}
}

func (r *fakeRun) live(part string, offset int, text string) {
	r.publish(exec.Event{Live: &row.Live{PartID: part, Kind: row.KindAssistant, Offset: offset, Text: text}})
}

func (r *fakeRun) complete(part, text string) {
	rr := row.New(r.launch.TurnID, r.launch.RunID, &row.Assistant{Text: text})
	rr.PartID = part
	r.publish(exec.Event{Rows: []row.Row{rr}})
}

func TestFollowShowsPartsBecomeRows(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	m := w.follow(t, a.ChatID, FollowQuery{})
	m.until(m.has("run started"))
	r.live("p", 0, "Hel")
	m.until(func() bool { return m.live["p"] == "Hel" })
	r.live("p", 3, "lo w")
	m.until(func() bool { return m.live["p"] == "Hello w" })
	r.live("p", 5, "!") // the agent takes something back
	m.until(func() bool { return m.live["p"] == "Hello!" })
	late := w.follow(t, a.ChatID, FollowQuery{})
	late.next()
	if late.live["p"] != "Hello!" {
		t.Errorf("a late follower sees %q", late.live["p"])
	}
	r.complete("p", "Hello!")
	m.until(m.has("assistant Hello!"))
	r.live("q", 0, "never")
	m.until(func() bool { return m.live["q"] == "never" })
	r.end(row.RunCompleted, nil)
	m.until(func() bool {
		return len(m.live) == 0 && m.has("run completed")() && m.header.State.Phase == api.PhaseIdle
	})
	if len(m.ended) != 1 || m.ended[0] != "q" || m.snapshots != 1 {
		t.Errorf("ended %v, %d snapshots", m.ended, m.snapshots)
	}
}

func TestFollowNeverTearsText(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	m := w.follow(t, a.ChatID, FollowQuery{})
	text := "aé漢😀z"
	for i := range len(text) {
		r.live("p", i, text[i:i+1])
	}
	m.until(func() bool { return strings.HasSuffix(m.live["p"], "z") })
	if m.live["p"] != text {
		t.Errorf("got %q", m.live["p"])
	}
	r.live("p", len(text), "\xff")
	r.live("p", len(text)+1, "end")
	m.until(func() bool { return strings.HasSuffix(m.live["p"], "end") })
	if m.live["p"] != text+"\uFFFDend" {
		t.Errorf("got %q", m.live["p"])
	}
}

func TestLivePartsCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, r := w.mustStart(t, "hello")
		m := w.follow(t, a.ChatID, FollowQuery{})
		m.until(m.has("run started"))
		const n = 320
		go func() {
			for i := range n {
				r.live("p", i, "x")
				time.Sleep(time.Millisecond)
			}
		}()
		start := time.Now()
		m.until(func() bool { return len(m.live["p"]) == n })
		took := time.Since(start)
		if most := int(took/liveInterval) + 2; m.lives > most || took > n*time.Millisecond+liveInterval {
			t.Errorf("%d updates in %v", m.lives, took)
		}
		r.end(row.RunCompleted, nil)
		m.until(func() bool { return m.header.State.Phase == api.PhaseIdle })
	})
}

func TestReaderFarBehindGetsOneSnapshot(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	m := w.follow(t, a.ChatID, FollowQuery{MaxMessages: 5})
	m.until(m.has("run started"))
	const n, size = 400, 20 << 10
	for i := range n {
		r.say(fmt.Sprintf("%d %s", i, strings.Repeat("x", size)))
	}
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	sent := 0
	for !m.has("run completed")() {
		for _, raw := range m.next().Rows {
			sent += len(raw)
		}
	}
	if m.snapshots != 2 || sent > maxBacklog {
		t.Errorf("%d snapshots, %d bytes for a backlog of %d", m.snapshots, sent, n*size)
	}
	if m.cursor != n+2 {
		t.Errorf("the mirror ends at row %d", m.cursor)
	}
}

func TestLargeRowsComeAsHeads(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	text := strings.Repeat("long ", 20<<10)
	r.say(text)
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	f, err := w.Follow(t.Context(), a.ChatID, FollowQuery{})
	must(t, err)
	defer f.Close()
	item, err := f.Next(t.Context())
	must(t, err)
	page, err := w.Page(t.Context(), a.ChatID, PageQuery{Through: -1, Before: -1, Heads: true})
	must(t, err)
	whole, err := w.Body(t.Context(), a.ChatID, "", 2)
	must(t, err)
	for _, head := range [][]byte{item.Rows[2], page.Rows[2]} {
		if len(head) > api.MaxRowBody || !strings.Contains(string(head), fmt.Sprintf(`,"fullBytes":%d,"digest":"sha256-`, len(whole))) {
			t.Errorf("a row of %d bytes came as %d: …%s", len(whole), len(head), head[len(head)-200:])
		}
		var rr row.Row
		must(t, rr.UnmarshalJSON(head))
		if got := rr.Body.(*row.Assistant).Text; !strings.HasPrefix(text, got[:1000]) {
			t.Errorf("head begins %q", got[:100])
		}
	}
	if &item.Rows[2][0] != &page.Rows[2][0] {
		t.Error("the head was made twice")
	}
}

func TestObservingStartsNoAgent(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	r.end(row.RunCompleted, nil)
	w.receipt(t, a)
	o, err := w.owner(a.ChatID)
	must(t, err)
	o.unbind(t.Context())
	sub := w.Subscribe()
	defer sub.Close()
	m := w.follow(t, a.ChatID, FollowQuery{})
	m.next()
	w.Controls()
	w.Peek(a.ChatID)
	w.List(Filter{Archived: true})
	title := "renamed"
	_, err = w.Update(t.Context(), a.ChatID, api.UpdateRequest{Title: &title})
	must(t, err)
	m.until(func() bool { return m.header.Title == title })
	w.agent.mu.Lock()
	defer w.agent.mu.Unlock()
	if w.agent.bindings != 1 || w.agent.closed != 1 || len(w.agent.launches) != 0 {
		t.Errorf("%d bindings, %d launches", w.agent.bindings, len(w.agent.launches))
	}
}

func TestFollowOfAChildIsChecked(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	_, err := w.Follow(t.Context(), a.ChatID, FollowQuery{Child: "c1"})
	wantCode(t, err, api.CodeNotFound)
	r.publish(exec.Event{Rows: []row.Row{row.New(r.launch.TurnID, r.launch.RunID, &row.Subagent{ChildID: "c1"})}})
	m := w.follow(t, a.ChatID, FollowQuery{})
	m.until(m.has("subagent"))
	c := w.follow(t, a.ChatID, FollowQuery{Child: "c1"})
	if item := c.next(); len(item.Rows) != 0 || item.Cursor != -1 {
		t.Errorf("the child's transcript begins with %+v", item)
	}
	said := row.New(r.launch.TurnID, r.launch.RunID, &row.Assistant{Text: "from the child"})
	said.Child = "c1"
	r.publish(exec.Event{Live: &row.Live{PartID: "main", Kind: row.KindAssistant, Text: "not yours"}})
	r.publish(exec.Event{Rows: []row.Row{said}})
	c.until(c.has("assistant from the child"))
	if len(c.live) != 0 {
		t.Errorf("the child shows %v", c.live)
	}
}

func TestFollowEndsWithTheChat(t *testing.T) {
	w := newWorld(t)
	a, r := w.mustStart(t, "hello")
	m := w.follow(t, a.ChatID, FollowQuery{})
	m.until(m.has("run started"))
	r.end(row.RunCompleted, nil)
	must(t, w.Delete(t.Context(), a.ChatID))
	for {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		_, err := m.f.Next(ctx)
		cancel()
		if err != nil {
			wantCode(t, err, api.CodeChatNotFound)
			return
		}
	}
}

func TestSubscriptionCollectsEachChatOnce(t *testing.T) {
	w := newWorld(t)
	sub := w.Subscribe()
	defer sub.Close()
	a, r := w.mustStart(t, "hello")
	r.end(row.RunFailed, exec.Errorf(exec.CodeRateLimited, "slow down"))
	w.receipt(t, a)
	var events []api.Notification
	for len(events) == 0 {
		receive(t, sub.Wake())
		n := sub.Take()
		if len(n.Chats) > 1 {
			t.Fatalf("chats %v", n.Chats)
		}
		events = append(events, n.Events...)
	}
	if e := events[0]; e.Kind != newsFailed || e.ChatID != a.ChatID || e.TurnID != a.TurnID || e.Text != "slow down" || e.Title != "hello" {
		t.Errorf("event %+v", e)
	}
	for i := range maxNews + 10 {
		w.subs.announce(api.Notification{Text: fmt.Sprint(i)})
	}
	n := sub.Take()
	if len(n.Events) != maxNews || n.Missed != 10 || n.Events[0].Text != "10" {
		t.Errorf("%d events, %d missed", len(n.Events), n.Missed)
	}
}
