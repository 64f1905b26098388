package runtime

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func testRun() *run {
	in := &integration{rt: &Runtime{}, requests: map[string]*request{}}
	return newRun(&binding{in: in}, "run", "turn")
}

func liveOf(r *run, part string, offset int, s string) *entry {
	return &entry{run: r, event: exec.Event{Live: &row.Live{RunID: r.id, PartID: part, Kind: row.KindAssistant, Offset: offset, Text: s}}}
}

func rowsOf(r *run, s string) *entry {
	return &entry{run: r, event: exec.Event{RunID: r.id, Rows: []row.Row{text(s)}}}
}

func TestQueueBlocksAndKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		rec.hold()
		q := newQueue(rec)
		r := testRun()
		const all = maxQueuedEvents + 500
		put := 0
		go func() {
			for i := range all {
				q.put(rowsOf(r, fmt.Sprint(i)))
				put++
			}
		}()
		synctest.Wait()
		// One event is with the sink; the launch took a place of its own.
		if put != maxQueuedEvents {
			t.Errorf("%d events were taken, want %d", put, maxQueuedEvents)
		}
		rec.release()
		synctest.Wait()
		q.close()
		<-q.done
		events := rec.all()
		numbered(t, events)
		if len(events) != all+1 || events[0].Launched == nil {
			t.Fatalf("%d events, first %s", len(events), kindOf(events[0]))
		}
		for i, e := range events[1:] {
			if got := e.Rows[0].Body.(*row.Assistant).Text; got != fmt.Sprint(i) {
				t.Fatalf("event %d is %s", i, got)
			}
		}
	})
}

func TestQueueBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		rec.hold()
		q := newQueue(rec)
		r := testRun()
		big := strings.Repeat("x", 6<<20)
		put := 0
		go func() {
			for range 10 {
				q.put(rowsOf(r, big))
				put++
			}
		}()
		synctest.Wait()
		q.mu.Lock()
		held := q.bytes
		q.mu.Unlock()
		if held >= maxQueuedBytes+7<<20 || put >= 6 {
			t.Errorf("the queue holds %d bytes in %d events", held, put)
		}
		rec.release()
		synctest.Wait()
		q.close()
		<-q.done
		if put != 10 {
			t.Errorf("%d events were put", put)
		}
	})
}

func TestQueueMergesLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		rec.hold()
		q := newQueue(rec)
		r := testRun()
		q.put(rowsOf(r, "first"))
		synctest.Wait()
		// Far more updates than places: none of them waits.
		size := 0
		for i := range 3 * maxQueuedEvents {
			s := fmt.Sprintf("%d ", i)
			q.put(liveOf(r, "a", size, s))
			q.put(liveOf(r, "b", size, s))
			size += len(s)
		}
		q.put(rowsOf(r, "between"))
		q.put(liveOf(r, "a", size, "after"))
		q.put(liveOf(r, "a", 0, "replaced"))
		q.put(liveOf(r, "a", len("replaced"), "!"))
		q.put(liveOf(r, "a", 99, "gap"))
		rec.release()
		synctest.Wait()
		q.close()
		<-q.done
		events := rec.all()
		numbered(t, events)
		var got []string
		for _, e := range events {
			s := kindOf(e)
			if e.Live != nil {
				s = fmt.Sprintf("%s@%d+%d", e.Live.PartID, e.Live.Offset, len(e.Live.Text))
			}
			got = append(got, s)
		}
		want := fmt.Sprintf("launched rows a@0+%d b@0+%d rows a@0+9 a@99+3", size, size)
		if s := strings.Join(got, " "); s != want {
			t.Errorf("got  %s\nwant %s", s, want)
		}
	})
}

func TestQueueServesWaitersInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		rec.hold()
		q := newQueue(rec)
		r := testRun()
		for range maxQueuedEvents - 2 {
			q.put(rowsOf(r, "fill"))
		}
		synctest.Wait()
		q.put(rowsOf(r, "fill"))
		q.put(liveOf(r, "a", 0, "queued"))
		// Rows that wait are not overtaken by the terminal, by live text that
		// could be merged, nor by later rows.
		go q.put(rowsOf(r, "waits"))
		synctest.Wait()
		go q.put(liveOf(r, "a", len("queued"), "live"))
		synctest.Wait()
		go q.put(&entry{run: r, event: exec.Event{Terminal: &exec.Terminal{Phase: row.RunCompleted}}})
		synctest.Wait()
		go q.put(rowsOf(r, "too late"))
		synctest.Wait()
		rec.release()
		synctest.Wait()
		q.close()
		<-q.done
		events := rec.all()
		numbered(t, events)
		tail := events[len(events)-4:]
		if kindOf(tail[0]) != "live" || tail[0].Live.Text != "queued" ||
			kindOf(tail[1]) != "rows" || tail[1].Rows[0].Body.(*row.Assistant).Text != "waits" ||
			kindOf(tail[2]) != "live" || kindOf(tail[3]) != "completed" {
			t.Errorf("ends with %s %s %s %s", kindOf(tail[0]), kindOf(tail[1]), kindOf(tail[2]), kindOf(tail[3]))
		}
	})
}

func TestQueueCloseLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		rec.hold()
		q := newQueue(rec)
		r := testRun()
		go func() {
			for range 2 * maxQueuedEvents {
				q.put(rowsOf(r, "x"))
			}
		}()
		synctest.Wait()
		q.close()
		synctest.Wait() // the publisher is through, or the bubble deadlocks
		rec.release()
		<-q.done
		if n := len(rec.all()); n != maxQueuedEvents+1 {
			t.Errorf("%d events were delivered, want what was admitted: %d", n, maxQueuedEvents+1)
		}
	})
}
