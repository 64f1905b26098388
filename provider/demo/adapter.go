package demo

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// ID is the id of the integration.
const ID = "demo"

// The models and modes of the agent.
const (
	modelSwift   = "demo-swift"
	modelThinker = "demo-thinker"

	modeAsk         = "ask"
	modeAcceptEdits = "accept-edits"
	modeBypass      = "bypass"
	modePlan        = "plan"

	effortHigh = "high"

	settingPace = "pace"
	paceNatural = "natural"
)

const (
	// contextWindow is how many tokens the agent claims to hold.
	contextWindow = 200_000
	// maxAttachment is the largest picture it looks at, in bytes.
	maxAttachment = 10 << 20
	// maxTitle bounds the titles it makes, in bytes.
	maxTitle = 60
)

// Adapter is the demo agent.
type Adapter struct {
	host    provider.Host
	store   *store
	phrases []*phrase

	mu            sync.Mutex
	conversations map[*conversation]bool
}

var _ provider.Adapter = (*Adapter)(nil)

// New returns the agent. host is its own, see [provider.Host.For].
func New(host provider.Host) (*Adapter, error) {
	store, err := newStore(filepath.Join(host.StateDir, "sessions"))
	if err != nil {
		return nil, err
	}
	return &Adapter{host: host, store: store, phrases: phrases(), conversations: map[*conversation]bool{}}, nil
}

// Manifest implements [provider.Adapter].
func (a *Adapter) Manifest() exec.Manifest {
	return exec.Manifest{
		ID: ID, Label: "Demo", Conversation: exec.ConversationNative,
		Modes: []exec.Mode{
			{ID: modeAsk, Label: "Ask", Description: "Reads files unasked; asks before it changes one or runs a command."},
			{ID: modeAcceptEdits, Label: "Accept edits", Description: "Changes files in the project unasked; asks before it runs a command."},
			{ID: modePlan, Label: "Plan", Description: "Changes nothing until you approve its plan."},
			{ID: modeBypass, Label: "Bypass", Description: "Changes files and runs commands unasked.", Bypass: true},
		},
		DefaultMode: modeAsk,
		Efforts:     []string{"low", effortHigh},
		Attachments: exec.Attachments{MediaTypes: []string{"image/"}, MaxCount: 10, MaxBytes: maxAttachment},
		Settings: []exec.SettingDef{{
			Key: settingPace, Label: "Pace", Description: "How fast answers are streamed.",
			Default: "instant", Choices: []string{"instant", paceNatural},
		}},
	}
}

// Facets implements [provider.Adapter].
func (a *Adapter) Facets() provider.Facets {
	return provider.Facets{
		Execution: a, Catalog: a, Auth: a, Forking: a.store, History: a.store, Commands: a, SingleQuery: a,
		Permissions: true, Steering: true, Compaction: true,
	}
}

// Open implements [provider.Execution].
func (a *Adapter) Open(b provider.Binding) (provider.Conversation, error) {
	c := newConversation(a, b)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conversations[c] = true
	return c, nil
}

// Close implements [provider.Adapter]. Conversations that are still open end.
func (a *Adapter) Close(ctx context.Context) error {
	a.mu.Lock()
	var open []*conversation
	for c := range a.conversations {
		open = append(open, c)
	}
	a.mu.Unlock()
	for _, c := range open {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Models implements [exec.Catalog].
func (a *Adapter) Models(context.Context, string, *exec.Endpoint) ([]exec.Model, error) {
	return []exec.Model{
		{ID: modelSwift, Label: "Demo Swift", Description: "Answers at once.", ContextWindow: contextWindow, Images: true, Default: true},
		{ID: modelThinker, Label: "Demo Thinker", Description: "Thinks aloud before it answers.", ContextWindow: contextWindow, Images: true, Efforts: []string{"low", effortHigh}},
	}, nil
}

// Status implements [exec.Auth].
func (a *Adapter) Status(context.Context) (exec.AuthStatus, error) {
	return exec.AuthStatus{Installed: true, Version: "built in", Supported: true, SignedIn: "yes", Method: "needs no account"}, nil
}

// Commands implements [exec.Commands].
func (a *Adapter) Commands(context.Context, string) ([]exec.Command, error) {
	var list []exec.Command
	for _, p := range a.phrases {
		if p.command != "" {
			list = append(list, exec.Command{Name: p.command, Description: p.help})
		}
	}
	return list, nil
}

// Query implements [exec.SingleQuery]: "say TEXT" gives TEXT, anything else a
// title made of its last line.
func (a *Adapter) Query(ctx context.Context, q exec.Query) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", exec.AsError(err)
	}
	if q.Model != "" && !knownModel(q.Model) {
		return "", errModel(q.Model)
	}
	for _, s := range a.steps(q.Prompt) {
		if strings.HasPrefix(s.usage, "say ") {
			return spoken(s.args[0]), nil
		}
	}
	return title(q.Prompt), nil
}

func knownModel(id string) bool { return id == modelSwift || id == modelThinker }

func errModel(id string) *exec.Error {
	return exec.Errorf(exec.CodeUnknownModel, "the demo agent has no model %q", id).WithHint("Choose %s or %s.", modelSwift, modelThinker)
}

// title makes a short line of the last line of a text.
func title(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if len(last) <= maxTitle {
		return last
	}
	short := row.Prefix(last, maxTitle-len("…"))
	if i := strings.LastIndexByte(short, ' '); i > 0 {
		short = short[:i]
	}
	return short + "…"
}
