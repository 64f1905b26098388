package ledger

import (
	"errors"
	"io"
	"testing"

	"garcon/proto/row"
)

func TestOpenOrCreate(t *testing.T) {
	s := openSet(t, t.TempDir())
	for range 2 {
		l, err := s.OpenOrCreate(t.Context(), "1", CreateMeta{View: "v"})
		if err != nil {
			t.Fatal(err)
		}
		appendRows(t, l, user("x"))
		l.Release()
	}
	if l := open(t, s, "1"); l.Head().Rows != 2 {
		t.Fatalf("head %+v", l.Head())
	}
	if _, err := s.OpenOrCreate(t.Context(), "../1", CreateMeta{View: "v"}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("a hostile id: %v", err)
	}
}

func TestRead(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	if rows, err := l.Read(t.Context(), "", 0); err != nil || len(rows) != 0 || l.Last("") != -1 {
		t.Fatalf("an empty ledger: %v, %v", rows, err)
	}
	appendRows(t, l, user("a"), ofSubagent("kid", notice("k")), user("b"))
	for _, tt := range []struct {
		child string
		from  int64
		want  string
	}{{"", 0, "a b"}, {"", 1, "b"}, {"", 2, ""}, {"", -1, ""}, {"kid", 0, "k"}, {"none", 0, ""}} {
		rows, err := l.Read(t.Context(), tt.child, tt.from)
		if err != nil || texts(rows) != tt.want {
			t.Errorf("%q from %d: %q, %v", tt.child, tt.from, texts(rows), err)
		}
	}
	if l.Last("") != 1 || l.Last("kid") != 0 || l.Last("none") != -1 {
		t.Errorf("last: %d, %d, %d", l.Last(""), l.Last("kid"), l.Last("none"))
	}
}

func TestLookup(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	ctx := t.Context()
	if _, ok, err := l.Lookup(ctx, "c", "f"); ok || err != nil {
		t.Fatalf("before the first commit: %v, %v", ok, err)
	}
	appendRows(t, l, user("a"))
	if _, err := l.Append(ctx, Batch{Rows: []row.Row{user("b")}, ClientID: "c", Fingerprint: "f"}); err != nil {
		t.Fatal(err)
	}
	if first, ok, err := l.Lookup(ctx, "c", "f"); first != 1 || !ok || err != nil {
		t.Fatalf("%d, %v, %v", first, ok, err)
	}
	if _, _, err := l.Lookup(ctx, "c", "other"); !errors.Is(err, ErrConflict) {
		t.Fatalf("another fingerprint: %v", err)
	}
	if _, ok, err := l.Lookup(ctx, "d", "f"); ok || err != nil {
		t.Fatalf("unknown: %v, %v", ok, err)
	}
	if _, err := l.Replace(ctx, "v2", source(1, io.EOF)); err != nil {
		t.Fatal(err)
	}
	if first, ok, err := l.Lookup(ctx, "c", "f"); first != -1 || !ok || err != nil {
		t.Fatalf("after a reload: %d, %v, %v", first, ok, err)
	}
}
