package demo_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/provider"
	"garcon/provider/conformance"
	"garcon/provider/demo"
	"garcon/role/executor/runtime"
)

func TestMain(m *testing.M) {
	if provider.IsGuard(os.Args) {
		os.Exit(provider.RunGuard(context.Background(), os.Stdin))
	}
	os.Exit(m.Run())
}

// newRuntime returns a runtime with the demo agent, which is closed with the
// test.
func newRuntime(t testing.TB, state string) exec.Runtime {
	t.Helper()
	rt, err := runtime.New(t.Context(), runtime.Options{
		StateDir: state, ConfigDir: state, ProjectBase: state,
		Adapters: func(h provider.Host) ([]provider.Adapter, error) {
			h, err := h.For(demo.ID)
			if err != nil {
				return nil, err
			}
			a, err := demo.New(h)
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := rt.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Subject {
		conformance.SetSecrets(t)
		state := t.TempDir()
		rt := newRuntime(t, state)
		return conformance.Subject{
			Runtime: rt, IntegrationID: demo.ID, ProjectPath: t.TempDir(),
			Restart: func(t testing.TB) exec.Runtime {
				closeRuntime(t, rt)
				rt = newRuntime(t, state)
				return rt
			},
			Say: "Say pong", Reply: "pong",
			Shell: func(command string) string { return "run: " + command },
			Ask:   "ask me",
			Hang:  "say I wait now\nthink: waiting\nhang",
			Steer: "say steered", SteerReply: "steered",
			Fail: "fail with " + string(exec.CodeContextOverflow), FailCode: exec.CodeContextOverflow,
			Crash:      "crash",
			Background: "background: sleep 0.2",
			Recall:     "recall",
			Flood:      strings.Repeat("long 1024\n", 50), FloodBytes: 50 << 20,
			Burst: "burst 3000", BurstRows: 3000,
		}
	})
}
