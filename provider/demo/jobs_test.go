package demo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider/demo"
)

// stream is a sink that hands its events to the test.
type stream chan exec.Event

func (s stream) Publish(e exec.Event) { s <- e }

// next returns the next event that fits.
func (s stream) next(t testing.TB, what string, fits func(exec.Event) bool) exec.Event {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case e := <-s:
			if fits(e) {
				return e
			}
		case <-limit:
			t.Fatalf("%s did not come", what)
		}
	}
}

// startAgent opens a binding in which the agent may do anything unasked, and
// returns how to launch a prompt there.
func startAgent(t testing.TB, project string) (s stream, launch func(prompt string), closeBinding func()) {
	t.Helper()
	in, err := newRuntime(t, t.TempDir()).Integration(t.Context(), demo.ID)
	if err != nil {
		t.Fatal(err)
	}
	s = make(stream, 1<<16)
	binding, err := in.Execution.OpenBinding(t.Context(), exec.BindingSpec{ChatID: "chat", ProjectPath: project}, s)
	if err != nil {
		t.Fatal(err)
	}
	session, n := "", 0
	launch = func(prompt string) {
		t.Helper()
		n++
		l := exec.Launch{
			Binding: binding, ChatID: "chat", TurnID: fmt.Sprint("turn", n), RunID: fmt.Sprint("run", n),
			NativeSession: session, ProjectPath: project, Mode: "bypass", Prompt: exec.Prompt{Text: prompt},
		}
		start := in.Execution.Start
		if session != "" {
			start = in.Execution.Resume
		}
		if _, err := start(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		if session == "" {
			session = s.next(t, "the session", func(e exec.Event) bool { return e.Session != nil }).Session.ID
		}
	}
	return s, launch, func() {
		t.Helper()
		if err := in.Execution.CloseBinding(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
	}
}

func ended(e exec.Event) bool { return e.Terminal != nil }

func TestBackgroundCommand(t *testing.T) {
	project := t.TempDir()
	s, launch, closeBinding := startAgent(t, project)
	launch("background: while ! test -e go; do sleep 0.05; done; echo the-output")
	jobs := s.next(t, "the list of jobs", func(e exec.Event) bool { return e.Jobs != nil }).Jobs.Jobs
	if len(jobs) != 1 || jobs[0].Kind != "command" || !strings.Contains(jobs[0].Title, "while") {
		t.Errorf("jobs %+v", jobs)
	}
	s.next(t, "the terminal", ended)
	if err := os.WriteFile(filepath.Join(project, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if jobs := s.next(t, "the end of the job", func(e exec.Event) bool { return e.Jobs != nil }).Jobs.Jobs; len(jobs) != 0 {
		t.Errorf("jobs %+v", jobs)
	}
	launched := s.next(t, "a turn of the agent's own", func(e exec.Event) bool { return e.Launched != nil }).Launched
	if !launched.Unsolicited || launched.Reason == "" {
		t.Errorf("launched %+v", launched)
	}
	told := s.next(t, "the news", func(e exec.Event) bool { return len(e.Rows) > 0 }).Rows[0]
	if a, ok := told.Body.(*row.Assistant); !ok || !strings.Contains(a.Text, "the-output") || !a.Final {
		t.Errorf("told %+v", told.Body)
	}
	s.next(t, "the terminal", ended)

	// One that does not end ends with the binding.
	launch("background: echo $$ > pid; exec sleep 1000")
	s.next(t, "the terminal", ended)
	pid := waitPID(t, filepath.Join(project, "pid"))
	closeBinding()
	if st, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(st), ") Z ") {
		t.Errorf("the background command outlived its binding: %s", st)
	}
}

// waitPID reads a file that a process is about to write.
func waitPID(t testing.TB, path string) int {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s did not come", path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			return pid
		}
	}
}

func TestCommandResults(t *testing.T) {
	s, launch, _ := startAgent(t, t.TempDir())
	for command, want := range map[string]struct {
		status row.ToolStatus
		code   int
		output string
		stderr string
	}{
		"echo out; echo err >&2; exit 3":          {row.ToolFailed, 3, "out\n", "err"},
		"printf 'no line feed'":                   {row.ToolCompleted, 0, "no line feed", ""},
		`printf 'bad \377\000 bytes'`:             {row.ToolCompleted, 0, "bad \uFFFD\uFFFD bytes", ""},
		"cat":                                     {row.ToolCompleted, 0, "", ""},
		"head -c 20000000 /dev/zero | tr '\\0' x": {row.ToolCompleted, 0, strings.Repeat("x", 256<<10), ""},
	} {
		launch("run: " + command)
		e := s.next(t, "the result", func(e exec.Event) bool {
			return len(e.Rows) > 0 && e.Rows[0].Kind() == row.KindToolResult
		})
		r := e.Rows[0].Body.(*row.ToolResult)
		if r.Status != want.status || r.ExitCode == nil || *r.ExitCode != want.code || r.Output != want.output || r.Stderr != want.stderr {
			t.Errorf("%q gave %s, %v, %.40q, %q", command, r.Status, r.ExitCode, r.Output, r.Stderr)
		}
		if r.Truncated != (len(want.output) == 256<<10) || r.Truncated && r.FullSize != 20_000_000 {
			t.Errorf("%q: truncated %v of %d", command, r.Truncated, r.FullSize)
		}
		s.next(t, "the terminal", ended)
	}
}

// BenchmarkBurst measures rows from the agent through the runtime to a sink.
func BenchmarkBurst(b *testing.B) {
	s, launch, _ := startAgent(b, b.TempDir())
	launch("say x")
	s.next(b, "the terminal", ended)
	b.ResetTimer()
	launch(fmt.Sprintf("burst %d", b.N))
	s.next(b, "the terminal", ended)
}

// BenchmarkTurn measures a whole turn.
func BenchmarkTurn(b *testing.B) {
	s, launch, _ := startAgent(b, b.TempDir())
	for b.Loop() {
		launch("say pong")
		s.next(b, "the terminal", ended)
	}
}
