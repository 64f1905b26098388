package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
)

// Controllers that start on one root at the same time: one has it.
func TestControllersStartTogether(t *testing.T) {
	w := New(t)
	const n = 6
	var roles []*Role
	for range n {
		roles = append(roles, w.StartController())
	}
	var winner *Role
	Until(t, readyTimeout, "all but one have ended", func() bool {
		running := 0
		for _, r := range roles {
			select {
			case <-r.done:
			default:
				running++
				winner = r
			}
		}
		return running == 1
	})
	winner.waitReady()
	for _, r := range roles {
		if r == winner {
			continue
		}
		if code := r.Wait(); code != 3 {
			t.Errorf("a loser ended with %d, want 3\n%s", code, r.Logs())
		}
	}
	w.Must("chats", "start", "--agent", "demo", "say hello")
	// One that comes later is told who has the root.
	late := w.StartController()
	if code := late.Wait(); code != 3 {
		t.Errorf("the late one ended with %d, want 3", code)
	}
	for _, want := range []string{fmt.Sprint(winner.PID()), winner.Descriptor.URL} {
		if !strings.Contains(late.Logs(), want) {
			t.Errorf("the late one does not name %s:\n%s", want, late.Logs())
		}
	}
	w.Must("chats")
}

// gather runs n functions at once, as nearly as can be, and waits for them.
func gather(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			f(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// Each request id is accepted once, however often it is sent.
func TestStartsWithRepeatedRequestIDs(t *testing.T) {
	w := New(t)
	c := w.Controller("--log-level", "warn")
	const (
		requests = 1000
		ids      = 250
		commands = 24
	)
	var mu sync.Mutex
	chats, fresh := map[string]map[string]bool{}, map[string]int{}
	note := func(id string, a api.Accepted) {
		mu.Lock()
		defer mu.Unlock()
		if chats[id] == nil {
			chats[id] = map[string]bool{}
		}
		chats[id][a.ChatID+" "+a.TurnID] = true
		if !a.Replayed {
			fresh[id]++
		}
	}
	gather(requests, func(i int) {
		id := fmt.Sprint("request ", i%ids)
		var a api.Accepted
		err := c.Call(t.Context(), api.OpChatsStart, nil, nil, api.StartRequest{
			RequestID: id, ExecutorID: "local", Agent: "demo", ProjectPath: w.Project, Prompt: "say " + id,
		}, &a)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
		note(id, a)
	})
	// The same from processes, half of them with ids that were used.
	gather(commands, func(i int) {
		id := fmt.Sprint("request ", ids-commands/4+i%(commands/2))
		r, err := w.Run(Command{Args: []string{"chats", "start-async", "--agent", "demo", "--request-id", id, "--json", "say " + id}})
		var a api.Accepted
		if err != nil || r.Code != 0 || json.Unmarshal([]byte(r.Stdout), &a) != nil {
			t.Errorf("%s: %v %+v", id, err, r)
			return
		}
		note(id, a)
	})
	if want := ids + commands/4; len(chats) != want {
		t.Errorf("%d request ids were accepted, want %d", len(chats), want)
	}
	for id, got := range chats {
		if len(got) != 1 || fresh[id] != 1 {
			t.Errorf("%s: chats %v, %d times fresh", id, got, fresh[id])
		}
	}
	var list api.ChatList
	if err := c.Call(t.Context(), api.OpChatsList, nil, nil, nil, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Chats) != len(chats) {
		t.Errorf("the list has %d chats, want %d", len(list.Chats), len(chats))
	}
	for _, chat := range list.Chats {
		c.waitIdle(t, chat.ID)
		if n := c.count(t, chat.ID, row.KindUser); n != 1 {
			t.Errorf("chat %s has %d user rows, want 1", chat.ID, n)
		}
	}
}

// waitIdle waits until nothing runs in the chat.
func (r *Role) waitIdle(t testing.TB, chat string) {
	t.Helper()
	Until(t, commandTimeout, "chat "+chat+" is idle", func() bool {
		var control api.Control
		if err := r.Call(t.Context(), api.OpChatsControl, []string{chat}, nil, nil, &control); err != nil {
			t.Fatal(err)
		}
		return control.Phase == api.PhaseIdle && len(control.Queue.Entries) == 0
	})
}

// rows returns the newest rows of a chat.
func (r *Role) rows(t testing.TB, chat string) []row.Row {
	t.Helper()
	var page api.Page
	if err := r.Call(t.Context(), api.OpChatsPage, []string{chat}, url.Values{"max": {"500"}}, nil, &page); err != nil {
		t.Fatal(err)
	}
	var rows []row.Row
	for _, raw := range page.Rows {
		var x row.Row
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, x)
	}
	return rows
}

// count returns how many rows of a kind the chat has.
func (r *Role) count(t testing.TB, chat string, kind row.Kind) int {
	t.Helper()
	n := 0
	for _, x := range r.rows(t, chat) {
		if x.Kind() == kind {
			n++
		}
	}
	return n
}

// Many answers at once: the agent gets one, the others are told.
func TestAnswersTogether(t *testing.T) {
	w := New(t)
	c := w.Controller("--log-level", "warn")
	var a api.Accepted
	// The command goes on for a while, so that the run outlives the answers.
	if err := c.Call(t.Context(), api.OpChatsStart, nil, nil, api.StartRequest{
		RequestID: "one", ExecutorID: "local", Agent: "demo", ProjectPath: w.Project, Prompt: "run: echo ran >> count.txt; sleep 5",
	}, &a); err != nil {
		t.Fatal(err)
	}
	var control api.Control
	Until(t, readyTimeout, "the agent asks", func() bool {
		if err := c.Call(t.Context(), api.OpChatsControl, []string{a.ChatID}, nil, nil, &control); err != nil {
			t.Fatal(err)
		}
		return len(control.Pending) == 1
	})
	pending := control.Pending[0]
	const answers = 1000
	var mu sync.Mutex
	outcomes := map[string]int{}
	gather(answers, func(i int) {
		req := api.DecideRequest{RunID: pending.RunID, ControlID: pending.ControlID, Decision: row.AllowOnce}
		if i%2 == 1 {
			req.Decision = row.AllowSession
		}
		var done api.Resolved
		err := c.Call(t.Context(), api.OpDecide, []string{a.ChatID, pending.Occurrence}, nil, req, &done)
		result := done.Outcome
		if refusal, ok := errors.AsType[*api.Error](err); ok {
			result = string(refusal.Code)
		} else if err != nil {
			result = err.Error()
		}
		mu.Lock()
		outcomes[result]++
		mu.Unlock()
	})
	if outcomes["delivered"] != 1 || outcomes[string(api.CodeAlreadyResolved)] != answers-1 {
		t.Errorf("outcomes %v, want 1 delivered and %d already resolved", outcomes, answers-1)
	}
	c.waitIdle(t, a.ChatID)
	if data, err := os.ReadFile(filepath.Join(w.Project, "count.txt")); err != nil || string(data) != "ran\n" {
		t.Errorf("the command ran: %q %v", data, err)
	}
	if n := c.count(t, a.ChatID, row.KindPermissionResolved); n != 1 {
		t.Errorf("%d resolutions in the transcript", n)
	}
}

// Many messages to one chat at once: each is sent once, in the order of
// acceptance.
func TestMessagesTogether(t *testing.T) {
	w := New(t)
	c := w.Controller("--log-level", "warn")
	var a api.Accepted
	if err := c.Call(t.Context(), api.OpChatsStart, nil, nil, api.StartRequest{
		RequestID: "first", ExecutorID: "local", Agent: "demo", ProjectPath: w.Project, Prompt: "say first",
	}, &a); err != nil {
		t.Fatal(err)
	}
	const messages = 60
	gather(2*messages, func(i int) {
		id := fmt.Sprint("message ", i%messages)
		err := c.Call(t.Context(), api.OpChatsSubmit, []string{a.ChatID}, nil, api.SubmitRequest{
			RequestID: id, Prompt: "say " + id, Busy: api.BusyQueue,
		}, nil)
		if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	})
	begin := time.Now()
	c.waitIdle(t, a.ChatID)
	t.Logf("%d turns took %s", messages, time.Since(begin))
	seen := map[string]int{}
	for _, x := range c.rows(t, a.ChatID) {
		if u, ok := x.Body.(*row.User); ok {
			seen[u.Text]++
		}
	}
	for i := range messages {
		if n := seen[fmt.Sprint("say message ", i)]; n != 1 {
			t.Errorf("message %d is in the transcript %d times", i, n)
		}
	}
}
