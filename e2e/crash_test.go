package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"garcon/proto/api"
)

// maxKillDelay is the latest moment of a turn at which the controller is
// killed: a turn of crashPrompt takes about as long.
const maxKillDelay = 700 * time.Millisecond

// crashPrompt is a turn with every kind of row and process. Its commands run
// unasked in bypass mode.
const crashPrompt = "think: about it\nsay one\nrun: sleep 0.1; echo a\nwrite file.txt: text\nburst 150\nslowly say a longer answer that streams\nrun: sleep 0.2\nsay end"

// The controller is killed at random moments. What a follower had been shown is
// there afterwards, once; no process is left; the chat takes the next turn.
func TestKilledAtAnyMoment(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 8
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GARCON_E2E_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("repeat with GARCON_E2E_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	w := New(t)
	c := w.Controller("--log-level", "warn")
	var first struct{ ChatID string }
	if err := json.Unmarshal([]byte(w.Must("chats", "start", "--agent", "demo", "--permissions", "bypass", "--json", "say first")), &first); err != nil {
		t.Fatal(err)
	}
	shown := map[int64]string{}
	followed, cut := 0, 0
	for n := range kills {
		follower := w.follow(first.ChatID)
		var accepted api.Accepted
		err := c.Call(t.Context(), api.OpChatsSubmit, []string{first.ChatID}, nil, api.SubmitRequest{
			RequestID: fmt.Sprint("turn ", n), Prompt: crashPrompt, Busy: api.BusyReject,
		}, &accepted)
		if err != nil {
			t.Fatalf("after %d kills the chat takes no turn: %v", n, err)
		}
		delay := time.Duration(random.Int64N(int64(maxKillDelay)))
		<-time.After(delay)
		c.Kill()
		ended := false
		for ordinal, row := range follower.rows(t) {
			before, known := shown[ordinal]
			if known && before != row {
				t.Fatalf("kill %d after %s: row %d was shown as\n%s\nand as\n%s", n, delay, ordinal, before, row)
			}
			if !known {
				followed++
				ended = ended || strings.Contains(row, `"phase":"completed"`)
			}
			shown[ordinal] = row
		}
		if !ended {
			cut++
		}
		if left := w.WaitNothingLeft(); len(left) > 0 {
			t.Fatalf("kill %d after %s leaves processes: %v", n, delay, left)
		}
		c = w.Controller("--log-level", "warn")
		checkShown(t, c, first.ChatID, shown)
		if t.Failed() {
			t.Fatalf("after kill %d at %s", n, delay)
		}
	}
	t.Logf("%d rows were followed; %d of %d kills came before the end of the turn", followed, cut, kills)
	if followed < 10*kills || cut < kills/2 {
		t.Error("the kills come too early or too late to mean anything")
	}
	if out := w.Must("chats", "resume", first.ChatID, "say the last word"); !strings.HasSuffix(out, "the last word\n") {
		t.Errorf("the last turn says %q", out)
	}
	w.Must("doctor")
}

// checkShown fails unless the transcript holds each row that was shown, and
// every ordinal once.
func checkShown(t *testing.T, c *Role, chat string, shown map[int64]string) {
	t.Helper()
	var all []json.RawMessage
	before, through := int64(-1), int64(-1)
	for {
		query := url.Values{"max": {"500"}, "before": {strconv.FormatInt(before, 10)}, "through": {strconv.FormatInt(through, 10)}}
		var page api.Page
		if err := c.Call(t.Context(), api.OpChatsPage, []string{chat}, query, nil, &page); err != nil {
			t.Fatal(err)
		}
		all = slices.Concat(page.Rows, all)
		through = page.Through
		if !page.HasMore {
			break
		}
		before = ordinalOf(t, page.Rows[0])
	}
	for n, row := range all {
		ordinal := ordinalOf(t, row)
		if ordinal != int64(n) {
			t.Errorf("row %d of the transcript has ordinal %d", n, ordinal)
			return
		}
		if want, ok := shown[ordinal]; ok && want != compact(t, row) {
			t.Errorf("row %d was shown as\n%s\nand is now\n%s", ordinal, want, row)
		}
		delete(shown, ordinal)
		shown[ordinal] = compact(t, row)
	}
	for ordinal, row := range shown {
		if ordinal >= int64(len(all)) {
			t.Errorf("row %d was shown and is gone: %s", ordinal, row)
		}
	}
}

func ordinalOf(t testing.TB, row json.RawMessage) int64 {
	t.Helper()
	var head struct{ Ordinal int64 }
	if err := json.Unmarshal(row, &head); err != nil {
		t.Fatal(err)
	}
	return head.Ordinal
}

func compact(t testing.TB, row json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, row); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// follower is a garcon chats watch in a process of its own.
type follower struct {
	cmd    *exec.Cmd
	stdout *logBuffer
	done   chan struct{}
}

// follow starts following a chat from its newest message on and waits until it
// does.
func (w *World) follow(chat string) *follower {
	w.t.Helper()
	f := &follower{cmd: exec.Command(w.binary, "chats", "watch", "--json", chat), stdout: &logBuffer{}, done: make(chan struct{})}
	f.cmd.Env, f.cmd.Dir, f.cmd.Stdout = w.Env(), w.Home, f.stdout
	if err := f.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = f.cmd.Wait()
		close(f.done)
	}()
	w.t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-f.done
	})
	Until(w.t, readyTimeout, "the follower follows", func() bool { return strings.Contains(f.stdout.String(), `"type":"control"`) })
	return f
}

// rows waits for the follower's end and returns the rows it printed. A line
// that the end of the controller cut off was not shown.
func (f *follower) rows(t *testing.T) map[int64]string {
	t.Helper()
	select {
	case <-f.done:
	case <-time.After(stopTimeout):
		t.Fatal("the follower did not notice that the controller is gone")
	}
	if code := f.cmd.ProcessState.ExitCode(); code != 3 {
		t.Errorf("the follower ended with %d, want 3", code)
	}
	rows := map[int64]string{}
	for line := range strings.Lines(f.stdout.String()) {
		var event struct {
			Type string
			Row  json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("the follower printed %q: %v", line, err)
		}
		if event.Type != "row" {
			continue
		}
		ordinal := ordinalOf(t, event.Row)
		if _, ok := rows[ordinal]; ok {
			t.Errorf("row %d was shown twice", ordinal)
		}
		rows[ordinal] = compact(t, event.Row)
	}
	return rows
}
