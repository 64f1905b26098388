package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// model is what a ledger must behave like: plain slices.
type model struct {
	view    string
	rows    map[string][]string // by child
	message map[string][]bool
	clients map[string]string // client id to fingerprint
}

func (m *model) add(child, name string, message bool) {
	m.rows[child] = append(m.rows[child], name)
	m.message[child] = append(m.message[child], message)
}

// machine drives one chat's ledger and compares it with its model.
type machine struct {
	dirs       []string
	set        *Set
	l          *Ledger
	m          model
	fail       error
	afterwards bool
	followers  []*modelFollower
	n          int
}

type modelFollower struct {
	f     *Follower
	child string
	next  int
}

// TestLedgerModel runs random operations against the model, with reopening,
// crashes, failing disks and replaced views among them.
func TestLedgerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &machine{}
		k.start(t)
		defer k.stop()
		t.Repeat(map[string]func(*rapid.T){
			"append":   k.append,
			"replay":   k.replay,
			"full":     k.appendOnFullDisk,
			"page":     k.page,
			"follow":   k.follow,
			"next":     k.nextRows,
			"unfollow": k.unfollow,
			"reopen":   k.reopen,
			"crash":    k.crash,
			"replace":  k.replace,
			"":         k.check,
		})
	})
}

func (k *machine) start(t *rapid.T) {
	k.m = model{view: "v0", rows: map[string][]string{}, message: map[string][]bool{}, clients: map[string]string{}}
	k.openSet(t, k.newDir(t))
	l, err := k.set.Create(context.Background(), "1", CreateMeta{View: "v0"})
	if err != nil {
		t.Fatal(err)
	}
	k.l = l
}

func (k *machine) newDir(t *rapid.T) string {
	dir, err := os.MkdirTemp("", "ledger-model")
	if err != nil {
		t.Fatal(err)
	}
	k.dirs = append(k.dirs, dir)
	return dir
}

