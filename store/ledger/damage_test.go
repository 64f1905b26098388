package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garcon/proto/row"
)

// sample fills a ledger with rows of both transcripts over several commits and
// returns its file's path and what it holds.
func sample(t *testing.T, s *Set, id string, commits int) (path string, main, kid []string) {
	t.Helper()
	l, err := s.Create(t.Context(), id, CreateMeta{View: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	for i := range commits {
		b := Batch{ClientID: fmt.Sprint("client", i), Urgent: true, Rows: []row.Row{
			user(fmt.Sprint("question ", i)), ofSubagent("kid", notice(fmt.Sprint("kid ", i))), answer(strings.Repeat("word ", 40)),
		}}
		c, err := l.Append(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		main = append(main, string(c.Rows[0].JSON), string(c.Rows[2].JSON))
		kid = append(kid, string(c.Rows[1].JSON))
	}
	return s.path(id), main, kid
}

// TestDamage flips bits and cuts ledgers. Whatever happens to the file, the
// process survives, what is read is right, and damage that is noticed sets the
// file aside.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	const commits, rounds = 60, 60
	path, main, kid := sample(t, s, "good", commits)
	s.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	noticed := 0
	for i := range rounds {
		dir := t.TempDir()
		s := openSet(t, dir)
		bad := bytes.Clone(good)
		at := rnd.IntN(len(bad))
		if i%4 == 0 {
			bad = bad[:at]
		} else {
			bad[at] ^= 1 << rnd.IntN(8)
		}
		// The file must be of the chat whose name it has.
		if err := os.WriteFile(s.path("good"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		err := readEverything(t, s, main, kid)
		switch {
		case err == nil:
			if len(s.Quarantined()) != 0 {
				t.Fatalf("set aside without an error")
			}
		case errors.Is(err, ErrQuarantined):
			noticed++
			checkSetAside(t, s, "good", bad)
		default:
			t.Fatalf("byte %d: %v", at, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if noticed < rounds/4 {
		t.Fatalf("only %d of %d damages were noticed", noticed, rounds)
	}
	t.Logf("%d of %d noticed, the rest hit unused bytes", noticed, rounds)
}

// readEverything compares a ledger with what it held, by follower and by page,
// and appends to it.
func readEverything(t *testing.T, s *Set, main, kid []string) error {
	t.Helper()
	ctx := t.Context()
	l, err := s.Open(ctx, "good")
	if err != nil {
		return err
	}
	defer l.Release()
	for child, want := range map[string][]string{"": main, "kid": kid} {
		rows, err := allRows(ctx, l, child)
		if err != nil {
			return err
		}
		if len(rows) != len(want) {
			t.Fatalf("%q: %d rows of %d", child, len(rows), len(want))
		}
		for i, r := range rows {
			if string(r.JSON) != want[i] {
				t.Fatalf("%q: row %d is %s, was %s", child, i, r.JSON, want[i])
			}
		}
		p, err := l.Page(ctx, PageQuery{Through: int64(len(want) - 1), Before: -1, MaxMessages: 1000, Child: child})
		if err != nil {
			return err
		}
		if len(p.Rows) != len(want) || p.HasMore {
			t.Fatalf("%q: a page of %d rows of %d", child, len(p.Rows), len(want))
		}
	}
	for i := range 3 {
		c, err := l.Append(ctx, Batch{Rows: []row.Row{user("more"), ofSubagent("kid", notice("more"))}, ClientID: fmt.Sprint("new", i)})
		if err != nil {
			return err
		}
		if want := int64(len(main) + i); c.First != want {
			t.Fatalf("appended row %d, want %d", c.First, want)
		}
	}
	again, err := l.Append(ctx, Batch{ClientID: "client7", Urgent: true})
	if err == nil && !again.Replayed {
		t.Fatal("a client id was forgotten")
	}
	return err
}

func checkSetAside(t *testing.T, s *Set, id string, bad []byte) {
	t.Helper()
	q := s.Quarantined()
	if len(q) != 1 || q[0].ChatID != id || q[0].Reason == "" || q[0].Time.IsZero() {
		t.Fatalf("quarantined: %+v", q)
	}
	kept, err := os.ReadFile(q[0].Path)
	if err != nil || len(kept) < len(bad) {
		t.Fatalf("the damaged file was not kept: %v", err)
	}
	if _, err := os.Lstat(s.path(id)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the damaged file is still in place: %v", err)
	}
	_, err = s.Open(t.Context(), id)
	if again, ok := errors.AsType[*QuarantineError](err); !ok || again.Path != q[0].Path {
		t.Fatalf("open afterwards: %v", err)
	}
}

// TestDamageWhileOpen cuts a file under its users.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	s := openSet(t, dir)
	path, _, _ := sample(t, s, "1", 50)
	sample(t, s, "2", 5)
	l := open(t, s, "1")
	f, err := l.Follow(0, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	_, err = f.Next(t.Context())
	damage, ok := errors.AsType[*QuarantineError](err)
	if !ok || damage.ChatID != "1" || !strings.Contains(damage.Error(), damage.Path) {
		t.Fatalf("follower: %v", err)
	}
	for name, use := range map[string]func() error{
		"append": func() error { _, err := l.Append(t.Context(), Batch{Rows: []row.Row{user("x")}}); return err },
		"row":    func() error { _, err := l.Row(t.Context(), "", 1); return err },
		"page": func() error {
			_, err := l.Page(t.Context(), PageQuery{Through: 1, Before: -1, MaxMessages: 1})
			return err
		},
		"follow":  func() error { _, err := l.Follow(0, ""); return err },
		"replace": func() error { _, err := l.Replace(t.Context(), "v2", source(1, io.EOF)); return err },
		"open":    func() error { _, err := s.Open(t.Context(), "1"); return err },
	} {
		if err := use(); !errors.Is(err, ErrQuarantined) && (name != "follow" || !errors.Is(err, ErrClosed)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another chat is not affected.
	if other := open(t, s, "2"); other.Head().Rows != 10 {
		t.Fatalf("head %+v", other.Head())
	}

	// Reload rebuilds it.
	fresh, err := s.Create(t.Context(), "1", CreateMeta{View: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := fresh.Replace(t.Context(), "v3", source(20, io.EOF)); err != nil || h.Rows != 20 {
		t.Fatalf("%+v, %v", h, err)
	}
	l.Release()
	if fresh.Head().Rows != 20 {
		t.Fatal("releasing the damaged ledger harmed the new one")
	}
	fresh.Release()
	want := s.Quarantined()
	s.Close()
	s = openSet(t, dir)
	got := s.Quarantined()
	if len(got) != 1 || got[0].Path != want[0].Path || got[0].Reason != want[0].Reason || !got[0].Time.Equal(want[0].Time) {
		t.Fatalf("after a restart: %+v, was %+v", got, want)
	}
	if l := open(t, s, "1"); l.Head().View != "v3" {
		t.Fatalf("head %+v", l.Head())
	}
}

func TestFileOfAnotherChat(t *testing.T) {
	s := openSet(t, t.TempDir())
	path, _, _ := sample(t, s, "1", 2)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("2"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Open(t.Context(), "2")
	if damage, ok := errors.AsType[*QuarantineError](err); !ok || !strings.Contains(damage.Reason, "chat 1") {
		t.Fatalf("got %v", err)
	}
}

// TestOlderCopyOpens puts an older copy of the file in place: it is whole, and
// opens as what it is.
func TestOlderCopyOpens(t *testing.T) {
	dir, old := t.TempDir(), t.TempDir()
	s := openSet(t, dir)
	l := create(t, s, "1")
	appendRows(t, l, user("a"))
	copyDir(t, dir, old)
	appendRows(t, l, user("b"))
	restored := openSet(t, old)
	if l := open(t, restored, "1"); l.Head().Rows != 1 {
		t.Fatalf("head %+v", l.Head())
	}
	if _, err := os.Stat(filepath.Join(old, "1.db")); err != nil {
		t.Fatal(err)
	}
}
