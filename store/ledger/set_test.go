package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

func TestOpenCreateExists(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	ctx := t.Context()
	if _, err := s.Open(ctx, "1"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("open of nothing: %v", err)
	}
	for _, id := range []string{"", "..", "../x", "a/b", "a.b", "x\x00", strings.Repeat("1", 65)} {
		if _, err := s.Open(ctx, id); !errors.Is(err, ErrInvalid) {
			t.Fatalf("open %q: %v", id, err)
		}
		if _, err := s.Create(ctx, id, CreateMeta{View: "v"}); !errors.Is(err, ErrInvalid) {
			t.Fatalf("create %q: %v", id, err)
		}
		if err := s.Delete(ctx, id); !errors.Is(err, ErrInvalid) || s.Exists(id) {
			t.Fatalf("delete %q: %v", id, err)
		}
	}
	if _, err := s.Create(ctx, "1", CreateMeta{}); !errors.Is(err, ErrInvalid) {
		t.Fatalf("create without a view: %v", err)
	}
	l, err := s.Create(ctx, "1", CreateMeta{View: "v"})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Exists("1") || s.Exists("2") {
		t.Fatal("exists")
	}
	if _, err := s.Create(ctx, "1", CreateMeta{View: "v"}); !errors.Is(err, ErrExists) {
		t.Fatalf("create twice: %v", err)
	}
	again := open(t, s, "1")
	if again != l {
		t.Fatal("an open ledger is not shared")
	}
	again.Release()
	if _, err := os.Stat(filepath.Join(dir, "1.db")); err == nil {
		t.Fatal("the file was written before its first commit")
	}
	l.Release()
	if _, err := os.Stat(filepath.Join(dir, "1.db")); err != nil {
		t.Fatalf("the file was not written on release: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openSet(t, dir)
	if l := open(t, s, "1"); l.Head().View != "v" || l.Head().Last != -1 {
		t.Fatalf("head %+v", l.Head())
	}
	if _, err := s.Create(ctx, "1", CreateMeta{View: "v"}); !errors.Is(err, ErrExists) {
		t.Fatalf("create over a file: %v", err)
	}
}

func TestClosedSet(t *testing.T) {
	s := openSet(t, t.TempDir())
	l := create(t, s, "1")
	f, err := l.Follow(0, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "1"); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), Batch{}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := l.Page(t.Context(), PageQuery{Through: -1, Before: -1, MaxMessages: 1}); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := f.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	f.Close()
}

func TestIdleLedgersClose(t *testing.T) {
	s := openSet(t, t.TempDir())
	ctx := t.Context()
	pinned := create(t, s, "pinned")
	follower, err := pinned.Follow(0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	pinned.Release() // the follower keeps it open
	for i := range maxIdle + 10 {
		l, err := s.Create(ctx, fmt.Sprint(i), CreateMeta{View: "v"})
		if err != nil {
			t.Fatal(err)
		}
		// Queued, but perhaps not committed when the ledger is closed.
		l.AppendAsync(Batch{Rows: []row.Row{notice("x")}}, func(_ Committed, err error) {
			if err != nil {
				t.Error(err)
			}
		})
		l.Release()
	}
	// Closing goes on in the background; opening a closed one waits for it.
	for i := range maxIdle + 10 {
		l := open(t, s, fmt.Sprint(i))
		if _, err := l.Append(ctx, Batch{Rows: []row.Row{notice("y")}, Urgent: true}); err != nil {
			t.Fatal(err)
		}
		if rows := l.Head().Rows; rows != 2 {
			t.Fatalf("chat %d has %d rows", i, rows)
		}
		l.Release()
	}
	s.mu.Lock()
	idle := s.idle.Len()
	openNow := 0
	for _, e := range s.entries {
		if e.l != nil && e.busy == nil {
			openNow++
		}
	}
	s.mu.Unlock()
	if idle != maxIdle || openNow != maxIdle+1 {
		t.Fatalf("%d idle, %d open", idle, openNow)
	}
	if l := open(t, s, "pinned"); l != pinned {
		t.Fatal("a followed ledger was closed")
	}
}

func TestConcurrentOpenAndRelease(t *testing.T) {
	s := openSet(t, t.TempDir())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 60 {
				id := fmt.Sprint((i*7 + w) % 90)
				l, err := s.Open(context.Background(), id)
				if errors.Is(err, ErrNotFound) {
					if l, err = s.Create(context.Background(), id, CreateMeta{View: "v"}); errors.Is(err, ErrExists) {
						continue
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := l.Append(context.Background(), Batch{Rows: []row.Row{user("x")}}); err != nil {
					t.Error(err)
				}
				l.Release()
			}
		})
	}
	wg.Wait()
}

func TestDelete(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	ctx := t.Context()
	l := create(t, s, "1")
	appendRows(t, l, notice("x"))
	other := create(t, s, "12")
	appendRows(t, other, notice("other"))
	f, err := l.Follow(1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{"1.db.quarantine-20200101T000000.000000000Z", "1.db.schema-1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan error)
	go func() {
		_, err := f.Next(context.Background())
		got <- err
	}()
	if err := s.Delete(ctx, "1"); err != nil {
		t.Fatal(err)
	}
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Fatalf("follower of a deleted chat: %v", err)
	}
	if _, err := l.Append(ctx, Batch{Rows: []row.Row{notice("x")}}); !errors.Is(err, ErrClosed) {
		t.Fatalf("append to a deleted chat: %v", err)
	}
	if _, err := s.Open(ctx, "1"); !errors.Is(err, ErrNotFound) || s.Exists("1") {
		t.Fatalf("open of a deleted chat: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "12.db" {
		t.Fatalf("left: %v, %v", entries, err)
	}
	if err := s.Delete(ctx, "1"); err != nil {
		t.Fatalf("delete of nothing: %v", err)
	}
	fresh := create(t, s, "1")
	if c := appendRows(t, fresh, notice("again")); c.First != 0 {
		t.Fatalf("first row is %d", c.First)
	}
	l.Release() // of the deleted one; must not touch its successor
	if !s.Exists("1") || fresh.Head().Rows != 1 {
		t.Fatal("releasing a deleted ledger harmed its successor")
	}
}

func TestStagedFilesAreSwept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".1.db.staged-123")
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	openSet(t, dir)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a staged file survived: %v", err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	s.format = boltfile.Format{Kind: "ledger", Version: "9.9", Steps: []func(*bolt.Tx) error{func(*bolt.Tx) error { return nil }}}
	l := create(t, s, "1")
	appendRows(t, l, notice("x"))
	l.Release()
	s.Close()
	old := openSet(t, dir)
	_, err := old.Open(t.Context(), "1")
	if schema, ok := errors.AsType[*SchemaError](err); !ok || schema.WrittenBy != "9.9" {
		t.Fatalf("got %v", err)
	}
	if len(old.Quarantined()) != 0 || !old.Exists("1") {
		t.Fatal("a newer file was set aside")
	}
}
