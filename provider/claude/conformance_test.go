package claude_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/provider"
	"garcon/provider/claude"
	"garcon/provider/conformance"
	"garcon/role/executor/runtime"
)

const (
	// burstBlocks is how many thoughts and as many texts a burst has: more
	// than a binding holds for a controller that is behind.
	burstBlocks = 800
	// floodBlocks is how many texts of floodBlock bytes a flood has.
	floodBlocks = 50
	floodBlock  = 1 << 20
	floodText   = "And on and on.\n "
)

// lastAsked is the last of what the suite asks for in a text: messages that
// failed stay in front of the next one.
func lastAsked(text string) string {
	found, at := "", -1
	for _, word := range []string{"Say pong", "run: ", "Ask me", "Hang", "Recall", "Flood", "Burst", "Fail", "crash", "background"} {
		if i := strings.LastIndex(text, word); i > at {
			found, at = word, i
		}
	}
	return found
}

// suiteModel plays the model for the suite.
func suiteModel(r *model.Request) model.Step {
	shell := func(command string) model.Step {
		return model.Step{Blocks: []model.Block{{Text: "I run it."}, {Tool: &model.Tool{Name: "Bash", Input: object{"command": command}}}}}
	}
	recent := func(what string) bool {
		return slices.ContainsFunc(r.Messages[max(0, len(r.Messages)-3):], func(m model.Message) bool { return strings.Contains(m.Text, what) })
	}
	if recent("STEER") {
		return text("I was steered.")
	}
	if recent("<task-notification>") && lastAsked(r.LastUser) == "background" {
		return text("The job is over.")
	}
	pong := []model.Block{{Thinking: "they want pong"}, {Text: "Here you are: pong."}}
	switch lastAsked(r.LastUser) {
	case "Say pong":
		return model.Step{Blocks: pong}
	case "run: ", "crash", "background", "Ask me":
		if r.HasToolResult() {
			return text("That was it.")
		}
		if _, command, ok := strings.Cut(r.LastUser, "run: "); ok {
			return shell(command)
		}
		if strings.HasSuffix(r.LastUser, "background") {
			return call("", "Bash", object{"command": "timeout 1 tail -f /dev/null; echo done", "description": "A job", "run_in_background": true})
		}
		if strings.HasSuffix(r.LastUser, "crash") {
			return shell("kill -9 $PPID")
		}
		return call("", "AskUserQuestion", object{"questions": []object{{
			"question": "Which?", "header": "Which", "multiSelect": false,
			"options": []object{{"label": "This", "description": "this one"}, {"label": "That", "description": "that one"}},
		}}})
	case "Hang":
		// Steps without an end, so that a steer can come in between.
		return model.Step{Blocks: []model.Block{
			{Text: "I wait.", DelayMs: 20}, {Tool: &model.Tool{Name: "Bash", Input: object{"command": "echo waiting"}}},
		}}
	case "Recall":
		for _, m := range r.Messages {
			if m.Role == "user" {
				return text("It began with: " + m.Text)
			}
		}
	case "Flood":
		// With pauses: the server is in the memory that is watched, and what it
		// throws away in a hurry is not what waits for a controller.
		var blocks []model.Block
		for range floodBlocks {
			blocks = append(blocks, model.Block{Thinking: "on", Chunks: 1}, model.Block{Text: floodText, Repeat: floodBlock / len(floodText), Chunks: 16, DelayMs: 1})
		}
		return model.Step{Blocks: blocks}
	case "Burst":
		var blocks []model.Block
		for range burstBlocks {
			blocks = append(blocks, model.Block{Thinking: "hm", Chunks: 1}, model.Block{Text: "so", Chunks: 1})
		}
		return model.Step{Blocks: blocks}
	case "Fail":
		return model.Step{Reply: &model.Reply{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 200001 tokens > 200000 maximum"}}
	}
	return text("unexpected: " + r.LastUser)
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		conformance.Run(t, func(t testing.TB) conformance.Subject { return subject(t, c) })
	})
}

func subject(t testing.TB, c cli) conformance.Subject {
	home, err := os.MkdirTemp("", "gcl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	dirs := map[string]string{}
	for _, name := range []string{"cfg", "proj", "tmp", "state"} {
		dirs[name] = filepath.Join(home, name)
		if err := os.Mkdir(dirs[name], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	answer := suiteModel
	if !c.lifecycle {
		// The older CLI does not compact a single answer of the model.
		answer = func(r *model.Request) model.Step {
			answered := slices.ContainsFunc(r.Messages, func(m model.Message) bool { return m.Role == "assistant" })
			if !answered && lastAsked(r.LastUser) == "Say pong" {
				return call("", "Bash", object{"command": "echo ping"})
			}
			return suiteModel(r)
		}
	}
	srv := model.Start(t, model.Script{
		Steps:   []model.Step{{Match: &model.Match{Call: model.CallQuery}, Times: -1, Blocks: []model.Block{{Text: "pong"}}}},
		Default: &model.Step{Answer: answer},
	})
	conformance.SetSecrets(t)
	for name, value := range map[string]string{
		"HOME": home, "CLAUDE_CONFIG_DIR": dirs["cfg"], "TMPDIR": dirs["tmp"], "ANTHROPIC_BASE_URL": srv.URL(), "ANTHROPIC_API_KEY": "key-of-the-test",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_MAX_RETRIES": "1", "IS_SANDBOX": "1", "GARCON_CLAUDE_PATH": c.path,
	} {
		t.Setenv(name, value)
	}
	rt := suiteRuntime(t, dirs["state"])
	return conformance.Subject{
		Runtime: rt, IntegrationID: claude.ID, ProjectPath: dirs["proj"],
		Restart: func(t testing.TB) exec.Runtime {
			closeRuntime(t, rt)
			rt = suiteRuntime(t, dirs["state"])
			return rt
		},
		Say: "Say pong", Reply: "pong",
		Shell: func(command string) string { return "run: " + command },
		Ask:   "Ask me",
		Hang:  "Hang", Steer: "STEER", SteerReply: "steered",
		Fail: "Fail", FailCode: exec.CodeContextOverflow,
		Crash:      "crash",
		Background: "background",
		Kill: func(t testing.TB) {
			for _, pid := range children(t, filepath.Base(c.path), home) {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		},
		Recall: "Recall",
		Flood:  "Flood", FloodBytes: floodBlocks * floodBlock,
		Burst: "Burst", BurstRows: 2 * burstBlocks,
	}
}

func suiteRuntime(t testing.TB, state string) exec.Runtime {
	t.Helper()
	rt, err := runtime.New(t.Context(), runtime.Options{
		StateDir: state, ConfigDir: state, ProjectBase: state,
		Adapters: func(h provider.Host) ([]provider.Adapter, error) {
			h, err := h.For(claude.ID)
			if err != nil {
				return nil, err
			}
			a, err := claude.New(h, claude.Options{})
			return []provider.Adapter{a}, err
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRuntime(t, rt) })
	return rt
}

func closeRuntime(t testing.TB, rt exec.Runtime) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := rt.Close(ctx); err != nil {
		t.Error(fmt.Errorf("close runtime: %w", err))
	}
}
