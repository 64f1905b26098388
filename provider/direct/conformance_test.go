package direct_test

import (
	"context"
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/provider"
	"garcon/provider/conformance"
	"garcon/provider/direct"
	"garcon/role/executor/runtime"
)

const (
	// conformanceKey is the credential of the endpoint.
	conformanceKey = "sk-conformance-0123456789"
	// burstBlocks is how many pieces of thinking, and as many of text, a burst
	// has: more than a binding holds for a controller that is behind.
	burstBlocks = 800
)

type oneKey struct{}

func (oneKey) Resolve(context.Context, string, string) (exec.Credential, error) {
	return exec.NewCredential(conformanceKey), nil
}

// conformanceScript answers by what the last message asks for. After a failure
// that message is one with the prompt before it, so the order counts.
func conformanceScript() model.Script {
	pong := []model.Block{{Thinking: "they want to hear pong"}, {Text: "Here you are: pong."}}
	var burst []model.Block
	for range burstBlocks {
		burst = append(burst, model.Block{Thinking: "hm", Chunks: 1}, model.Block{Text: "so", Chunks: 1})
	}
	return model.Script{Key: conformanceKey, Steps: []model.Step{
		{Name: "query", Match: &model.Match{Call: model.CallQuery}, Times: -1, Blocks: pong},
		{Name: "say", Match: &model.Match{LastUser: "Say pong"}, Times: -1, Blocks: pong},
		{Name: "recall", Match: &model.Match{LastUser: "Recall"}, Times: -1, Answer: func(r *model.Request) model.Step {
			return model.Step{Blocks: []model.Block{{Text: "It began with: " + r.Messages[0].Text}}}
		}},
		{Name: "burst", Match: &model.Match{LastUser: "Burst"}, Times: -1, Blocks: burst},
		{Name: "hang", Match: &model.Match{LastUser: "Hang"}, Times: -1, Blocks: []model.Block{
			{Text: "I wait for you to stop me", Hold: "never", HoldAfter: 1},
		}},
		{Name: "fail", Match: &model.Match{LastUser: "Fail"}, Times: -1, Reply: &model.Reply{
			Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded",
			Message: "prompt is too long: 200001 tokens > 200000 maximum",
		}},
	}}
}

func newConformanceRuntime(t testing.TB, p direct.Protocol, state string) exec.Runtime {
	t.Helper()
	rt, err := runtime.New(t.Context(), runtime.Options{
		StateDir: state, ConfigDir: state, ProjectBase: state, Credentials: oneKey{},
		Adapters: func(h provider.Host) ([]provider.Adapter, error) {
			h, err := h.For(string(p))
			if err != nil {
				return nil, err
			}
			return []provider.Adapter{direct.New(h, p)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRuntime(t, rt) })
	return rt
}

func closeRuntime(t testing.TB, rt exec.Runtime) {
	if err := rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestConformance(t *testing.T) {
	for _, p := range direct.Protocols() {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, func(t testing.TB) conformance.Subject { return subject(t, p) })
		})
	}
}

func subject(t testing.TB, p direct.Protocol) conformance.Subject {
	srv := model.Start(t, conformanceScript())
	base := srv.URL()
	if p != direct.Anthropic {
		base += "/v1"
	}
	state := t.TempDir()
	rt := newConformanceRuntime(t, p, state)
	return conformance.Subject{
		Runtime: rt, IntegrationID: string(p), ProjectPath: t.TempDir(),
		Restart: func(t testing.TB) exec.Runtime {
			closeRuntime(t, rt)
			rt = newConformanceRuntime(t, p, state)
			return rt
		},
		Configure: func(l *exec.Launch) {
			l.Model = "scripted-1"
			l.Endpoint = &exec.Endpoint{ID: "ep", Label: "Lab", Protocol: string(p), BaseURL: base}
		},
		Say: "Say pong", Reply: "pong",
		Hang: "Hang",
		Fail: "Fail", FailCode: exec.CodeContextOverflow,
		Recall: "Recall",
		Burst:  "Burst", BurstRows: 2 * burstBlocks,
	}
}
