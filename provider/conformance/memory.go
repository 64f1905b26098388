package conformance

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// remember is a first prompt that holds a word nobody can guess.
func (s Subject) remember() (prompt, word string) {
	word = "word-" + uuid.NewString()
	return s.Say + "\n" + word, word
}

// recalls runs a turn in which the agent quotes the start of the conversation.
func (c *chat) recalls(what, word string) {
	c.t.Helper()
	if got := c.turn(c.s.Recall).text(); !strings.Contains(got, word) {
		c.t.Errorf("%s: asked how the conversation began, it answered %q without %s", what, got, word)
	}
}

// testMemory asks for what was said before at every way to go on.
func testMemory(t *testing.T, s Subject) {
	if s.Recall == "" {
		t.Fatal("the subject has no Recall")
	}
	c := openChat(t, s)
	prompt, word := s.remember()
	c.turn(prompt)
	c.recalls("in the same binding", word)
	stranger := openChat(t, s)
	other, otherWord := s.remember()
	stranger.turn(other)
	if got := stranger.turn(s.Recall).text(); strings.Contains(got, word) || !strings.Contains(got, otherWord) {
		t.Errorf("another chat began with %q", got)
	}
	c.close()
	c.open()
	c.recalls("in a new binding", word)
	if c.in.Forking != nil {
		fork, err := c.in.Forking.Fork(limited(t), exec.Fork{ProjectPath: s.ProjectPath, NativeSession: c.session})
		if err != nil {
			t.Fatal(err)
		}
		branch := openChat(t, s)
		branch.session = fork
		branch.recalls("in a fork", word)
	}
	s.Runtime = s.Restart(t)
	after := &chat{t: t, s: s, in: s.integration(t), id: c.id, session: c.session, said: c.said, runs: c.runs}
	after.open()
	after.recalls("in a new instance of the runtime", word)
}

const (
	// floodWatch is how long the memory is watched while nothing is taken.
	floodWatch = time.Second
	// floodSample is how often.
	floodSample = 50 * time.Millisecond
	// floodLimit bounds what an agent in full flow may have waiting, in bytes:
	// a stream's bound, one row of the largest size that is over it, and what
	// the agent itself holds of that row.
	floodLimit = 32 << 20
)

// testFlood lets the agent say more than memory should hold while nobody takes
// it.
func testFlood(t *testing.T, s Subject) {
	if s.Flood == "" {
		t.Skip("the agent itself bounds what it says at once")
	}
	if s.FloodBytes < 3*floodLimit/2 {
		t.Fatalf("a flood has at least %d bytes", 3*floodLimit/2)
	}
	c := openChat(t, s)
	before := heap()
	c.sink.hold()
	r, err := c.launch(c.prepare(s.Flood))
	if err != nil {
		t.Fatal(err)
	}
	var most uint64
	tick := time.NewTicker(floodSample)
	defer tick.Stop()
	for deadline := time.Now().Add(floodWatch); time.Now().Before(deadline); <-tick.C {
		most = max(most, heap())
	}
	if most > before+floodLimit {
		t.Errorf("%d MiB wait for a controller that takes nothing", (most-before)>>20)
	}
	c.sink.release()
	r.completes()
	size := 0
	for _, one := range r.rows() {
		if a, ok := one.Body.(*row.Assistant); ok {
			size += len(a.Text)
		}
	}
	if size < s.FloodBytes {
		t.Errorf("%d bytes came, want at least %d", size, s.FloodBytes)
	}
}

// heap returns how much memory is in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
