package ledger

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// TestFailedCommit fails commits before and after they reach the disk.
func TestFailedCommit(t *testing.T) {
	for name, at := range map[string]func(func() error) boltfile.Faults{
		"before the commit": func(f func() error) boltfile.Faults { return boltfile.Faults{Before: f} },
		"in its last fsync": func(f func() error) boltfile.Faults { return boltfile.Faults{After: f} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openSet(t, dir)
			var fail error
			s.faults = at(func() error { return fail })
			l := create(t, s, "1")
			appendRows(t, l, user("0"), ofSubagent("kid", notice("k0")))
			f, err := l.Follow(0, "")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			before := l.Head()

			for _, tt := range []struct {
				err  error
				full bool
			}{{syscall.ENOSPC, true}, {syscall.EDQUOT, true}, {syscall.EIO, false}} {
				fail = tt.err
				c, err := l.Append(t.Context(), Batch{
					Rows: []row.Row{user("lost"), ofSubagent("kid", notice("lost")), ofSubagent("new kid", notice("lost")), row.New("", "r", &row.Run{Phase: row.RunStarted})}, ClientID: "c", Fingerprint: "f",
				})
				storage, ok := errors.AsType[*StorageError](err)
				if !ok || storage.Full != tt.full || !errors.Is(err, ErrStorage) || c.First != -1 {
					t.Fatalf("%v: %+v, %#v", tt.err, c, err)
				}
				if h := l.Head(); h.Rows != before.Rows || h.Bytes != before.Bytes || len(h.UnfinishedRuns) != 0 {
					t.Fatalf("head %+v", h)
				}
				p, err := l.Page(t.Context(), PageQuery{Through: 0, Before: -1, MaxMessages: 9})
				if err != nil || texts(p.Rows) != "0" {
					t.Fatalf("the chat is not readable: %v", err)
				}
			}

			fail = nil
			if _, ok, err := l.Lookup(t.Context(), "c", "f"); ok || err != nil {
				t.Fatalf("a failed append is remembered: %v, %v", ok, err)
			}
			c, err := l.Append(t.Context(), Batch{Rows: []row.Row{user("1")}, ClientID: "c", Fingerprint: "other"})
			if err != nil || c.First != 1 || c.Replayed {
				t.Fatalf("after the failure: %+v, %v", c, err)
			}
			appendRows(t, l, ofSubagent("kid", notice("k1")))
			for got := ""; got != "0 1"; {
				rows, err := f.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got = strings.TrimSpace(got + " " + texts(rows))
				if !strings.HasPrefix("0 1", got) {
					t.Fatalf("followed %q", got)
				}
			}
			f.Close()
			l.Release()
			s.Close()
			l = open(t, openSet(t, dir), "1")
			for child, want := range map[string]string{"": "0 1", "kid": "k0 k1"} {
				rows, err := allRows(t.Context(), l, child)
				if err != nil || texts(rows) != want {
					t.Fatalf("%q: %q, %v", child, texts(rows), err)
				}
			}
			if children := must(l.Children(t.Context())); len(children) != 1 {
				t.Fatalf("children %+v", children)
			}
		})
	}
}

func TestFailedCreate(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	fail := error(syscall.ENOSPC)
	s.faults = boltfile.Faults{Before: func() error { return fail }}
	l := create(t, s, "1")
	if _, err := l.Append(t.Context(), Batch{Rows: []row.Row{user("x")}}); !errors.Is(err, ErrStorage) {
		t.Fatalf("got %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Fatalf("left behind %v", entries)
	}
	fail = nil
	if c := appendRows(t, l, user("x")); c.First != 0 {
		t.Fatalf("first row is %d", c.First)
	}
}