func (k *machine) openSet(t *rapid.T, dir string) {
	s, err := OpenSet(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.faults = boltfile.Faults{
		Before: func() error {
			if k.afterwards {
				return nil
			}
			return k.fail
		},
		After: func() error {
			if !k.afterwards {
				return nil
			}
			return k.fail
		},
	}
	k.set = s
}

func (k *machine) stop() {
	for _, f := range k.followers {
		f.f.Close()
	}
	if err := k.set.Close(); err != nil {
		panic(err)
	}
	for _, dir := range k.dirs {
		os.RemoveAll(dir)
	}
}

var modelChildren = rapid.SampledFrom([]string{"", "", "", "kid", "kid2"})

// batch draws rows with fresh names.
func (k *machine) batch(t *rapid.T) (rows []row.Row, apply func()) {
	type added struct {
		child, name string
		message     bool
	}
	var all []added
	for range rapid.IntRange(0, 5).Draw(t, "rows") {
		k.n++
		a := added{modelChildren.Draw(t, "child"), fmt.Sprint("r", k.n), rapid.Bool().Draw(t, "message")}
		r := notice(a.name)
		if a.message {
			r = answer(a.name)
		}
		rows = append(rows, ofSubagent(a.child, r))
		all = append(all, a)
	}
	return rows, func() {
		for _, a := range all {
			k.m.add(a.child, a.name, a.message)
		}
	}
}

func (k *machine) append(t *rapid.T) {
	rows, apply := k.batch(t)
	b := Batch{Rows: rows, Urgent: true}
	if rapid.Bool().Draw(t, "with client id") {
		b.ClientID, b.Fingerprint = fmt.Sprint("c", k.n, "-", len(k.m.clients)), "f"
	}
	first := int64(len(k.m.rows[""]))
	c, err := k.l.Append(context.Background(), b)
	if err != nil || c.Replayed || len(c.Rows) != len(rows) {
		t.Fatalf("append: %+v, %v", c, err)
	}
	apply()
	last := int64(len(k.m.rows[""])) - 1
	if last < first {
		first, last = -1, -1
	}
	if c.First != first || c.Last != last {
		t.Fatalf("appended %d to %d, want %d to %d", c.First, c.Last, first, last)
	}
	if b.ClientID != "" {
		k.m.clients[b.ClientID] = b.Fingerprint
	}
}

func (k *machine) replay(t *rapid.T) {
	if len(k.m.clients) == 0 {
		t.Skip("no client ids")
	}
	var ids []string
	for id := range k.m.clients {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	id := rapid.SampledFrom(ids).Draw(t, "client id")
	fingerprint := rapid.SampledFrom([]string{"f", "other"}).Draw(t, "fingerprint")
	c, err := k.l.Append(context.Background(), Batch{Rows: []row.Row{user("never")}, ClientID: id, Fingerprint: fingerprint})
	if fingerprint != k.m.clients[id] {
		if !errors.Is(err, ErrConflict) {
			t.Fatalf("conflict: %+v, %v", c, err)
		}
	} else if err != nil || !c.Replayed {
		t.Fatalf("replay: %+v, %v", c, err)
	}
}

func (k *machine) appendOnFullDisk(t *rapid.T) {
	rows, _ := k.batch(t)
	// The commit that creates the file has no later half.
	k.fail, k.afterwards = syscall.ENOSPC, k.l.file != nil && rapid.Bool().Draw(t, "in the last fsync")
	_, err := k.l.Append(context.Background(), Batch{Rows: rows, ClientID: fmt.Sprint("lost", k.n), Urgent: true})
	k.fail = nil
	if !errors.Is(err, ErrStorage) {
		t.Fatalf("append to a full disk: %v", err)
	}
}

func (k *machine) page(t *rapid.T) {
	child := modelChildren.Draw(t, "child")
	all, messages := k.m.rows[child], k.m.message[child]
	through := rapid.IntRange(-1, len(all)-1).Draw(t, "through")
	before := rapid.IntRange(-1, len(all)+1).Draw(t, "before")
	limit := rapid.IntRange(1, 6).Draw(t, "messages")
	p, err := k.l.Page(context.Background(), PageQuery{
		View: k.m.view, Through: int64(through), Before: int64(before), MaxMessages: limit, Child: child,
	})
	if err != nil {
		t.Fatal(err)
	}
	end := through
	if before >= 0 {
		end = min(end, before-1)
	}
	start, seen := end+1, 0
	for start > 0 && seen < limit {
		start--
		if messages[start] {
			seen++
		}
	}
	var got []string
	for _, s := range p.Rows {
		got = append(got, text(s.Row))
	}
	if want := all[start : end+1]; !slices.Equal(got, want) || p.HasMore != (start > 0 && end >= 0) {
		t.Fatalf("page %v more %v, want %v from %d", got, p.HasMore, want, start)
	}
}

func (k *machine) follow(t *rapid.T) {
	child := modelChildren.Draw(t, "child")
	from := rapid.IntRange(0, len(k.m.rows[child])).Draw(t, "from")
	f, err := k.l.Follow(int64(from), child)
	if err != nil {
		t.Fatal(err)
	}
	k.followers = append(k.followers, &modelFollower{f, child, from})
}

func (k *machine) nextRows(t *rapid.T) {
	for _, f := range k.followers {
		all := k.m.rows[f.child]
		if f.next == len(all) {
			continue
		}
		rows, err := f.f.Next(context.Background())
		if err != nil || len(rows) == 0 || f.next+len(rows) > len(all) {
			t.Fatalf("follower of %q at %d: %d rows, %v", f.child, f.next, len(rows), err)
		}
		for _, s := range rows {
			if text(s.Row) != all[f.next] || s.Row.Ordinal != int64(f.next) {
				t.Fatalf("follower of %q got %s at %d, want %s", f.child, text(s.Row), f.next, all[f.next])
			}
			f.next++
		}
	}
}

func (k *machine) unfollow(t *rapid.T) {
	if len(k.followers) == 0 {
		t.Skip("no followers")
	}
	k.followers[0].f.Close()
	k.followers = k.followers[1:]
}

// dropFollowers checks that all of them end with the error.
func (k *machine) dropFollowers(t *rapid.T, want error) {
	for _, f := range k.followers {
		if _, err := f.f.Next(context.Background()); !errors.Is(err, want) {
			t.Fatalf("a follower ended with %v, want %v", err, want)
		}
		f.f.Close()
	}
	k.followers = nil
}

func (k *machine) reopen(t *rapid.T) {
	dir := k.set.dir
	if err := k.set.Close(); err != nil {
		t.Fatal(err)
	}
	k.dropFollowers(t, ErrClosed)
	k.openSet(t, dir)
	k.reopenLedger(t)
}

// crash continues with a copy of the files as they are on disk.
func (k *machine) crash(t *rapid.T) {
	if k.l.file == nil {
		t.Skip("nothing is on disk yet")
	}
	if k.l.file.Suspect() {
		t.Skip("the disk may hold a commit that was reported as failed")
	}
	dir := k.newDir(t)
	if err := os.CopyFS(dir, os.DirFS(k.set.dir)); err != nil {
		t.Fatal(err)
	}
	old := k.set
	k.openSet(t, dir)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	k.dropFollowers(t, ErrClosed)
	k.reopenLedger(t)
}

func (k *machine) reopenLedger(t *rapid.T) {
	l, err := k.set.Open(context.Background(), "1")
	if err != nil {
		t.Fatal(err)
	}
	k.l = l
}

func (k *machine) replace(t *rapid.T) {
	k.n++
	n := rapid.IntRange(0, 12).Draw(t, "rows")
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("i", i))
	}
	if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
		boom := errors.New("boom")
		if _, err := k.l.Replace(context.Background(), fmt.Sprint("v", k.n), source(n, boom)); !errors.Is(err, boom) {
			t.Fatalf("failing import: %v", err)
		}
		return
	}
	view := fmt.Sprint("v", k.n)
	if _, err := k.l.Replace(context.Background(), view, source(n, io.EOF)); err != nil {
		t.Fatal(err)
	}
	k.dropFollowers(t, ErrViewReplaced)
	k.m.view, k.m.rows, k.m.message = view, map[string][]string{}, map[string][]bool{}
	for _, name := range names {
		k.m.add("", name, true)
	}
}

// check compares what every state must have in common.
func (k *machine) check(t *rapid.T) {
	h := k.l.Head()
	messages := 0
	for _, m := range k.m.message[""] {
		if m {
			messages++
		}
	}
	if h.View != k.m.view || h.Rows != int64(len(k.m.rows[""])) || h.Last != h.Rows-1 || h.Messages != int64(messages) {
		t.Fatalf("head %+v, model has %d rows, %d messages in %s", h, len(k.m.rows[""]), messages, k.m.view)
	}
}
