package demo

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func newTestStore(t *testing.T) *store {
	t.Helper()
	s, err := newStore(filepath.Join(t.TempDir(), "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func say(t *testing.T, n *session, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := n.append(entry{Row: &row.Row{Body: &row.Assistant{Text: text}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns the texts and native ids of a session.
func contents(t *testing.T, s *store, id string) (texts, ids []string, kinds []row.Kind) {
	t.Helper()
	h, err := s.Open(t.Context(), "", id)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for {
		page, err := h.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return texts, ids, kinds
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			kinds = append(kinds, r.Kind())
			if a, ok := r.Body.(*row.Assistant); ok {
				texts, ids = append(texts, a.Text), append(ids, r.NativeID)
			}
		}
	}
}

func TestSessionSurvivesDamage(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func([]byte) []byte
		texts  []string
		notice bool
	}{
		"torn at the end":  {func(b []byte) []byte { return b[:len(b)-9] }, []string{"one", "two", "four"}, true},
		"no line feed":     {func(b []byte) []byte { return b[:len(b)-1] }, []string{"one", "two", "three", "four"}, false},
		"empty lines":      {func(b []byte) []byte { return append(b, "\n\n"...) }, []string{"one", "two", "three", "four"}, false},
		"nonsense between": {func(b []byte) []byte { return append(b, "{\"x\":1}\nnull\n\xff\n"...) }, []string{"one", "two", "three", "four"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestStore(t)
			n, err := s.create("/project")
			if err != nil {
				t.Fatal(err)
			}
			say(t, n, "one", "two", "three")
			if err := n.release(); err != nil {
				t.Fatal(err)
			}
			path, _ := s.path(n.Session)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tc.damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := s.acquire(n.Session)
			if err != nil {
				t.Fatal(err)
			}
			say(t, again, "four")
			if err := again.release(); err != nil {
				t.Fatal(err)
			}
			texts, ids, kinds := contents(t, s, n.Session)
			if !slices.Equal(texts, tc.texts) {
				t.Errorf("texts %q, want %q", texts, tc.texts)
			}
			if slices.Sort(ids); len(slices.Compact(ids)) != len(texts) {
				t.Errorf("native ids %q", ids)
			}
			if slices.Contains(kinds, row.KindNotice) != tc.notice {
				t.Errorf("kinds %q, notice wanted %v", kinds, tc.notice)
			}
		})
	}
}

func TestSessionIDsAreNoPaths(t *testing.T) {
	s := newTestStore(t)
	outside := filepath.Join(filepath.Dir(s.dir), "outside.jsonl")
	if err := os.WriteFile(outside, []byte(`{"session":"x"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "../outside", "a/b", "..", "x\x00", "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}", "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8", strings.Repeat("x", 5000)} {
		if _, err := s.acquire(id); exec.CodeOf(err) != exec.CodeSessionMissing {
			t.Errorf("acquire %.40q: %v", id, err)
		}
		if err := s.Discard(t.Context(), "", id); exec.CodeOf(err) != exec.CodeSessionMissing {
			t.Errorf("discard %.40q: %v", id, err)
		}
	}
}

func TestSessionWithoutHeader(t *testing.T) {
	s := newTestStore(t)
	id := "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for _, data := range []string{"", "\n", "{}\n", `{"session":`, "nonsense\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, id+".jsonl"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(t.Context(), "", id); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("history of %q: %v", data, err)
		}
		if _, err := s.acquire(id); err == nil {
			t.Errorf("%q is a session", data)
		}
		if list, err := s.Sessions(t.Context(), "", 9); err != nil || len(list) != 0 {
			t.Errorf("%q is listed: %v, %v", data, list, err)
		}
	}
	if len(s.open) != 0 {
		t.Errorf("%d sessions are still open", len(s.open))
	}
}

// TestDiscardRacesWithUse: a fork is either used or discarded.
func TestDiscardRacesWithUse(t *testing.T) {
	s := newTestStore(t)
	n, err := s.create("/project")
	if err != nil {
		t.Fatal(err)
	}
	defer n.release()
	say(t, n, "one")
	for range 50 {
		fork, err := s.Fork(t.Context(), exec.Fork{NativeSession: n.Session})
		if err != nil {
			t.Fatal(err)
		}
		var used, discarded error
		var wg sync.WaitGroup
		wg.Go(func() {
			held, err := s.acquire(fork)
			if used = err; err == nil {
				used = errors.Join(held.append(entry{Row: &row.Row{Body: &row.Assistant{Text: "two"}}}), held.release())
			}
		})
		wg.Go(func() { discarded = s.Discard(t.Context(), "", fork) })
		wg.Wait()
		if (used == nil) == (discarded == nil) {
			t.Fatalf("used: %v, discarded: %v", used, discarded)
		}
	}
}

func TestSessionIsShared(t *testing.T) {
	s := newTestStore(t)
	n, err := s.create("/project")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.acquire(n.Session)
	if err != nil || other != n {
		t.Fatalf("another object for the same session, %v", err)
	}
	say(t, n, "one")
	say(t, other, "two")
	if err := n.release(); err != nil {
		t.Fatal(err)
	}
	say(t, other, "three")
	if err := other.release(); err != nil {
		t.Fatal(err)
	}
	if texts, ids, _ := contents(t, s, n.Session); !slices.Equal(texts, []string{"one", "two", "three"}) || !slices.Equal(ids, []string{"e1", "e2", "e3"}) {
		t.Errorf("%q %q", texts, ids)
	}
	if len(s.open) != 0 {
		t.Errorf("%d sessions are still open", len(s.open))
	}
}

func TestForks(t *testing.T) {
	s := newTestStore(t)
	n, err := s.create("/project")
	if err != nil {
		t.Fatal(err)
	}
	defer n.release()
	say(t, n, "one", "two", "three")
	if err := n.append(entry{Allow: "edits"}); err != nil {
		t.Fatal(err)
	}
	fork := func(at string) (string, error) {
		return s.Fork(t.Context(), exec.Fork{ProjectPath: "/project", NativeSession: n.Session, AtNativeID: at})
	}
	early, err := fork("e2")
	if err != nil {
		t.Fatal(err)
	}
	if texts, _, _ := contents(t, s, early); !slices.Equal(texts, []string{"one", "two"}) {
		t.Errorf("early fork %q", texts)
	}
	tip, err := fork("")
	if err != nil {
		t.Fatal(err)
	}
	held, err := s.acquire(tip)
	if err != nil || !held.allows("edits") {
		t.Fatalf("the fork forgot what was allowed, %v", err)
	}
	if err := s.Discard(t.Context(), "", tip); exec.CodeOf(err) != exec.CodeInvalid {
		t.Errorf("discard of a fork in use: %v", err)
	}
	say(t, held, "four")
	held.release()
	for _, id := range []string{tip, n.Session} {
		if err := s.Discard(t.Context(), "", id); exec.CodeOf(err) != exec.CodeInvalid {
			t.Errorf("discard of what was used: %v", err)
		}
	}
	if err := s.Discard(t.Context(), "", early); err != nil {
		t.Error(err)
	}
	if _, err := fork("e99"); exec.CodeOf(err) != exec.CodeInvalid {
		t.Errorf("fork at nothing: %v", err)
	}
	if texts, _, _ := contents(t, s, n.Session); len(texts) != 3 {
		t.Errorf("the source has %q", texts)
	}
	list, err := s.Sessions(t.Context(), "/project", 10)
	if err != nil || len(list) != 2 {
		t.Errorf("%d sessions, %v", len(list), err)
	}
	if list, _ := s.Sessions(t.Context(), "/elsewhere", 10); len(list) != 0 {
		t.Errorf("sessions of another project: %+v", list)
	}
}

func FuzzSession(f *testing.F) {
	f.Add([]byte(`{"session":"s","project":"/p"}` + "\n" + `{"row":{"kind":"assistant","text":"x"}}` + "\n" + `{"allow":"edits"}`))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r, err := newReader(file)
		if err != nil {
			return
		}
		for {
			e, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if e.Row == nil && e.Allow == "" {
				t.Fatal("an empty entry")
			}
		}
	})
}

// FuzzSessionGoesOn goes on with whatever is in a file: what could be read
// before is still there, and what is added comes last.
func FuzzSessionGoesOn(f *testing.F) {
	const id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	f.Add([]byte(`{"row":{"kind":"assistant","text":"x","nativeId":"e1"}}` + "\n" + `{"allow":"edits"}` + "\n"))
	f.Add([]byte(`{"row":{"kind":"assistant","text":"x","nativeId":"e9223372036854775807"}}` + "\n" + `{"row":{"kind":"ass`))
	f.Add([]byte("\r\n\x00{}"))
	f.Fuzz(func(t *testing.T, entries []byte) {
		s := newTestStore(t)
		data := append([]byte(`{"session":"`+id+`","project":"/p"}`+"\n"), entries...)
		if err := os.WriteFile(filepath.Join(s.dir, id+".jsonl"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		before, _, _ := contents(t, s, id)
		n, err := s.acquire(id)
		if err != nil {
			t.Fatal(err)
		}
		say(t, n, "added")
		if err := n.release(); err != nil {
			t.Fatal(err)
		}
		after, ids, _ := contents(t, s, id)
		if !slices.Equal(after, append(before, "added")) {
			t.Fatalf("%q became %q", before, after)
		}
		if slices.Contains(ids[:len(ids)-1], ids[len(ids)-1]) {
			t.Fatalf("the added row has the id of another: %q", ids)
		}
		fork, err := s.Fork(t.Context(), exec.Fork{NativeSession: id})
		if err != nil {
			t.Fatal(err)
		}
		if copied, _, _ := contents(t, s, fork); !slices.Equal(copied, after) {
			t.Fatalf("%q was copied as %q", after, copied)
		}
	})
}
