package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"garcon/proto/exec"
	"garcon/store/internal/boltfile"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "workspace.db"), Options{})
}

func chat(id, title string) Chat {
	return Chat{ID: id, Title: title, ExecutorID: "local", Agent: "demo", ProjectPath: "/p", Tags: []string{"a"}, Settings: map[string]string{"k": "v"}}
}

func TestChatsSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workspace.db")
	s, err := Open(t.Context(), path, Options{})
	must(t, err)
	a, _, err := s.CreateChat(t.Context(), chat("", "one"), Submission{})
	must(t, err)
	b, _, err := s.CreateChat(t.Context(), chat("", "two"), Submission{})
	must(t, err)
	a, err = s.UpdateChat(t.Context(), a.ID, func(c *Chat) error { c.Title, c.ID = "changed", "x"; return nil })
	must(t, err)
	if a.Revision != 2 || a.ID == "x" {
		t.Errorf("updated to %+v", a)
	}
	refused := errors.New("refused")
	if _, err := s.UpdateChat(t.Context(), a.ID, func(c *Chat) error { c.Title = "no"; return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	must(t, s.DeleteChat(t.Context(), b.ID))
	must(t, s.PutSetting(t.Context(), "s", json.RawMessage(`{"x":1}`)))
	must(t, s.PutSelection(t.Context(), "/p", Selection{ExecutorID: "local", Agent: "demo"}))
	must(t, s.Collection("folders").Put(t.Context(), "f", json.RawMessage(`[1]`)))
	must(t, s.Close())
	if _, _, err := s.CreateChat(t.Context(), chat("", "late"), Submission{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	s = open(t, path, Options{})
	if diff := cmp.Diff([]Chat{a}, s.Chats()); diff != "" {
		t.Errorf("chats (-want +got):\n%s", diff)
	}
	if !s.Deleted(b.ID) || s.Deleted(a.ID) {
		t.Error("deletion was forgotten")
	}
	if _, _, err := s.CreateChat(t.Context(), chat(b.ID, "again"), Submission{}); !errors.Is(err, ErrConflict) {
		t.Errorf("a deleted id came back: %v", err)
	}
	if v, ok := s.Setting("s"); !ok || string(v) != `{"x":1}` {
		t.Errorf("setting %s", v)
	}
	if sel, ok := s.Selection("local", "/p"); !ok || sel.Agent != "demo" {
		t.Errorf("selection %+v", sel)
	}
	if _, ok := s.Selection("other", "/p"); ok {
		t.Error("a selection of another executor was found")
	}
	if all := s.Collection("folders").All(); len(all) != 1 || string(all[0].Data) != "[1]" {
		t.Errorf("collection %+v", all)
	}
	must(t, s.Collection("folders").Delete(t.Context(), "f"))
	if _, ok := s.Collection("folders").Get("f"); ok {
		t.Error("deleted record is there")
	}
}

func TestWhatIsReturnedIsTheCallers(t *testing.T) {
	s := newStore(t)
	c, _, err := s.CreateChat(t.Context(), chat("", "one"), Submission{})
	must(t, err)
	for _, got := range []Chat{c, s.Chats()[0]} {
		got.Tags[0], got.Settings["k"] = "spoilt", "spoilt"
	}
	again, _ := s.Chat(c.ID)
	if again.Tags[0] != "a" || again.Settings["k"] != "v" {
		t.Errorf("the store's own copy was changed: %+v", again)
	}
}

func TestChatIDs(t *testing.T) {
	clock := time.UnixMicro(1_796_055_588_644_000)
	s := open(t, filepath.Join(t.TempDir(), "w.db"), Options{Clock: func() time.Time { return clock }})
	last := ""
	for i := range 1000 {
		if i == 500 {
			clock = clock.Add(-time.Hour) // the clock is set back
		}
		id := s.NewChatID()
		if len(id) != 16 || id <= last {
			t.Fatalf("id %s after %s", id, last)
		}
		last = id
	}
}

func TestSubmissions(t *testing.T) {
	s := newStore(t)
	sub := Submission{RequestID: "r", Fingerprint: "f"}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		ids     = map[string]bool{}
		created atomic.Int32
	)
	for range 50 {
		wg.Go(func() {
			c, replayed, err := s.CreateChat(context.Background(), chat("", "one"), sub)
			if err != nil {
				t.Error(err)
				return
			}
			if !replayed {
				created.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[c.ID] = true
		})
	}
	wg.Wait()
	if created.Load() != 1 || len(ids) != 1 || len(s.Chats()) != 1 {
		t.Errorf("created %d times as %v", created.Load(), ids)
	}
	id := s.Chats()[0].ID
	if got, ok, err := s.Submission(t.Context(), sub); got != id || !ok || err != nil {
		t.Errorf("lookup gave %s, %v, %v", got, ok, err)
	}
	other := Submission{RequestID: "r", Fingerprint: "g"}
	if _, _, err := s.CreateChat(t.Context(), chat("", "x"), other); !errors.Is(err, ErrConflict) {
		t.Errorf("another fingerprint: %v", err)
	}
	if _, _, err := s.Submission(t.Context(), other); !errors.Is(err, ErrConflict) {
		t.Errorf("another fingerprint: %v", err)
	}
	must(t, s.RetractChat(t.Context(), id, "r"))
	if _, replayed, err := s.CreateChat(t.Context(), chat("", "again"), other); replayed || err != nil {
		t.Errorf("after a retraction: %v, %v", replayed, err)
	}
	must(t, s.DeleteChat(t.Context(), s.Chats()[0].ID))
	if _, _, err := s.CreateChat(t.Context(), chat("", "again"), other); !errors.Is(err, ErrConflict) {
		t.Errorf("a deleted chat came back: %v", err)
	}
}

func TestSubmissionsAreBounded(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range maxSubmissions/16 + 10 {
				if _, _, err := s.CreateChat(context.Background(), chat("", "x"), Submission{RequestID: fmt.Sprint(w, " ", i)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(s.committed[bucketSubmissions]); n != 2*maxSubmissions+1 {
		t.Errorf("%d records of submissions, want %d", n, 2*maxSubmissions+1)
	}
}

func TestTitlesAreBounded(t *testing.T) {
	s := newStore(t)
	if _, _, err := s.CreateChat(t.Context(), chat("", strings.Repeat("é", MaxTitle/2)), Submission{}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	for _, bad := range []Chat{chat("", strings.Repeat("x", MaxTitle+1)), chat("", "\xff"), chat("7", "short id"), chat("../../../../../x", "path")} {
		if _, _, err := s.CreateChat(t.Context(), bad, Submission{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", bad.Title, err)
		}
	}
	large := chat("", "x")
	large.Preview = strings.Repeat("x", maxChat)
	if _, _, err := s.CreateChat(t.Context(), large, Submission{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
}

func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.db")
	s := open(t, path, Options{})
	const secret = "sk-canary"
	p := Provider{ID: "p", Label: "L", Protocol: "anthropic", BaseURL: "https://api.example/v1", Key: exec.NewCredential(secret)}
	p, err := s.PutProvider(t.Context(), p)
	must(t, err)
	if encoded, _ := json.Marshal(p); !p.HasKey || p.Key.Reveal() != "" || bytes.Contains(encoded, []byte(secret)) {
		t.Errorf("stored as %s", encoded)
	}
	keep := func(base string, want bool) {
		t.Helper()
		p.BaseURL = base
		if p, err = s.PutProvider(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		key, ok := s.ProviderKey("p")
		if ok != want || p.HasKey != want || want && key.Reveal() != secret {
			t.Errorf("%s: has a key: %v, want %v", base, ok, want)
		}
	}
	keep("https://API.example/v2", true)
	for _, other := range []string{"http://api.example/v2", "https://api.example:444/v2", "https://evil.example/v2", "https://api.example.evil/v2"} {
		p.Key = exec.NewCredential(secret)
		keep("https://api.example/v1", true)
		keep(other, false)
	}
	must(t, s.DeleteProvider(t.Context(), "p"))
	if _, ok := s.ProviderKey("p"); ok {
		t.Error("the key outlived its provider")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	must(t, s.Close()) // the copy is complete then
	if info, err := os.Stat(path + copySuffix); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the copy, which holds keys too, has mode %v, %v", info.Mode(), err)
	}
}

func TestWatchersSeeEveryCommit(t *testing.T) {
	s := newStore(t)
	var got []string
	stop := s.Watch(func(c Change) {
		if c.Chat != nil {
			got = append(got, c.Chat.Title)
			c.Chat.Tags[0] = "spoilt"
		} else {
			got = append(got, "removed")
		}
	})
	c, _, err := s.CreateChat(t.Context(), chat("", "one"), Submission{})
	must(t, err)
	_, err = s.UpdateChat(t.Context(), c.ID, func(c *Chat) error { c.Title = "two"; return nil })
	must(t, err)
	must(t, s.DeleteChat(t.Context(), c.ID))
	stop()
	_, _, err = s.CreateChat(t.Context(), chat("", "unseen"), Submission{})
	must(t, err)
	if want := []string{"one", "two", "removed"}; !slices.Equal(got, want) {
		t.Errorf("saw %q, want %q", got, want)
	}
}

// TestFailedCommits has commits fail before and after they took.
func TestFailedCommits(t *testing.T) {
	for _, took := range []bool{false, true} {
		t.Run(fmt.Sprint("took ", took), func(t *testing.T) {
			var fail atomic.Bool
			full := func() error {
				if fail.Load() {
					return syscall.ENOSPC
				}
				return nil
			}
			faults := boltfile.Faults{Before: full}
			if took {
				faults = boltfile.Faults{After: full}
			}
			path := filepath.Join(t.TempDir(), "w.db")
			s := open(t, path, Options{faults: faults})
			seen := 0
			defer s.Watch(func(Change) { seen++ })()
			c, _, err := s.CreateChat(t.Context(), chat("", "before"), Submission{})
			must(t, err)
			fail.Store(true)
			_, err = s.UpdateChat(t.Context(), c.ID, func(c *Chat) error { c.Title = "during"; return nil })
			if e, ok := errors.AsType[*StorageError](err); !ok || !e.Full {
				t.Fatalf("error %v", err)
			}
			if got, _ := s.Chat(c.ID); got.Title != "before" {
				t.Errorf("an uncommitted title is shown: %q", got.Title)
			}
			for _, err := range []error{
				s.DeleteChat(t.Context(), c.ID),
				s.PutSetting(t.Context(), "s", json.RawMessage("1")),
				s.Collection("new").Put(t.Context(), "r", json.RawMessage("1")),
			} {
				if !errors.Is(err, ErrStorage) {
					t.Fatalf("error %v", err)
				}
			}
			fail.Store(false)
			// Who was told that a change failed must not meet it later.
			got, err := s.UpdateChat(t.Context(), c.ID, func(c *Chat) error { c.Preview = "after"; return nil })
			must(t, err)
			if got.Title != "before" || got.Preview != "after" || got.Revision != 2 || seen != 2 {
				t.Errorf("after the failure: %+v, %d changes seen", got, seen)
			}
			fail.Store(true)
			if _, _, err := s.CreateChat(t.Context(), chat("", "never"), Submission{RequestID: "r"}); !errors.Is(err, ErrStorage) {
				t.Fatalf("error %v", err)
			}
			fail.Store(false)
			must(t, s.Close())
			s = open(t, path, Options{})
			if diff := cmp.Diff([]Chat{got}, s.Chats()); diff != "" {
				t.Errorf("after a restart (-want +got):\n%s", diff)
			}
			if _, ok := s.Setting("s"); ok || s.Deleted(c.ID) || len(s.Collection("new").All()) != 0 {
				t.Error("a failed change turned up")
			}
			if _, ok, err := s.Submission(t.Context(), Submission{RequestID: "r"}); ok || err != nil {
				t.Errorf("a failed submission is remembered: %v, %v", ok, err)
			}
		})
	}
}

// TestCloseLeavesNobodyWaiting closes while changes come.
func TestCloseLeavesNobodyWaiting(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "w.db")
		s, err := Open(t.Context(), path, Options{})
		must(t, err)
		var wg sync.WaitGroup
		var made atomic.Int32
		started := make(chan struct{}, 8)
		for range 8 {
			wg.Go(func() {
				for {
					_, _, err := s.CreateChat(context.Background(), chat("", "x"), Submission{})
					if errors.Is(err, ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					made.Add(1)
					select {
					case started <- struct{}{}:
					default:
					}
				}
			})
		}
		<-started
		must(t, s.Close())
		wg.Wait()
		if n := len(open(t, path, Options{}).Chats()); n != int(made.Load()) {
			t.Fatalf("%d chats are there, %d were confirmed", n, made.Load())
		}
	}
}

func TestSubmissionsCannotPassForOtherRecords(t *testing.T) {
	s := newStore(t)
	for _, id := range []string{submissionRange, submissionOrder + "0", strings.Repeat("x", maxKey+1)} {
		if _, _, err := s.CreateChat(t.Context(), chat("", "x"), Submission{RequestID: id}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", id, err)
		}
		if _, _, err := s.Submission(t.Context(), Submission{RequestID: id}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

// TestCancelledChange leaves while its commit is under way.
func TestCancelledChange(t *testing.T) {
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	var stall atomic.Bool
	s := open(t, filepath.Join(t.TempDir(), "w.db"), Options{faults: boltfile.Faults{Before: func() error {
		if stall.CompareAndSwap(true, false) {
			entered <- struct{}{}
			<-gate
		}
		return nil
	}}})
	stall.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, _, err := s.CreateChat(ctx, chat("", "slow"), Submission{RequestID: "r"})
		result <- err
	}()
	<-entered
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(gate)
	c, replayed, err := s.CreateChat(t.Context(), chat("", "again"), Submission{RequestID: "r"})
	if err != nil || !replayed || c.Title != "slow" {
		t.Errorf("repeated: %+v, %v, %v", c, replayed, err)
	}
}

func TestDamageIsRefusedAndNamesTheCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.db")
	s, err := Open(t.Context(), path, Options{})
	must(t, err)
	for i := range 200 {
		_, _, err := s.CreateChat(t.Context(), chat("", fmt.Sprint("chat ", i)), Submission{})
		must(t, err)
	}
	must(t, s.Close())
	s, err = Open(t.Context(), path, Options{}) // keeps a copy with all chats
	must(t, err)
	must(t, s.Close())
	want := s.Chats()
	good, err := os.ReadFile(path)
	must(t, err)
	refused := 0
	for i := range 120 {
		bad := slices.Clone(good)
		switch i % 3 {
		case 0:
			bad = bad[:rand.IntN(len(bad))]
		case 1:
			bad[rand.IntN(len(bad))] ^= 1 << rand.IntN(8)
		default:
			for range 16 {
				bad[rand.IntN(len(bad))] ^= 1 << rand.IntN(8)
			}
		}
		must(t, os.WriteFile(path, bad, 0o600))
		s, err := Open(t.Context(), path, Options{})
		if err == nil {
			// The flips hit what nothing uses.
			if diff := cmp.Diff(want, s.Chats()); diff != "" {
				t.Errorf("opened with other chats (-want +got):\n%s", diff)
			}
			must(t, s.Close())
			continue
		}
		refused++
		damage, ok := errors.AsType[*DamagedError](err)
		if !ok || damage.Path != path {
			t.Fatalf("error %v", err)
		}
		if !strings.HasPrefix(damage.Copy, path) {
			t.Errorf("no copy is named: %v", err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, bad) {
			t.Error("the damaged file was changed")
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
	must(t, os.Rename(path+copySuffix, path))
	s, err = Open(t.Context(), path, Options{})
	must(t, err)
	if n := len(s.Chats()); n != 200 {
		t.Errorf("the copy holds %d chats", n)
	}
	must(t, s.Close())
}

// TestAgainstAModel runs random changes, restarts included, beside plain maps.
func TestAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "registry")
		must(t, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "w.db")
		s, err := Open(context.Background(), path, Options{})
		must(t, err)
		defer func() { _ = s.Close() }()
		titles, settings := map[string]string{}, map[string]string{}
		ctx := context.Background()
		someChat := func(rt *rapid.T) string {
			if len(titles) == 0 {
				rt.Skip("no chat")
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(titles))).Draw(rt, "chat")
		}
		title := rapid.StringN(0, 20, 60)
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(rt *rapid.T) {
				want := title.Draw(rt, "title")
				c, _, err := s.CreateChat(ctx, chat("", want), Submission{})
				must(t, err)
				titles[c.ID] = want
			},
			"update": func(rt *rapid.T) {
				id, want := someChat(rt), title.Draw(rt, "title")
				_, err := s.UpdateChat(ctx, id, func(c *Chat) error { c.Title = want; return nil })
				must(t, err)
				titles[id] = want
			},
			"delete": func(rt *rapid.T) {
				id := someChat(rt)
				must(t, s.DeleteChat(ctx, id))
				delete(titles, id)
			},
			"setting": func(rt *rapid.T) {
				key, value := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), rapid.Int().Draw(rt, "value")
				must(t, s.PutSetting(ctx, key, json.RawMessage(fmt.Sprint(value))))
				settings[key] = fmt.Sprint(value)
			},
			"restart": func(*rapid.T) {
				must(t, s.Close())
				s, err = Open(ctx, path, Options{})
				must(t, err)
			},
			"": func(rt *rapid.T) {
				got := map[string]string{}
				for _, c := range s.Chats() {
					got[c.ID] = c.Title
				}
				if diff := cmp.Diff(titles, got); diff != "" {
					rt.Fatalf("chats (-want +got):\n%s", diff)
				}
				for k, v := range settings {
					if raw, _ := s.Setting(k); string(raw) != v {
						rt.Fatalf("setting %s is %s, want %s", k, raw, v)
					}
				}
			},
		})
	})
}

// BenchmarkOpen10k opens a workspace of ten thousand chats.
func BenchmarkOpen10k(b *testing.B) {
	path := filepath.Join(b.TempDir(), "w.db")
	s, err := Open(b.Context(), path, Options{})
	must(b, err)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			for range 100 {
				if _, _, err := s.CreateChat(context.Background(), chat("", "a title of usual length"), Submission{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(b, s.Close())
	for b.Loop() {
		s, err := Open(b.Context(), path, Options{})
		must(b, err)
		b.StopTimer()
		must(b, s.Close())
		b.StartTimer()
	}
}

func BenchmarkUpdatesTogether(b *testing.B) {
	s := newStore(b)
	c, _, err := s.CreateChat(b.Context(), chat("", "x"), Submission{})
	must(b, err)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.UpdateChat(context.Background(), c.ID, func(c *Chat) error { c.LastActivity++; return nil }); err != nil {
				b.Error(err)
			}
		}
	})
}
