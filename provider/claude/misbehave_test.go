package claude

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// patience is how long a test waits for something that has to come.
const patience = 30 * time.Second

// stage is an adapter whose program is a fake.
type stage struct {
	t       testing.TB
	a       *adapter
	dir     string
	project string
}

func newStage(t *testing.T, name string, change func(*waits)) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), project: t.TempDir()}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, fakeVariable + "=" + name, fakeDirVariable + "=" + s.dir}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	procs, err := provider.NewProcesses(provider.ProcessesOptions{StateDir: t.TempDir(), Env: env, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := procs.Close(ctx); err != nil {
			t.Errorf("close processes: %v", err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(provider.Host{Log: log, Processes: procs, StateDir: t.TempDir(), Env: env}, Options{Program: self})
	if err != nil {
		t.Fatal(err)
	}
	s.a = a.(*adapter)
	s.a.waits.exit, s.a.waits.term = 200*time.Millisecond, 200*time.Millisecond
	if change != nil {
		change(&s.a.waits)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Errorf("close adapter: %v", err)
		}
	})
	return s
}

// until waits until a condition holds.
func (s *stage) until(what string, cond func() bool) {
	s.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			s.t.Errorf("no %s in %s; the fakes said %q", what, patience, s.notes())
			return
		}
	}
}

// waitNotes waits until the fakes have told so much.
func (s *stage) waitNotes(n int) []string {
	s.t.Helper()
	s.until("note", func() bool { return len(s.notes()) >= n })
	return s.notes()
}

func (s *stage) notes() []string {
	data, err := os.ReadFile(filepath.Join(s.dir, "notes"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// sink is a binding and a run in one: what a single run of a test needs.
type sink struct {
	t     testing.TB
	spec  exec.BindingSpec
	mu    sync.Mutex
	rows  []row.Row
	asks  chan provider.Respond
	ended chan exec.Terminal
}

func newSink(t testing.TB) *sink {
	return &sink{t: t, asks: make(chan provider.Respond, 10), ended: make(chan exec.Terminal, 10)}
}

func (s *sink) Spec() exec.BindingSpec                     { return s.spec }
func (s *sink) Begin(string, provider.Active) provider.Run { return s }
func (s *sink) Jobs([]exec.Job)                            {}
func (s *sink) Session(exec.Session)                       {}
func (s *sink) ID() string                                 { return "run" }
func (s *sink) TurnID() string                             { return "turn" }
func (s *sink) Live(row.Live)                              {}
func (s *sink) Withdraw(string)                            {}
func (s *sink) Finish(t exec.Terminal)                     { s.ended <- t }

func (s *sink) Ask(_ row.Row, respond provider.Respond) { s.asks <- respond }

func (s *sink) Rows(rows ...row.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		r = r.Clean()
		if _, err := r.Encode(); err != nil {
			s.t.Errorf("row cannot be encoded: %v", err)
		}
		s.rows = append(s.rows, r)
	}
}

func (s *sink) brief() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Brief(s.rows)
}

func (s *sink) wait() exec.Terminal {
	s.t.Helper()
	select {
	case t := <-s.ended:
		return t
	case <-time.After(patience):
		s.t.Fatalf("the run did not end; rows:\n%s", s.brief())
		return exec.Terminal{}
	}
}

// open opens a conversation that ends with the test.
func (s *stage) open(b provider.Binding) *conversation {
	c := newConversation(s.a, b)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			s.t.Errorf("close conversation: %v", err)
		}
	})
	return c
}

func (s *stage) launch(c *conversation, out *sink) (provider.Active, error) {
	return c.Launch(s.t.Context(), exec.Launch{ProjectPath: s.project, Prompt: exec.Prompt{Text: "hi"}}, out)
}

// must launches and fails the test when that does not work.
func (s *stage) must(c *conversation, out *sink) provider.Active {
	s.t.Helper()
	active, err := s.launch(c, out)
	if err != nil {
		s.t.Fatalf("launch: %v (%+v)", err, exec.AsError(err))
	}
	return active
}

