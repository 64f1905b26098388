package claude_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/provider"
	"garcon/provider/claude"
)

func TestCatalog(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("unused")))
		commands := filepath.Join(w.project, ".claude", "commands")
		if err := os.MkdirAll(commands, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(commands, "ship-it.md"), []byte("---\ndescription: Ships it\nargument-hint: <where>\n---\nShip to $ARGUMENTS"), 0o600); err != nil {
			t.Fatal(err)
		}
		f := w.adapter.Facets()
		// Many ask at once; one process answers all.
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				models, err := f.Catalog.Models(t.Context(), w.project, nil)
				if err != nil {
					t.Error(err)
					return
				}
				i := slices.IndexFunc(models, func(m exec.Model) bool { return m.Default })
				if i < 0 || len(models) < 3 || models[i].Label == "" || len(models[i].Efforts) == 0 || !models[i].Images {
					t.Errorf("models %+v", models)
				}
			})
		}
		wg.Wait()
		list, err := f.Commands.Commands(t.Context(), w.project)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(c exec.Command) bool { return c.Name == "ship-it" })
		if i < 0 || !strings.HasPrefix(list[i].Description, "Ships it") || list[i].Arguments != "<where>" {
			t.Errorf("commands %+v", list)
		}
		if n := len(w.model.Calls(model.CallMain)); n != 0 {
			t.Errorf("%d requests", n)
		}
		if left := w.pids(); len(left) != 0 {
			t.Errorf("processes %v are left", left)
		}
		if files, _ := filepath.Glob(filepath.Join(w.config, "projects", "*", "*.jsonl")); len(files) != 0 {
			t.Errorf("a probe left sessions %v", files)
		}
		if _, err := f.Catalog.Models(t.Context(), w.home+"/absent", nil); exec.CodeOf(err) != exec.CodeProjectPath {
			t.Errorf("models of no project: %v", err)
		}
		if _, err := f.Catalog.Models(t.Context(), w.project, &exec.Endpoint{ID: "e"}); exec.CodeOf(err) != exec.CodeUnsupported {
			t.Errorf("models of an endpoint: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Catalog.Models(ctx, w.home, nil); exec.CodeOf(err) != exec.CodeCancelled {
			t.Errorf("models with an ended context: %v", err)
		}
	})
}

func TestAuth(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		for _, tt := range []struct {
			name     string
			env      []string
			signedIn string
			method   string
		}{
			{"key", nil, "yes", "ANTHROPIC_API_KEY in the environment"},
			{"nothing", []string{"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}, "no", ""},
			{"endpoint without a key", []string{"ANTHROPIC_API_KEY"}, "unknown", ""},
			{"token", []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN=secret-token"}, "yes", "CLAUDE_CODE_OAUTH_TOKEN in the environment"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				w := newWorld(t, c, script(text("unused")), tt.env...)
				s, err := w.adapter.Facets().Auth.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if !s.Installed || !s.Supported || s.Path != c.path || !strings.HasSuffix(s.Version, c.name) || s.SignedIn != tt.signedIn || s.Method != tt.method || s.Problem != "" {
					t.Errorf("%+v", s)
				}
				if s.SignIn == "" || s.Install == "" {
					t.Errorf("no way to sign in or install: %+v", s)
				}
				for _, r := range w.model.Requests() {
					if r.Model != "" {
						t.Errorf("a request for %s", r.Model)
					}
				}
			})
		}
	})
}

func TestProgramIsMissing(t *testing.T) {
	w := newWorld(t, clis(t)[0], script(text("unused")))
	for name, program := range map[string]string{"name": "no-such-program", "path": w.home + "/claude"} {
		a, err := claude.New(provider.Host{Log: w.host().Log, Processes: w.procs, StateDir: t.TempDir(), Env: w.env}, claude.Options{Program: program})
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Facets().Auth.Status(t.Context())
		if err != nil || s.Installed || s.Problem == "" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		rec := newRecorder(t, w.project)
		conv, err := a.Facets().Execution.Open(rec)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conv.Launch(t.Context(), exec.Launch{ProjectPath: w.project, Prompt: exec.Prompt{Text: "hi"}}, rec.newRun())
		if e := exec.AsError(err); e == nil || e.Code != exec.CodeAgentMissing || e.Hint == "" || e.Dispatched != exec.NotDispatched {
			t.Errorf("%s: %+v", name, e)
		}
		if err := conv.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestSingleQuery(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		answer := func(s string) model.Step {
			return model.Step{Match: &model.Match{Call: "any"}, Blocks: []model.Block{{Text: s}}}
		}
		w := newWorld(t, c, script(answer("A title"), answer("No command")))
		q := w.adapter.Facets().SingleQuery
		got, err := q.Query(t.Context(), exec.Query{Prompt: "Name this: --help", System: "You name things.", Model: "haiku"})
		if err != nil || got != "A title" {
			t.Fatalf("%q, %v", got, err)
		}
		var asked []*model.Request
		for _, r := range w.model.Requests() {
			if r.Model != "" {
				asked = append(asked, r)
			}
		}
		if len(asked) != 1 || !strings.Contains(asked[0].LastUser, "Name this: --help") || !strings.Contains(asked[0].System, "You name things.") || len(asked[0].Tools) != 0 || !strings.Contains(asked[0].Model, "haiku") {
			t.Errorf("requests %+v", asked)
		}
		if got, err := q.Query(t.Context(), exec.Query{Prompt: "/context is what?"}); err != nil || got != "No command" {
			t.Errorf("%q, %v", got, err)
		}
		if files, _ := filepath.Glob(filepath.Join(w.config, "projects", "*", "*.jsonl")); len(files) != 0 {
			t.Errorf("a query left sessions %v", files)
		}
		if err := w.model.Push(model.Step{Match: &model.Match{Call: "any"}, Times: -1, Reply: &model.Reply{Status: 429, Type: "rate_limit_error", Message: "slow down"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Query(t.Context(), exec.Query{Prompt: "x"}); exec.CodeOf(err) != exec.CodeRateLimited {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := q.Query(ctx, exec.Query{Prompt: "x"}); exec.CodeOf(err) != exec.CodeCancelled {
			t.Errorf("query with an ended context: %v", err)
		}
	})
}
