package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"garcon/proto/row"
)

// TestDiskFull fills a real file system.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("cannot mount a small file system: %v", err)
		}
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s := openSet(t, dir)
	l := create(t, s, "1")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 400<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("x", 20<<10)
	n := 0
	fill := func() error {
		for {
			_, err := l.Append(context.Background(), Batch{Rows: []row.Row{user(fmt.Sprint(n, " ", filler))}, ClientID: fmt.Sprint("c", n)})
			if err != nil {
				return err
			}
			n++
		}
	}
	check := func(l *Ledger) {
		t.Helper()
		rows, err := allRows(t.Context(), l, "")
		if err != nil || len(rows) != n {
			t.Fatalf("%d rows of %d, %v", len(rows), n, err)
		}
		for i, r := range rows {
			if !strings.HasPrefix(text(r.Row), fmt.Sprint(i, " ")) {
				t.Fatalf("row %d is %.10s", i, text(r.Row))
			}
		}
	}
	for range 3 { // failing again and again must not hurt either
		err := fill()
		if storage, ok := errors.AsType[*StorageError](err); !ok || !storage.Full {
			t.Fatalf("after %d rows: %#v", n, err)
		}
		check(l)
	}
	if n < 5 {
		t.Fatalf("only %d rows fitted", n)
	}
	// A second chat cannot begin, and leaves nothing.
	other, err := s.Create(t.Context(), "2", CreateMeta{View: "v"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Append(t.Context(), Batch{Rows: []row.Row{user(filler + filler)}}); !errors.Is(err, ErrStorage) {
		t.Fatalf("second chat: %v", err)
	}
	before := n
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if c := appendRows(t, other, user("fits now")); c.First != 0 {
		t.Fatalf("first row is %d", c.First)
	}
	other.Release()
	if err := fill(); !errors.Is(err, ErrStorage) || n < before+5 {
		t.Fatalf("with space back %d rows more, %v", n-before, err)
	}
	check(l)
	l.Release()
	s.Close()
	s = openSet(t, dir)
	l = open(t, s, "1")
	check(l)
	l.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