func TestStartFailures(t *testing.T) {
	for _, tt := range []struct {
		fake string
		code exec.Code
		says string
	}{
		{"root", exec.CodeInvalid, "root"},
		{"gone", exec.CodeSessionMissing, "conversation"},
		{"new option", exec.CodeAgentVersion, "option"},
		{"broken", exec.CodeAgentCrashed, "exit status 3"},
		{"old", exec.CodeAgentVersion, "1.0.17"},
	} {
		t.Run(tt.fake, func(t *testing.T) {
			s := newStage(t, tt.fake, nil)
			out := newSink(t)
			_, err := s.launch(s.open(out), out)
			e := exec.AsError(err)
			if e == nil || e.Code != tt.code || e.Dispatched != exec.NotDispatched || !strings.Contains(e.Message, tt.says) {
				t.Fatalf("%+v", e)
			}
			if tt.fake == "broken" && !strings.Contains(e.Detail, "Segmentation fault") {
				t.Errorf("detail %q", e.Detail)
			}
		})
	}
}

func TestNoAnswerAtStart(t *testing.T) {
	s := newStage(t, "silent", func(w *waits) { w.start = 100 * time.Millisecond })
	out := newSink(t)
	_, err := s.launch(s.open(out), out)
	if e := exec.AsError(err); e == nil || e.Code != exec.CodeAgentTimeout || e.Dispatched != exec.NotDispatched {
		t.Errorf("%+v", e)
	}
}

func TestStartGivenUp(t *testing.T) {
	s := newStage(t, "silent", nil)
	out := newSink(t)
	c := s.open(out)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.waitNotes(1)
		cancel()
	}()
	_, err := c.Launch(ctx, exec.Launch{ProjectPath: s.project, Prompt: exec.Prompt{Text: "hi"}}, out)
	if exec.CodeOf(err) != exec.CodeCancelled {
		t.Errorf("%v", err)
	}
}

func TestMessageNotTaken(t *testing.T) {
	s := newStage(t, "mute", func(w *waits) { w.taken = 100 * time.Millisecond })
	out := newSink(t)
	_, err := s.launch(s.open(out), out)
	if e := exec.AsError(err); e == nil || e.Code != exec.CodeAgentTimeout || e.Dispatched != exec.MaybeDispatched {
		t.Errorf("%+v", e)
	}
}

func TestInputNotRead(t *testing.T) {
	s := newStage(t, "not reading", nil)
	out := newSink(t)
	c := s.open(out)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		s.until("message", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.run != nil && len(c.run.subs) > 0 && len(c.run.proc.out) == 0
		})
	}()
	// More than a pipe holds.
	_, err := c.Launch(ctx, exec.Launch{ProjectPath: s.project, Prompt: exec.Prompt{Text: strings.Repeat("x", 4<<20)}}, out)
	if e := exec.AsError(err); e == nil || e.Code != exec.CodeCancelled {
		t.Errorf("%+v", e)
	}
}

func TestCrashInTurn(t *testing.T) {
	s := newStage(t, "crash", nil)
	out := newSink(t)
	s.must(s.open(out), out)
	end := out.wait()
	e := end.Error
	if end.Phase != row.RunFailed || e.Code != exec.CodeAgentCrashed || e.Dispatched != exec.WasDispatched {
		t.Fatalf("%s %+v", end.Phase, e)
	}
	if !strings.HasSuffix(e.Detail, "the reason") || len(e.Detail) > exec.MaxErrorDetail || !strings.Contains(e.Message, "7") {
		t.Errorf("%q: %d bytes of detail", e.Message, len(e.Detail))
	}
	if got := out.brief(); got != "assistant \"half\"\n" {
		t.Error(got)
	}
}

func TestNoise(t *testing.T) {
	s := newStage(t, "noise", nil)
	out := newSink(t)
	c := s.open(out)
	s.must(c, out)
	if end := out.wait(); end.Phase != row.RunCompleted {
		t.Fatalf("%s %+v", end.Phase, end.Error)
	}
	got := out.brief()
	if strings.Count(got, "notice AGENT_OUTPUT") != 1 {
		t.Errorf("one notice for all noise was expected: %s", got)
	}
	// What cannot be stored is replaced, the rest of the line is kept.
	if !strings.HasSuffix(got, "assistant \"done \ufffd \ufffd \ufffd\ufffd\ufffd\" final\n") {
		t.Error(got)
	}
}

func TestBigLine(t *testing.T) {
	s := newStage(t, "big", nil)
	out := newSink(t)
	s.must(s.open(out), out)
	if end := out.wait(); end.Phase != row.RunCompleted {
		t.Fatalf("%s %+v", end.Phase, end.Error)
	}
	if len(out.rows) != 2 {
		t.Fatalf("%d rows", len(out.rows))
	}
	text := out.rows[0].Body.(*row.Assistant).Text
	if !strings.HasPrefix(text, "0123456789abcdef") || !strings.Contains(text[len(text)-100:], "16777216") {
		t.Errorf("the text of %d bytes ends %q", len(text), text[len(text)-100:])
	}
}

