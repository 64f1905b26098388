package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

func TestAppendNumbersAndStores(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(5000)
	s, err := OpenSet(dir, Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Create(t.Context(), "1", CreateMeta{View: "v1", ContentStart: 2})
	if err != nil {
		t.Fatal(err)
	}
	timed := answer("with a time")
	timed.Time, timed.Ordinal = 77, 999
	c := appendRows(t, l, user("hello \x00 \xff"), ofSubagent("kid", notice("k0")), timed, ofSubagent("kid", notice("k1")))
	if c.First != 0 || c.Last != 1 || c.Replayed || len(c.Rows) != 4 {
		t.Fatalf("committed %+v", c)
	}
	if got := texts(c.Rows); got != "hello \uFFFD \uFFFD k0 with a time k1" {
		t.Fatalf("rows %q", got)
	}
	for i, want := range []struct{ ordinal, time int64 }{{0, 5000}, {0, 5000}, {1, 77}, {1, 5000}} {
		var inJSON row.Row
		if err := json.Unmarshal(c.Rows[i].JSON, &inJSON); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Rows[i].Row, inJSON); diff != "" {
			t.Fatalf("row %d and its JSON differ: %s", i, diff)
		}
		if inJSON.Ordinal != want.ordinal || inJSON.Time != want.time {
			t.Fatalf("row %d has ordinal %d and time %d", i, inJSON.Ordinal, inJSON.Time)
		}
	}
	if c := appendRows(t, l, ofSubagent("kid", notice("k2"))); c.First != -1 || c.Last != -1 {
		t.Fatalf("a batch without main rows: %+v", c)
	}
	if c, err := l.Append(t.Context(), Batch{}); err != nil || c.First != -1 {
		t.Fatalf("an empty batch: %+v, %v", c, err)
	}
	want := l.Head()
	if want.Last != 1 || want.Rows != 2 || want.Messages != 2 || want.View != "v1" || want.ContentStart != 2 {
		t.Fatalf("head %+v", want)
	}
	l.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, openSet(t, dir), "1")
	if diff := cmp.Diff(want, l.Head()); diff != "" {
		t.Fatalf("head after reopening: %s", diff)
	}
	children, err := l.Children(t.Context())
	if err != nil || len(children) != 1 || children[0] != (Child{ID: "kid", Last: 2, Rows: 3}) {
		t.Fatalf("children %+v, %v", children, err)
	}
	stored, err := l.Row(t.Context(), "kid", 2)
	if err != nil || text(stored.Row) != "k2" {
		t.Fatalf("row %+v, %v", stored, err)
	}
	for _, bad := range []int64{-1, 2} {
		if _, err := l.Row(t.Context(), "", bad); !errors.Is(err, ErrNotFound) {
			t.Fatalf("row %d: %v", bad, err)
		}
	}
}

