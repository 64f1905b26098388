package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"garcon/proto/row"
)

// source gives n rows a few at a time and then end.
func source(n int, end error) func(context.Context) ([]row.Row, error) {
	at := 0
	return func(context.Context) ([]row.Row, error) {
		if at == n {
			return nil, end
		}
		var rows []row.Row
		for range min(7, n-at) {
			r := answer(fmt.Sprint("i", at))
			r.Imported = true
			rows = append(rows, r)
			at++
		}
		return rows, nil
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	_, err := l.Append(t.Context(), Batch{
		Rows: []row.Row{user("a"), row.New("t", "r", &row.Run{Phase: row.RunStarted})}, ClientID: "c", Fingerprint: "f",
		Watermark: &Watermark{"b", 9}, Session: &row.Session{Agent: "x", ID: "y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	appendRows(t, l, ofSubagent("kid", notice("k")))
	f, err := l.Follow(0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	boom := errors.New("boom")
	if _, err := l.Replace(t.Context(), "v2", source(30, boom)); !errors.Is(err, boom) {
		t.Fatalf("failing import: %v", err)
	}
	if _, err := l.Replace(t.Context(), "v1", source(1, io.EOF)); !errors.Is(err, ErrInvalid) {
		t.Fatalf("same view: %v", err)
	}
	busy := source(30, io.EOF)
	_, err = l.Replace(t.Context(), "v2", func(ctx context.Context) ([]row.Row, error) {
		appendRows(t, l, notice("meanwhile"))
		return busy(ctx)
	})
	if !errors.Is(err, ErrChanged) {
		t.Fatalf("rows arrived meanwhile: %v", err)
	}
	if h := l.Head(); h.View != "v1" || h.Rows < 3 {
		t.Fatalf("a failed import changed the view: %+v", h)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}

	h, err := l.Replace(t.Context(), "v2", source(5000, io.EOF))
	if err != nil {
		t.Fatal(err)
	}
	check := func(l *Ledger, rows int64) {
		t.Helper()
		h := l.Head()
		if h.View != "v2" || h.Rows != rows || h.Messages != rows || len(h.UnfinishedRuns) != 0 || h.Session == nil {
			t.Fatalf("head %+v", h)
		}
		if seq, ok := l.Watermark("b"); !ok || seq != 9 {
			t.Fatalf("watermark %d, %v", seq, ok)
		}
		if children, err := l.Children(t.Context()); err != nil || len(children) != 0 {
			t.Fatalf("children %v, %v", children, err)
		}
		c, err := l.Append(t.Context(), Batch{Rows: []row.Row{user("a")}, ClientID: "c", Fingerprint: "f"})
		if err != nil || !c.Replayed || c.First != -1 {
			t.Fatalf("a submission repeated after the reload: %+v, %v", c, err)
		}
		p, err := l.Page(t.Context(), PageQuery{View: "v2", Through: rows - 1, Before: -1, MaxMessages: 2})
		if err != nil || len(p.Rows) != 2 {
			t.Fatalf("page %+v, %v", p, err)
		}
	}
	if h.Rows != 5000 {
		t.Fatalf("head %+v", h)
	}
	check(l, 5000)
	if _, err := f.Next(t.Context()); !errors.Is(err, ErrViewReplaced) {
		t.Fatalf("a follower of the old view: %v", err)
	}
	if c := appendRows(t, l, answer("new")); c.First != 5000 {
		t.Fatalf("the next row is %d", c.First)
	}
	f.Close()
	l.Release()
	s.Close()
	check(open(t, openSet(t, dir), "1"), 5001)
}

func TestReplaceByNothing(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	h, err := l.Replace(t.Context(), "v2", source(0, io.EOF))
	if err != nil || h.Rows != 0 || h.Last != -1 || h.View != "v2" {
		t.Fatalf("%+v, %v", h, err)
	}
	if c := appendRows(t, l, notice("first")); c.First != 0 {
		t.Fatalf("the first row is %d", c.First)
	}
}

// TestReplaceUnderReaders reloads while others page and follow.
func TestReplaceUnderReaders(t *testing.T) {
	s := openSet(t, t.TempDir())
	l := create(t, s, "1")
	appendRows(t, l, user("0"), user("1"))
	ctx, stop := context.WithCancel(t.Context())
	failed := make(chan error, 4)
	for range cap(failed) {
		go func() {
			var err error
			for ctx.Err() == nil && err == nil {
				_, err = l.Page(context.Background(), PageQuery{Through: 1, Before: -1, MaxMessages: 2})
			}
			failed <- err
		}()
	}
	for i := range 30 {
		if _, err := l.Replace(t.Context(), fmt.Sprint("view ", i), source(3, io.EOF)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}
