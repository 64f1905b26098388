package boltfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	bolt "go.etcd.io/bbolt"
)

func create(t *testing.T, path string, faults Faults) *File {
	t.Helper()
	f, err := Create(path, testFormat, faults, false, func(tx *bolt.Tx) error { return putRange(tx, 0, 10, 40) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOpenMissingAndPresent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if _, err := Open(path, testFormat, Faults{}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("open of a missing file: %v", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Fatal("opening a missing file made one")
	}
	f := create(t, path, Faults{})
	if _, err := Create(path, testFormat, Faults{}, false, func(*bolt.Tx) error { return nil }); !errors.Is(err, os.ErrExist) {
		t.Fatalf("create over a file: %v", err)
	}
	if n, err := readAll(f, 40); n != 10 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
}

func TestOpenDoesNotFollowLinks(t *testing.T) {
	dir := t.TempDir()
	create(t, filepath.Join(dir, "x"), Faults{}).Close()
	if err := os.Symlink("x", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "link"), testFormat, Faults{}); !errors.Is(err, syscall.ELOOP) {
		t.Fatalf("opened through a link: %v", err)
	}
}

func TestFailedCommitLosesNothingElse(t *testing.T) {
	var fail error
	path := filepath.Join(t.TempDir(), "x")
	f := create(t, path, Faults{Before: func() error { return fail }})
	for _, tt := range []struct {
		err  error
		full bool
	}{{syscall.ENOSPC, true}, {syscall.EIO, false}} {
		fail = tt.err
		err := f.Update(func(tx *bolt.Tx) error { return putRange(tx, 10, 11, 40) })
		storage, ok := errors.AsType[*StorageError](err)
		if !ok || storage.Full != tt.full || !errors.Is(err, tt.err) || storage.Path != path {
			t.Fatalf("%v: got %#v", tt.err, err)
		}
		if !f.Suspect() {
			t.Fatal("the file is not suspect after a failed commit")
		}
		if n, err := readAll(f, 40); n != 10 || err != nil {
			t.Fatalf("read %d, %v after a failed commit", n, err)
		}
	}
	fail = nil
	if err := f.Update(func(tx *bolt.Tx) error { return putRange(tx, 10, 11, 40) }); err != nil {
		t.Fatal(err)
	}
	if n, err := readAll(f, 40); n != 11 || err != nil || f.Suspect() {
		t.Fatalf("read %d, %v, suspect %v", n, err, f.Suspect())
	}
}

func TestRefusedUpdateIsNotAStorageFailure(t *testing.T) {
	f := create(t, filepath.Join(t.TempDir(), "x"), Faults{})
	refusal := errors.New("no")
	if err := f.Update(func(*bolt.Tx) error { return refusal }); err != refusal || f.Suspect() {
		t.Fatalf("got %v, suspect %v", err, f.Suspect())
	}
}

func TestDamageWhileOpenStopsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f := create(t, path, Faults{})
	// A file cut behind bbolt's back faults in the mapping.
	if err := os.Truncate(path, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := readAll(f, 40); !errors.Is(err, ErrDamaged) {
				t.Errorf("read a cut file: %v", err)
			}
		})
	}
	wg.Wait()
	if err := f.Update(func(*bolt.Tx) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Fatalf("wrote to a damaged file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.View(func(*bolt.Tx) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Fatalf("view after close: %v", err)
	}
}

func TestFileInUseElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the wait for the lock passes at once
		path := filepath.Join(t.TempDir(), "x")
		create(t, path, Faults{})
		_, err := Open(path, testFormat, Faults{})
		if storage, ok := errors.AsType[*StorageError](err); !ok || storage.Full {
			t.Fatalf("second open: %v", err)
		}
	})
}

func TestSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	create(t, path, Faults{}).Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	step := func(tx *bolt.Tx) error { return putRange(tx, 10, 12, 40) }

	broken := Format{Kind: "test", Version: "2.0.0", Steps: []func(*bolt.Tx) error{step, func(*bolt.Tx) error { return boom }}}
	if _, err := Open(path, broken, Faults{}); !errors.Is(err, boom) {
		t.Fatalf("failing migration: %v", err)
	}
	f, err := Open(path, testFormat, Faults{})
	if err != nil {
		t.Fatalf("a failed migration changed the file: %v", err)
	}
	if n, err := readAll(f, 40); n != 10 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	f.Close()

	newer := Format{Kind: "test", Version: "2.0.0", Steps: []func(*bolt.Tx) error{step}}
	f, err = Open(path, newer, Faults{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := readAll(f, 40); n != 12 || err != nil {
		t.Fatalf("read %d, %v after the migration", n, err)
	}
	f.Close()
	kept, err := os.ReadFile(SchemaCopy(path, 1))
	if err != nil || string(kept) != string(before) {
		t.Fatalf("the kept copy is not what was there before (%v)", err)
	}

	_, err = Open(path, testFormat, Faults{})
	schema, ok := errors.AsType[*SchemaError](err)
	if !ok || schema.Found != 2 || schema.Known != 1 || schema.WrittenBy != "2.0.0" || !errors.Is(err, ErrSchema) {
		t.Fatalf("older program: %v", err)
	}
	if f, err = Open(path, newer, Faults{}); err != nil {
		t.Fatalf("the older program changed the file: %v", err)
	}
	f.Close()
	other := newer
	other.Kind = "other"
	if _, err := Open(path, other, Faults{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("opened a file of another kind: %v", err)
	}
}

func TestStagedReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	old := create(t, path, Faults{})
	s, err := Stage(path, testFormat, Faults{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(func(tx *bolt.Tx) error { return putRange(tx, 0, 3, 40) }); err != nil {
		t.Fatal(err)
	}
	f, err := s.Publish(true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := readAll(old, 40); n != 10 || err != nil {
		t.Fatalf("a reader of the replaced file sees %d, %v", n, err)
	}
	old.Close()
	if err := f.Update(func(tx *bolt.Tx) error { return putRange(tx, 3, 4, 40) }); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f, err = Open(path, testFormat, Faults{}); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := readAll(f, 40); n != 4 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || IsStaged(entries[0].Name()) {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
}

func TestBackup(t *testing.T) {
	dir := t.TempDir()
	f := create(t, filepath.Join(dir, "x"), Faults{})
	// Several commits, so that the copy's meta pages are not in their usual
	// order.
	for i := range 3 {
		if err := f.Update(func(tx *bolt.Tx) error { return putRange(tx, 10+i, 11+i, 40) }); err != nil {
			t.Fatal(err)
		}
		dst := filepath.Join(dir, "copy")
		if err := f.Backup(dst); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dst, testFormat, Faults{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := readAll(c, 40); n != 11+i || err != nil {
			t.Fatalf("the copy has %d values, %v", n, err)
		}
		if err := c.Update(func(tx *bolt.Tx) error { return putRange(tx, 11+i, 12+i, 40) }); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if c, err = Open(dst, testFormat, Faults{}); err != nil {
			t.Fatalf("after a write to the copy: %v", err)
		}
		c.Close()
	}
}