func TestAppendRefusesWhatItCannotStore(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	for name, b := range map[string]Batch{
		"no body":     {Rows: []row.Row{{}}},
		"child":       {Rows: []row.Row{ofSubagent("a\x00b", notice("x"))}},
		"long child":  {Rows: []row.Row{ofSubagent(strings.Repeat("x", maxID+1), notice("x"))}},
		"occurrence":  {Rows: []row.Row{row.New("", "", &row.Permission{Occurrence: strings.Repeat("x", maxID+1)})}},
		"client id":   {ClientID: "\xff"},
		"fingerprint": {ClientID: "a", Fingerprint: strings.Repeat("x", maxID+1)},
	} {
		if _, err := l.Append(t.Context(), b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		called := false
		l.AppendAsync(b, func(_ Committed, err error) { called = errors.Is(err, ErrInvalid) })
		if !called {
			t.Errorf("%s: done was not called", name)
		}
	}
	if h := l.Head(); h.Rows != 0 {
		t.Fatalf("stored %d rows", h.Rows)
	}
	appendRows(t, l, ofSubagent(strings.Repeat("x", maxID), notice("fits")))
}

func TestLargestRow(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	c := appendRows(t, l, answer(strings.Repeat("\x01", 9<<20)), notice("after"))
	if len(c.Rows[0].JSON) > row.MaxBytes+ordinalRoom || !strings.Contains(text(c.Rows[0].Row), "cut here") {
		t.Fatalf("%d bytes", len(c.Rows[0].JSON))
	}
	stored, err := l.Row(t.Context(), "", 0)
	if err != nil || text(stored.Row) != text(c.Rows[0].Row) {
		t.Fatalf("reading it back: %v", err)
	}
	p, err := l.Page(t.Context(), PageQuery{Through: 0, Before: -1, MaxMessages: 1})
	if err != nil || len(p.Rows) != 1 || p.HasMore {
		t.Fatalf("a page of one row over the limit: %d rows, %v", len(p.Rows), err)
	}
}

func TestClientIDs(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	ctx := t.Context()
	first, err := l.Append(ctx, Batch{Rows: []row.Row{notice("intro"), user("a")}, ClientID: "c1", Fingerprint: "f1"})
	if err != nil {
		t.Fatal(err)
	}
	check := func(l *Ledger) {
		t.Helper()
		rows := l.Head().Rows
		again, err := l.Append(ctx, Batch{Rows: []row.Row{user("other bytes")}, ClientID: "c1", Fingerprint: "f1"})
		if err != nil || !again.Replayed || again.First != first.First || again.Last != first.Last || again.Rows != nil {
			t.Fatalf("replay: %+v, %v", again, err)
		}
		if _, err := l.Append(ctx, Batch{Rows: []row.Row{user("b")}, ClientID: "c1", Fingerprint: "f2"}); !errors.Is(err, ErrConflict) {
			t.Fatalf("conflict: %v", err)
		}
		if l.Head().Rows != rows {
			t.Fatal("a replay or a conflict stored rows")
		}
	}
	check(l)

	// Two with the same id in one commit: exactly one stores its rows.
	var stored, replayed atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			c, err := l.Append(ctx, Batch{Rows: []row.Row{user("same")}, ClientID: "c2", Fingerprint: "f"})
			switch {
			case err != nil:
				t.Error(err)
			case c.Replayed:
				replayed.Add(1)
			default:
				stored.Add(1)
			}
		})
	}
	wg.Wait()
	if stored.Load() != 1 || replayed.Load() != 19 {
		t.Fatalf("stored %d, replayed %d", stored.Load(), replayed.Load())
	}
	l.Release()
	s.Close()
	l2, err := openSet(t, dir).Open(ctx, "1")
	if err != nil {
		t.Fatal(err)
	}
	check(l2)
	l2.Release()
}

