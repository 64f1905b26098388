package claude_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
	"garcon/provider/claude"
)

// agentsVariable names a directory with the pinned agents.
const agentsVariable = "GARCON_E2E_AGENTS"

// cli is one shape of the program.
type cli struct {
	name string
	path string
	// lifecycle says that it reports the life of messages.
	lifecycle bool
}

// clis returns the programs to test with. Without them a test is skipped, in CI
// it fails.
func clis(t testing.TB) []cli {
	t.Helper()
	dir := os.Getenv(agentsVariable)
	if dir == "" {
		const hint = "needs the real agents: npm ci --prefix e2e/agents, then GARCON_E2E_AGENTS=$PWD/e2e/agents"
		if os.Getenv("CI") == "true" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	all := []cli{
		{name: "332", path: "node_modules/.bin/claude", lifecycle: true},
		{name: "197", path: "node_modules/claude-code-197/bin/claude.exe"},
	}
	for i := range all {
		all[i].path = filepath.Join(dir, all[i].path)
		if _, err := os.Stat(all[i].path); err != nil {
			t.Fatalf("%s does not have the agents: %v", agentsVariable, err)
		}
	}
	return all
}

// each runs a test with every program.
func each(t *testing.T, f func(t *testing.T, c cli)) {
	for _, c := range clis(t) {
		t.Run(c.name, func(t *testing.T) { f(t, c) })
	}
}

// world is a machine with one program, one project and a scripted model.
type world struct {
	t       *testing.T
	cli     cli
	home    string
	config  string
	project string
	env     []string
	model   *model.Server
	log     *slog.Logger
	procs   *provider.Processes
	adapter provider.Adapter
}

// newWorld makes a world. Entries of extra replace variables; an entry without
// "=" takes the variable out.
func newWorld(t *testing.T, c cli, script model.Script, extra ...string) *world {
	t.Helper()
	// Short paths: the program makes sockets below its temporary directory.
	home, err := os.MkdirTemp("", "gcl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	w := &world{t: t, cli: c, home: home, config: filepath.Join(home, "cfg"), project: filepath.Join(home, "proj"), model: model.Start(t, script)}
	for _, dir := range []string{w.config, w.project, filepath.Join(home, "tmp"), filepath.Join(home, "state")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"),
		"CLAUDE_CONFIG_DIR=" + w.config, "ANTHROPIC_BASE_URL=" + w.model.URL(), "ANTHROPIC_API_KEY=key-of-the-test",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=1",
	}
	for _, e := range extra {
		name, _, set := strings.Cut(e, "=")
		kept := w.env[:0:0]
		for _, old := range w.env {
			if !strings.HasPrefix(old, name+"=") {
				kept = append(kept, old)
			}
		}
		if w.env = kept; set {
			w.env = append(w.env, e)
		}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.procs, err = provider.NewProcesses(provider.ProcessesOptions{StateDir: filepath.Join(home, "procs"), Env: w.env, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := w.procs.Close(ctx); err != nil {
			t.Errorf("close processes: %v", err)
		}
	})
	w.log = log
	w.adapter, err = claude.New(w.host(), claude.Options{Program: c.path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.adapter.Close(context.Background()); err != nil {
			t.Errorf("close adapter: %v", err)
		}
	})
	return w
}

func (w *world) host() provider.Host {
	return provider.Host{Log: w.log, Processes: w.procs, StateDir: filepath.Join(w.home, "state"), Env: w.env}
}

// chat is a conversation with its recorder.
type chat struct {
	w    *world
	t    *testing.T
	rec  *recorder
	conv provider.Conversation
	// launch is what every launch begins as.
	launch exec.Launch
	closed bool
}

func (w *world) chat() *chat {
	w.t.Helper()
	c := &chat{w: w, t: w.t, rec: newRecorder(w.t, w.project)}
	conv, err := w.adapter.Facets().Execution.Open(c.rec)
	if err != nil {
		w.t.Fatal(err)
	}
	c.conv = conv
	c.launch = exec.Launch{ChatID: "chat-1", ProjectPath: w.project, Mode: "default"}
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Log("published:\n" + c.rec.dump())
		}
		c.close()
	})
	return c
}

func (c *chat) close() {
	c.t.Helper()
	if c.closed {
		return
	}
	c.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := c.conv.Close(ctx); err != nil {
		c.t.Errorf("close conversation: %v", err)
	}
}

// try launches a prompt in the session as last published.
func (c *chat) try(ctx context.Context, p exec.Prompt) (*recordedRun, error) {
	c.t.Helper()
	l := c.launch
	l.Prompt = p
	if id := c.rec.currentSession().ID; id != "" {
		l.NativeSession = id
	}
	run := c.rec.newRun()
	l.RunID, l.TurnID = run.id, run.TurnID()
	active, err := c.conv.Launch(ctx, l, run)
	run.active = active
	return run, err
}

// start launches a prompt and fails the test when that does not work.
func (c *chat) start(text string) *recordedRun {
	c.t.Helper()
	run, err := c.try(c.t.Context(), exec.Prompt{Text: text})
	if err != nil {
		c.t.Fatalf("launch %q: %v (%+v)", text, err, exec.AsError(err))
	}
	return run
}

// say launches a prompt and waits for its completion.
func (c *chat) say(text string) *recordedRun {
	c.t.Helper()
	run := c.start(text)
	c.wantEnd(run, row.RunCompleted)
	return run
}

func (c *chat) wantEnd(run *recordedRun, phase row.Phase) exec.Terminal {
	c.t.Helper()
	end := c.rec.waitEnd(run)
	if end.Phase != phase {
		c.t.Fatalf("run ended %s (%+v), want %s", end.Phase, end.Error, phase)
	}
	return end
}

func (c *chat) wantFailure(run *recordedRun, code exec.Code) *exec.Error {
	c.t.Helper()
	end := c.wantEnd(run, row.RunFailed)
	if end.Error.Code != code {
		c.t.Fatalf("run failed with %s (%s), want %s", end.Error.Code, end.Error.Message, code)
	}
	return end.Error
}

func (c *chat) abort(run *recordedRun) {
	c.t.Helper()
	if err := run.active.Abort(c.t.Context()); err != nil {
		c.t.Fatalf("abort: %v", err)
	}
}

func (c *chat) steer(run *recordedRun, text string) error {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitTimeout)
	defer cancel()
	return run.active.Steer(ctx, exec.Steer{ID: uuid.NewString(), Prompt: exec.Prompt{Text: text}})
}

// brief renders rows for comparison.
func brief(rows []row.Row) string { return claude.Brief(rows) }

// text makes a step that answers a text.
func text(s string) model.Step { return model.Step{Blocks: []model.Block{{Text: s}}} }

// call makes a step that calls a tool.
func call(id, name string, input any) model.Step {
	return model.Step{Blocks: []model.Block{{Tool: &model.Tool{ID: id, Name: name, Input: input}}}}
}

type object = map[string]any

func script(steps ...model.Step) model.Script { return model.Script{Steps: steps} }
