package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

var testFormat = Format{Kind: "test", Version: "1.2.3", Ordered: []string{"data"}}

func testSpace() Space { return NewSpace("data", 1<<20) }

func key(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

// makeFile stores n values of the size, in commits of batch.
func makeFile(t testing.TB, path string, n, batch, size int) {
	t.Helper()
	s, err := Stage(path, testFormat, Faults{})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += batch {
		err := s.Update(func(tx *bolt.Tx) error { return putRange(tx, i, min(i+batch, n), size) })
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.Publish(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func value(i, size int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, size/2) }

func putRange(tx *bolt.Tx, from, to, size int) error {
	space := testSpace()
	b, err := tx.CreateBucketIfNotExists(space.Name)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if err := b.Put(key(i), space.Sealed(key(i), value(i, size))); err != nil {
			return err
		}
	}
	return nil
}

// readAll returns how many values are there, checking each.
func readAll(f *File, size int) (n int, err error) {
	err = f.View(func(tx *bolt.Tx) error {
		n = 0
		space := testSpace()
		b := tx.Bucket(space.Name)
		if b == nil {
			return damaged("no bucket")
		}
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if !bytes.Equal(k, key(n)) {
				return damaged("key %x at %d", k, n)
			}
			plain, err := space.Unseal(k, v)
			if err != nil {
				return err
			}
			if !bytes.Equal(plain, value(n, size)) {
				return fmt.Errorf("value %d is wrong and its checksum right", n)
			}
			n++
		}
		return nil
	})
	return n, err
}

func TestEmptyImageIsBboltsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := emptyImage(os.Getpagesize()); !bytes.Equal(got, want) {
		t.Fatalf("the empty image differs from what bbolt makes")
	}
}

func TestCheckAcceptsWhatBboltWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "check")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "x")
		f, err := Create(path, testFormat, Faults{}, false, func(*bolt.Tx) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for range rapid.IntRange(1, 20).Draw(t, "commits") {
			err := f.Update(func(tx *bolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists([]byte(names.Draw(t, "bucket")))
				if err != nil {
					return err
				}
				size := rapid.SampledFrom([]int{0, 10, 300, 5000, 40_000}).Draw(t, "size")
				for range rapid.IntRange(0, 25).Draw(t, "puts") {
					if err := b.Put(key(rapid.IntRange(0, 120).Draw(t, "key")), make([]byte, size)); err != nil {
						return err
					}
				}
				for range rapid.IntRange(0, 25).Draw(t, "deletes") {
					if err := b.Delete(key(rapid.IntRange(0, 120).Draw(t, "key"))); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			err = check(raw, nil)
			raw.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDamageNeverGoesUnnoticed flips bits and cuts files. Whatever the damage,
// the process must survive it, and what is read must be right or an error.
func TestDamageNeverGoesUnnoticed(t *testing.T) {
	dir := t.TempDir()
	for _, shape := range []struct{ n, batch, size int }{
		{3, 1, 40}, {400, 7, 100}, {3000, 300, 120}, {12, 2, 20_000},
	} {
		t.Run(fmt.Sprintf("%d of %d", shape.n, shape.size), func(t *testing.T) {
			path := filepath.Join(dir, fmt.Sprint("good", shape.n))
			makeFile(t, path, shape.n, shape.batch, shape.size)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			caught := 0
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			const rounds = 120
			for range rounds {
				bad := bytes.Clone(good)
				what := ""
				switch rnd.IntN(4) {
				case 0:
					n := rnd.IntN(len(bad))
					bad = bad[:n]
					what = fmt.Sprintf("cut to %d", n)
				case 1: // the small structures in front are hit more often
					i := rnd.IntN(min(len(bad), 10*os.Getpagesize()))
					bad[i] ^= 1 << rnd.IntN(8)
					what = fmt.Sprintf("bit flipped at %d", i)
				case 2:
					i := rnd.IntN(len(bad)/os.Getpagesize())*os.Getpagesize() + rnd.IntN(64)
					bad[i] ^= byte(1 + rnd.IntN(255))
					what = fmt.Sprintf("byte changed at %d", i)
				case 3:
					i := rnd.IntN(len(bad))
					bad[i] ^= 1 << rnd.IntN(8)
					what = fmt.Sprintf("bit flipped at %d", i)
				}
				if readDamaged(t, dir, bad, shape.n, shape.size, what) {
					caught++
				}
			}
			if caught == 0 {
				t.Fatalf("no damage of %d was noticed", rounds)
			}
			t.Logf("%d of %d noticed, the rest hit unused bytes", caught, rounds)
		})
	}
}

// readDamaged reports whether the damage was noticed.
func readDamaged(t *testing.T, dir string, bad []byte, n, size int, what string) bool {
	t.Helper()
	path := filepath.Join(dir, "bad")
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, testFormat, Faults{})
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s: open: %v", what, err)
		}
		return true
	}
	defer f.Close()
	got, err := readAll(f, size)
	if err == nil && got == n {
		// A file that reads right must also take a write without harm.
		if err = f.Update(func(tx *bolt.Tx) error { return putRange(tx, n, n+1, size) }); err == nil {
			got, err = readAll(f, size)
			got--
		}
	}
	if err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s: read: %v", what, err)
		}
		return true
	}
	if got != n {
		t.Fatalf("%s: read %d values of %d without an error", what, got, n)
	}
	return false
}