func TestWatermarksAndSession(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	for i := range maxWatermarks + 2 {
		_, err := l.Append(t.Context(), Batch{
			Watermark: &Watermark{fmt.Sprint("binding-", i), uint64(i)}, Urgent: true,
			Session: &row.Session{Agent: "claude", ID: fmt.Sprint("s", i)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Append(t.Context(), Batch{Watermark: &Watermark{"binding-5", 50}, Urgent: true}); err != nil {
		t.Fatal(err)
	}
	l.Release()
	s.Close()
	l = open(t, openSet(t, dir), "1")
	if _, ok := l.Watermark("binding-0"); ok {
		t.Fatal("the oldest binding is still there")
	}
	for binding, want := range map[string]uint64{"binding-5": 50, "binding-9": 9, "binding-3": 3} {
		if got, ok := l.Watermark(binding); !ok || got != want {
			t.Fatalf("%s: %d, %v", binding, got, ok)
		}
	}
	h := l.Head()
	if len(h.Watermarks) != maxWatermarks || h.Session == nil || h.Session.ID != "s9" {
		t.Fatalf("head %+v", h)
	}
}

func TestHeadTracksOpenRunsAndAsks(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	run := func(id string, p row.Phase) row.Row { return row.New("t-"+id, id, &row.Run{Phase: p}) }
	imported := run("old", row.RunStarted)
	imported.Imported = true
	appendRows(t, l, imported, run("r1", row.RunStarted), run("r2", row.RunStarted))
	appendRows(t, l,
		row.New("t-r1", "r1", &row.Permission{Occurrence: "p1"}),
		row.New("t-r2", "r2", &row.Permission{Occurrence: "p2"}),
		row.New("t-r2", "r2", &row.Question{Occurrence: "q1"}),
		ofSubagent("kid", row.New("t-r2", "r2", &row.Permission{Occurrence: "p3"})),
		row.New("t-r2", "r2", &row.PermissionResolved{Occurrence: "p2", Outcome: row.Answered}),
	)
	appendRows(t, l, run("r1", row.RunFailed))
	l.Release()
	s.Close()
	l = open(t, openSet(t, dir), "1")
	h := l.Head()
	if diff := cmp.Diff([]OpenRun{{RunID: "r2", TurnID: "t-r2", Ordinal: 2}}, h.UnfinishedRuns); diff != "" {
		t.Fatal(diff)
	}
	want := []OpenAsk{
		{Occurrence: "q1", Kind: row.KindQuestion, RunID: "r2", TurnID: "t-r2", Ordinal: 5},
		{Occurrence: "p3", Kind: row.KindPermission, RunID: "r2", TurnID: "t-r2", Child: "kid"},
	}
	if diff := cmp.Diff(want, h.OpenAsks); diff != "" {
		t.Fatal(diff)
	}
	appendRows(t, l, row.New("t-r2", "r2", &row.QuestionResolved{Occurrence: "q1", Outcome: row.Ended}))
	appendRows(t, l, run("r2", row.RunInterrupted))
	if h := l.Head(); len(h.OpenAsks) != 0 || len(h.UnfinishedRuns) != 0 {
		t.Fatalf("head %+v", h)
	}
	for i := range maxOpenAsks + 3 {
		appendRows(t, l, row.New("t", "r", &row.Question{Occurrence: fmt.Sprint(i)}))
	}
	if asks := l.Head().OpenAsks; len(asks) != maxOpenAsks || asks[0].Occurrence != "3" {
		t.Fatalf("%d asks from %s", len(asks), asks[0].Occurrence)
	}
}

// TestCommitCadence runs on virtual time: it counts commits.
func TestCommitCadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenSet(t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l, err := s.Create(t.Context(), "1", CreateMeta{View: "v"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		timed := func(b Batch) time.Duration {
			start := time.Now()
			if _, err := l.Append(t.Context(), b); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		plain := func() Batch { return Batch{Rows: []row.Row{notice("x")}} }
		if d := timed(plain()); d != 0 {
			t.Fatalf("the first append of an idle ledger took %v", d)
		}
		if d := timed(plain()); d != commitInterval {
			t.Fatalf("the next one took %v", d)
		}
		for name, b := range map[string]Batch{
			"urgent":     {Rows: []row.Row{notice("x")}, Urgent: true},
			"user":       {Rows: []row.Row{user("x")}},
			"permission": {Rows: []row.Row{row.New("", "r", &row.Permission{Occurrence: "p"})}},
			"terminal":   {Rows: []row.Row{row.New("", "r", &row.Run{Phase: row.RunCompleted})}},
		} {
			if d := timed(b); d != 0 {
				t.Fatalf("%s took %v", name, d)
			}
		}
		<-time.After(commitInterval) // virtual
		if d := timed(plain()); d != 0 {
			t.Fatalf("after 50 ms of quiet an append took %v", d)
		}

		// A stream of rows over ten seconds of virtual time.
		before, start := commits(l), time.Now()
		var done atomic.Int64
		for time.Since(start) < 10*time.Second {
			l.AppendAsync(plain(), func(_ Committed, err error) {
				if err == nil {
					done.Add(1)
				}
			})
			<-time.After(3 * time.Millisecond) // virtual
		}
		timed(plain())
		if n := commits(l) - before; n > 202 || n < 195 {
			t.Fatalf("%d commits in 10 s", n)
		}
		if done.Load() != 3334 {
			t.Fatalf("%d batches done", done.Load())
		}
	})
}

func TestGridStretchesWithBusyChats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenSet(t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		const chats = 96
		var ledgers []*Ledger
		for i := range chats {
			l, err := s.Create(t.Context(), fmt.Sprint(i), CreateMeta{View: "v"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
			if _, err := l.Append(t.Context(), Batch{Rows: []row.Row{user("x")}}); err != nil {
				t.Fatal(err)
			}
			ledgers = append(ledgers, l)
		}
		start := time.Now()
		if _, err := ledgers[0].Append(t.Context(), Batch{Rows: []row.Row{notice("x")}}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 3*commitInterval {
			t.Fatalf("with %d busy chats the grid is %v", chats, d)
		}
		<-time.After(busyPeriod) // virtual
		synctest.Wait()
		if n := s.pace.busy.Load(); n != 0 {
			t.Fatalf("%d chats are busy after a quiet second", n)
		}
		if s.pace.busy.Store(1000); s.pace.interval() != maxCommitInterval {
			t.Fatalf("the grid of 1000 chats is %v", s.pace.interval())
		}
		s.pace.busy.Store(0)
	})
}

// stall makes the commits of a set wait until release is called.
func stall(s *Set) (release func(), stalled <-chan struct{}) {
	gate, entered := make(chan struct{}), make(chan struct{}, 100)
	s.faults = boltfile.Faults{Before: func() error {
		entered <- struct{}{}
		<-gate
		return nil
	}}
	return sync.OnceFunc(func() { close(gate) }), entered
}

func TestQueueIsBounded(t *testing.T) {
	s := openSet(t, t.TempDir())
	release, stalled := stall(s)
	defer release()
	l := create(t, s, "1")
	t.Cleanup(release)
	go l.Append(context.Background(), Batch{Rows: []row.Row{user("stuck")}})
	<-stalled

	text := strings.Repeat("x", 1<<20)
	var order []int
	var mu sync.Mutex
	done := make(chan struct{})
	queued := 0
	ctx, cancel := context.WithCancel(t.Context())
	for {
		p, err := prepare(Batch{Rows: []row.Row{answer(text)}}, s.now)
		if err != nil {
			t.Fatal(err)
		}
		n := queued
		p.done = func(Committed, error) {
			mu.Lock()
			defer mu.Unlock()
			if order = append(order, n); len(order) == queued {
				close(done)
			}
		}
		if l.queue.bytes+p.cost > maxQueuedBytes {
			// The next push must wait, and give up with its context.
			failed := make(chan error)
			go func() { failed <- l.queue.push(ctx, p) }()
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Fatalf("a full queue: %v", err)
			}
			break
		}
		if err := l.queue.push(ctx, p); err != nil {
			t.Fatal(err)
		}
		queued++
	}
	if queued != 7 {
		t.Fatalf("%d batches of 1 MiB fit", queued)
	}
	release()
	<-done
	for i, n := range order {
		if i != n {
			t.Fatalf("completed in the order %v", order)
		}
	}
	appendRows(t, l, notice("room again"))
}

func TestCancelledAppend(t *testing.T) {
	s := openSet(t, t.TempDir())
	release, stalled := stall(s)
	l := create(t, s, "1")
	t.Cleanup(release)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := l.Append(ctx, Batch{Rows: []row.Row{user("slow")}})
		result <- err
	}()
	<-stalled
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := l.Append(ctx, Batch{Rows: []row.Row{user("never")}}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	release()
	if c := appendRows(t, l, user("next")); c.First != 1 {
		t.Fatalf("the cancelled append was not committed: next is %d", c.First)
	}
}