func TestStopThatIsNotHeard(t *testing.T) {
	for name, change := range map[string]func(*waits){
		"deaf":       func(w *waits) { w.receipt = 50 * time.Millisecond },
		"obeys late": func(w *waits) { w.settle = 50 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, name, change)
			out := newSink(t)
			c := s.open(out)
			active := s.must(c, out)
			if err := active.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			if end := out.wait(); end.Phase != row.RunInterrupted || end.Error != nil {
				t.Errorf("%s %+v", end.Phase, end.Error)
			}
			if err := active.Steer(t.Context(), exec.Steer{ID: "s", Prompt: exec.Prompt{Text: "x"}}); exec.CodeOf(err) != exec.CodeNotSteerable {
				t.Errorf("steer: %v", err)
			}
		})
	}
}

func TestAnswerNotConfirmed(t *testing.T) {
	s := newStage(t, "asks", func(w *waits) { w.answer = 50 * time.Millisecond })
	out := newSink(t)
	c := s.open(out)
	active := s.must(c, out)
	respond := <-out.asks
	err := respond(t.Context(), exec.Answer{OptionID: optionAllow})
	if e := exec.AsError(err); e == nil || e.Code != exec.CodeOutcomeUnknown || e.Dispatched != exec.MaybeDispatched {
		t.Errorf("%+v", e)
	}
	// What is not understood is refused, so that nobody waits.
	if notes := s.waitNotes(1); notes[0] != "answer to req-2: error" {
		t.Errorf("%q", notes)
	}
	if err := active.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	out.wait()
}

func TestRefusedMessage(t *testing.T) {
	s := newStage(t, "refuses", nil)
	out := newSink(t)
	s.must(s.open(out), out)
	end := out.wait()
	if end.Phase != row.RunFailed || end.Error.Code != exec.CodeAgentProtocol {
		t.Errorf("%s %+v", end.Phase, end.Error)
	}
}

func TestBusyConversation(t *testing.T) {
	s := newStage(t, "obeys late", nil)
	out := newSink(t)
	c := s.open(out)
	s.must(c, out)
	_, err := s.launch(c, newSink(t))
	if e := exec.AsError(err); e == nil || e.Code != exec.CodeSessionBusy || e.Dispatched != exec.NotDispatched {
		t.Errorf("%+v", e)
	}
}

func TestIdleProcessIsEnded(t *testing.T) {
	s := newStage(t, "ok", func(w *waits) { w.idle = 20 * time.Millisecond })
	out := newSink(t)
	c := s.open(out)
	s.must(c, out)
	out.wait()
	s.until("end of the process", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.proc == nil
	})
	// The next run starts another.
	s.must(c, out)
	if end := out.wait(); end.Phase != row.RunCompleted {
		t.Errorf("%s %+v", end.Phase, end.Error)
	}
}

func TestProcessDiedBetweenRuns(t *testing.T) {
	s := newStage(t, "dies idle", nil)
	out := newSink(t)
	c := s.open(out)
	s.must(c, out)
	out.wait()
	s.waitNotes(1)
	s.must(c, out)
	if end := out.wait(); end.Phase != row.RunCompleted {
		t.Errorf("%s %+v", end.Phase, end.Error)
	}
}

func TestFewStartAtOnce(t *testing.T) {
	s := newStage(t, "gate", nil)
	const chats = maxStarting + 3
	var wg sync.WaitGroup
	for range chats {
		out := newSink(t)
		c := s.open(out)
		wg.Go(func() {
			if _, err := s.launch(c, out); err != nil {
				t.Error(err)
				return
			}
			out.wait()
		})
	}
	if notes := s.waitNotes(maxStarting); len(notes) != maxStarting {
		t.Errorf("%d processes start at once", len(notes))
	}
	if len(s.a.starting) != maxStarting {
		t.Errorf("%d slots are taken", len(s.a.starting))
	}
	if err := os.WriteFile(filepath.Join(s.dir, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if notes := s.notes(); len(notes) != chats {
		t.Errorf("%d processes were started, want %d", len(notes), chats)
	}
}

func TestCloseDuringStart(t *testing.T) {
	s := newStage(t, "silent", nil)
	out := newSink(t)
	c := newConversation(s.a, out)
	failed := make(chan error, 1)
	go func() {
		_, err := s.launch(c, out)
		failed <- err
	}()
	s.waitNotes(1)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the launch worked")
	}
}
