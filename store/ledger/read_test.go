package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"garcon/proto/row"
)

// conversation appends rows named after their ordinal: u and a are messages, n
// is none.
func conversation(t *testing.T, l *Ledger, child, kinds string) {
	t.Helper()
	var rows []row.Row
	for i, k := range kinds {
		name := fmt.Sprintf("%c%d", k, i)
		r := notice(name)
		switch k {
		case 'u':
			r = user(name)
		case 'a':
			r = answer(name)
		}
		rows = append(rows, ofSubagent(child, r))
	}
	appendRows(t, l, rows...)
}

func TestPage(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	//                        0         10
	conversation(t, l, "", "nnunnanuannnnu")
	conversation(t, l, "kid", "anna")
	conversation(t, l, "kid2", "nnn")
	for _, tt := range []struct {
		child           string
		through, before int64
		messages        int
		want            string
		more            bool
	}{
		{"", 13, -1, 1, "u13", true},
		{"", 13, -1, 2, "a8 n9 n10 n11 n12 u13", true},
		{"", 13, -1, 3, "u7 a8 n9 n10 n11 n12 u13", true},
		{"", 13, -1, 5, "u2 n3 n4 a5 n6 u7 a8 n9 n10 n11 n12 u13", true},
		{"", 13, -1, 6, "n0 n1 u2 n3 n4 a5 n6 u7 a8 n9 n10 n11 n12 u13", false},
		{"", 13, -1, 5000, "n0 n1 u2 n3 n4 a5 n6 u7 a8 n9 n10 n11 n12 u13", false},
		{"", 12, -1, 1, "a8 n9 n10 n11 n12", true},
		{"", 13, 13, 1, "a8 n9 n10 n11 n12", true},
		{"", 13, 8, 1, "u7", true},
		{"", 13, 2, 1, "n0 n1", false},
		{"", 1, -1, 9, "n0 n1", false},
		{"", 13, 0, 9, "", false},
		{"", -1, -1, 9, "", false},
		{"", 5, 900, 1, "a5", true},
		{"kid", 3, -1, 1, "a3", true},
		{"kid", 3, -1, 2, "a0 n1 n2 a3", false},
		{"kid2", 2, -1, 2, "n0 n1 n2", false},
		{"no such", -1, -1, 2, "", false},
	} {
		name := fmt.Sprintf("%s through %d before %d max %d", tt.child, tt.through, tt.before, tt.messages)
		p, err := l.Page(t.Context(), PageQuery{View: "v1", Through: tt.through, Before: tt.before, MaxMessages: tt.messages, Child: tt.child})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := texts(p.Rows); got != tt.want || p.HasMore != tt.more || p.View != "v1" || p.Through != tt.through {
			t.Errorf("%s: %q more %v, want %q more %v", name, got, p.HasMore, tt.want, tt.more)
		}
		if len(p.Rows) == 0 {
			if p.First != -1 || p.Last != -1 {
				t.Errorf("%s: an empty page from %d to %d", name, p.First, p.Last)
			}
			continue
		}
		if p.First != p.Rows[0].Row.Ordinal || p.Last != p.Rows[len(p.Rows)-1].Row.Ordinal {
			t.Errorf("%s: from %d to %d", name, p.First, p.Last)
		}
	}
	for _, bad := range []PageQuery{
		{Through: 14, Before: -1, MaxMessages: 1},
		{Through: 13, Before: -1},
		{Through: -2, Before: -1, MaxMessages: 1},
		{Through: 3, Before: -1, MaxMessages: 1, Child: "\x00"},
		{Through: 0, Before: -1, MaxMessages: 1, Child: "no such"},
	} {
		if _, err := l.Page(t.Context(), bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := l.Page(t.Context(), PageQuery{View: "v0", Through: 1, Before: -1, MaxMessages: 1}); !errors.Is(err, ErrViewReplaced) {
		t.Errorf("another view: %v", err)
	}
}

// TestPageBytes pages through a turn that is larger than a page.
func TestPageBytes(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	big := strings.Repeat("x", 300<<10)
	appendRows(t, l, user("question"))
	const rows = 20
	for range rows - 1 {
		appendRows(t, l, notice(big))
	}
	var seen int64
	before := int64(-1)
	for pages := 0; ; pages++ {
		p, err := l.Page(t.Context(), PageQuery{Through: rows - 1, Before: before, MaxMessages: 1})
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, s := range p.Rows {
			size += len(s.JSON)
		}
		if size > maxPageBytes {
			t.Fatalf("a page of %d bytes", size)
		}
		if p.Last != rows-1-seen {
			t.Fatalf("page ends at %d after %d rows", p.Last, seen)
		}
		seen += int64(len(p.Rows))
		if !p.HasMore {
			if pages != 3 || p.First != 0 {
				t.Fatalf("%d more pages, the last from %d", pages, p.First)
			}
			break
		}
		before = p.First
	}
	if seen != rows {
		t.Fatalf("saw %d rows", seen)
	}
}

func TestFollowFromDiskThenLive(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	appendRows(t, l, notice("0"), ofSubagent("kid", notice("k0")), notice("1"))
	appendRows(t, l, notice("2"))
	f, err := l.Follow(1, "")
	if err != nil {
		t.Fatal(err)
	}
	kid, err := l.Follow(0, "kid")
	if err != nil {
		t.Fatal(err)
	}
	next := func(f *Follower) string {
		rows, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return texts(rows)
	}
	if got := next(f); got != "1 2" {
		t.Fatalf("from disk: %q", got)
	}
	if got := next(kid); got != "k0" {
		t.Fatalf("from disk: %q", got)
	}
	appendRows(t, l, notice("3"), ofSubagent("kid", notice("k1")), ofSubagent("kid", notice("k2")), notice("4"))
	if got := next(f); got != "3 4" {
		t.Fatalf("live: %q", got)
	}
	if got := next(kid); got != "k1 k2" {
		t.Fatalf("live: %q", got)
	}
	got := make(chan string)
	go func() {
		rows, err := f.Next(context.Background())
		got <- fmt.Sprint(texts(rows), err)
	}()
	f.Close()
	if g := <-got; !strings.Contains(g, ErrClosed.Error()) {
		t.Fatalf("a closed follower: %s", g)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kid.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	kid.Close()
	kid.Close()
	if len(l.tails) != 0 {
		t.Fatal("rows are kept for followers that are gone")
	}
	for _, from := range []int64{-1, 6} {
		if _, err := l.Follow(from, ""); !errors.Is(err, ErrInvalid) {
			t.Fatalf("follow from %d: %v", from, err)
		}
	}
	tip, err := l.Follow(5, "")
	if err != nil {
		t.Fatal(err)
	}
	tip.Close()
}

// TestManyFollowers checks that every follower, however slow, sees every row
// once and in order.
func TestManyFollowers(t *testing.T) {
	s := openSet(t, t.TempDir())
	l := create(t, s, "1")
	const total = 6000
	text := strings.Repeat("y", 500)
	var wg sync.WaitGroup
	progress := make(chan struct{}, total)
	for id := range 10 {
		f, err := l.Follow(0, "")
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer f.Close()
			for want := int64(0); want < total; {
				if id >= 7 { // slow ones wait for the writer to be far ahead
					for range 400 {
						<-progress
					}
				}
				rows, err := f.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range rows {
					if r.Row.Ordinal != want {
						t.Errorf("follower %d got %d, want %d", id, r.Row.Ordinal, want)
						return
					}
					want++
				}
			}
		})
	}
	for i := range total {
		l.AppendAsync(Batch{Rows: []row.Row{notice(text)}, Urgent: i%50 == 0}, func(_ Committed, err error) {
			if err != nil {
				t.Error(err)
			}
			select {
			case progress <- struct{}{}:
			default:
			}
		})
	}
	appendRows(t, l) // everything before is committed
	close(progress)
	wg.Wait()
}

// TestTailIsBounded checks what followers cost in memory.
func TestTailIsBounded(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	f, err := l.Follow(0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := strings.Repeat("z", 100<<10)
	for range 30 {
		appendRows(t, l, notice(text))
		if b := l.tails[""].bytes; b > maxTailBytes+(101<<10) {
			t.Fatalf("the tail holds %d bytes", b)
		}
	}
	for n := int64(0); n < 30; {
		rows, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Row.Ordinal != n {
				t.Fatalf("got %d, want %d", r.Row.Ordinal, n)
			}
			n++
		}
	}
}