func TestCheckNamesTheDamage(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	makeFile(t, good, 2000, 100, 100)
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	branch, child := 0, 0
	for at := 2 * size; at < len(data); at += size {
		if native.Uint16(data[at+8:]) == flagBranch && native.Uint64(data[at:]) == uint64(at/size) {
			branch, child = at, int(native.Uint64(data[at+pageHeader+8:]))
		}
	}
	if branch == 0 {
		t.Fatal("the file has no branch page")
	}
	// The first leaf of the bucket, which is always read.
	leaf := child * size
	var freePage int
	for at := 2 * size; at < len(data); at += size {
		if native.Uint16(data[at+8:]) == flagFree && native.Uint16(data[at+10:]) > 0 {
			freePage = at
		}
	}
	for name, tt := range map[string]struct {
		change func([]byte) []byte
		reason string
	}{
		"empty":     {func([]byte) []byte { return nil }, "it is empty"},
		"cut":       {func(b []byte) []byte { return b[:5*size] }, "should hold"},
		"meta":      {func(b []byte) []byte { b[40]++; return b }, "fails its checksum"},
		"text file": {func([]byte) []byte { return bytes.Repeat([]byte("hello "), 4000) }, "not one"},
		"element lost": {func(b []byte) []byte {
			native.PutUint16(b[leaf+10:], native.Uint16(b[leaf+10:])-1)
			return b
		}, "out of place"},
		"circle": {func(b []byte) []byte {
			native.PutUint64(b[branch+pageHeader+8:], uint64(branch/size))
			return b
		}, "circle"},
		"one page twice": {func(b []byte) []byte {
			native.PutUint64(b[branch+pageHeader+elementSize+8:], uint64(child))
			return b
		}, "used twice"},
		"free list": {func(b []byte) []byte {
			native.PutUint64(b[freePage+pageHeader:], uint64(child))
			return b
		}, "used twice"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "bad")
			if err := os.WriteFile(path, tt.change(bytes.Clone(data)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, testFormat, Faults{})
			damage, ok := errors.AsType[*DamageError](err)
			if !ok || damage.Path != path || !bytes.Contains([]byte(damage.Reason), []byte(tt.reason)) {
				t.Fatalf("got %v, want damage with %q", err, tt.reason)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, tt.change(bytes.Clone(data))) {
				t.Fatalf("the damaged file was changed (%v)", err)
			}
		})
	}
}

// TestUnorderedBucketsAreCheckedWhole takes an element from every leaf in turn: only
// reading all of them can tell, as no key says that it should be there.
func TestUnorderedBucketsAreCheckedWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	makeFile(t, path, 500, 50, 100)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	thorough := testFormat
	thorough.Ordered = nil
	f, err := Open(path, thorough, Faults{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	inUse := leaves(t, good)
	if len(inUse) < 10 {
		t.Fatalf("only %d leaves", len(inUse))
	}
	for _, at := range inUse {
		bad := bytes.Clone(good)
		native.PutUint16(bad[at+10:], native.Uint16(bad[at+10:])-1)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, thorough, Faults{}); !errors.Is(err, ErrDamaged) {
			t.Fatalf("the leaf at %d lost an element: %v", at, err)
		}
	}
}

// leaves returns where the data pages of the test bucket are.
func leaves(t *testing.T, file []byte) []int {
	t.Helper()
	size := os.Getpagesize()
	free := map[int]bool{}
	c := &checker{file: bytes.NewReader(file), size: int64(len(file))}
	if err := c.metas(); err != nil {
		t.Fatal(err)
	}
	newest := c.meta
	list := file[int(newest.free)*size:]
	for i := range int(native.Uint16(list[10:])) {
		free[int(native.Uint64(list[pageHeader+8*i:]))] = true
	}
	var out []int
	for id := 2; id < int(newest.highWater); id++ {
		at := id * size
		if !free[id] && native.Uint16(file[at+8:]) == flagLeaf && native.Uint16(file[at+10:]) > 1 {
			out = append(out, at)
		}
	}
	return out
}

// FuzzCheck gives the checker arbitrary files. It must end, with a result, in
// memory bounded by the file.
func FuzzCheck(f *testing.F) {
	// Small pages make small seeds.
	path := filepath.Join(f.TempDir(), "x")
	db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: minPageSize})
	if err != nil {
		f.Fatal(err)
	}
	for i := range 4 {
		if err := db.Update(func(tx *bolt.Tx) error { return putRange(tx, 5*i, 5*i+5, 40) }); err != nil {
			f.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	c := &checker{file: bytes.NewReader(good), size: int64(len(good))}
	if err := c.run(); err != nil {
		f.Fatal(err)
	}
	good = good[:c.meta.highWater*minPageSize]
	f.Add(good, 0, byte(0))
	f.Add(good, 3*minPageSize+10, byte(0xFF))
	f.Add(emptyImage(minPageSize), 12, byte(1))
	f.Add([]byte("text"), 0, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, change byte) {
		data = bytes.Clone(data)
		if len(data) > 0 {
			data[((at%len(data))+len(data))%len(data)] ^= change
		}
		c := &checker{file: bytes.NewReader(data), size: int64(len(data)), ordered: []string{"data"}}
		if err := c.run(); err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("neither good nor damaged: %v", err)
		}
	})
}
