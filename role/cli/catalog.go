package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// Agents are the commands about agents.
type Agents struct {
	Connection
	List agentsList `cmd:"" default:"withargs" help:"List the agents (default)."`
}

// Models are the commands about models.
type Models struct {
	Connection
	List modelsList `cmd:"" default:"withargs" help:"List the models (default)."`
}

// Permissions are the commands about permission modes.
type Permissions struct {
	Connection
	List permissionsList `cmd:"" default:"withargs" help:"List the permission modes (default)."`
}

// Efforts are the commands about reasoning efforts.
type Efforts struct {
	Connection
	List effortsList `cmd:"" default:"withargs" help:"List the reasoning efforts (default)."`
}

// scope says whose catalog is meant.
type scope struct {
	Executor string `help:"Executor to ask, default the server's." placeholder:"ID" xor:"scope"`
	Chat     string `help:"Ask the executor of this chat, for its agent." placeholder:"ID" xor:"scope"`
}

// target is whose catalog is asked for.
type target struct {
	executor, agent, project, provider string
}

// resolve connects and returns whose catalog is meant.
func (s scope) resolve(ctx context.Context, i *Invocation, agent string) (target, error) {
	if err := i.connect(ctx); err != nil {
		return target{}, err
	}
	if s.Chat == "" {
		if s.Executor == "" {
			return target{executor: i.context.DefaultExecutorID, agent: agent}, nil
		}
		return target{executor: s.Executor, agent: agent}, nil
	}
	var chat api.Chat
	if err := i.do(ctx, "look at the chat", request{op: api.OpChatsShow, path: []string{s.Chat}}, &chat); err != nil {
		return target{}, err
	}
	if agent != "" && agent != chat.Agent {
		return target{}, usage(fmt.Sprintf("the chat's agent is %s, not %s", chat.Agent, agent), "Leave --agent out.")
	}
	return target{chat.ExecutorID, chat.Agent, chat.ProjectPath, chat.ProviderID}, nil
}

// agents returns the agents of the target: one, when one is meant.
func (t target) agents(ctx context.Context, i *Invocation) ([]api.Agent, error) {
	var list api.AgentList
	r := request{op: api.OpAgentsList, query: url.Values{"executor": {t.executor}}}
	if err := i.do(ctx, "list the agents", r, &list); err != nil {
		return nil, err
	}
	if t.agent == "" {
		return list.Agents, nil
	}
	n := slices.IndexFunc(list.Agents, func(a api.Agent) bool { return a.ID == t.agent })
	if n < 0 {
		return nil, usage(fmt.Sprintf("executor %s has no agent %s", t.executor, t.agent), "See: "+i.command("agents", "list"))
	}
	return list.Agents[n : n+1], nil
}

type agentsList struct {
	Executor string `help:"Executor to ask, default the server's." placeholder:"ID"`
}

// Help implements kong's interface.
func (*agentsList) Help() string {
	return `Piped, each line is: id, name, installed, version, signed in, problem.

Examples:

    garcon agents
    garcon agents list --json`
}

// agentsDocument is the document of agents list.
type agentsDocument struct {
	ExecutorID string      `json:"executorId"`
	Agents     []api.Agent `json:"agents"`
}

// Run lists the agents.
func (c *agentsList) Run(ctx context.Context, i *Invocation) error {
	t, err := scope{Executor: c.Executor}.resolve(ctx, i, "")
	if err != nil {
		return err
	}
	agents, err := t.agents(ctx, i)
	if err != nil {
		return err
	}
	if i.json {
		return i.document(agentsDocument{t.executor, agents})
	}
	var problems []string
	out := table{head: []string{"ID", "NAME", "INSTALLED", "VERSION", "SIGNED IN", "PROBLEM"}, flex: 5, empty: "The executor has no agents."}
	for _, a := range agents {
		cells := []string{a.ID, a.Label, "", "", "", a.Problem}
		if s := a.Auth; s != nil {
			cells[2], cells[3], cells[4] = yesNo(s.Installed), s.Version, s.SignedIn
			if cells[5] == "" {
				cells[5] = nextStep(s)
			}
		}
		if i.StdoutTerminal && cells[5] != "" {
			// A column would be cut where the command that helps is.
			problems = append(problems, a.Label+": "+cells[5])
			cells[5] = ""
		}
		out.rows = append(out.rows, cells)
	}
	if err := i.table(out); err != nil {
		return err
	}
	for _, p := range problems {
		i.note("%s", VisibleLine(p))
	}
	return nil
}

// nextStep says what keeps an agent from being used, and the command that
// helps.
func nextStep(s *exec.AuthStatus) string {
	problem := s.Problem
	switch {
	case !s.Installed && s.Install != "":
		problem = joinSentence(problem, "Install it: "+s.Install)
	case s.SignedIn == "no" && s.SignIn != "":
		problem = joinSentence(problem, "Sign in: "+s.SignIn)
	}
	return problem
}

func joinSentence(a, b string) string {
	if a == "" {
		return b
	}
	return strings.TrimSuffix(a, ".") + ". " + b
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

type modelsList struct {
	scope
	Agent    string `help:"Agent, default all." placeholder:"ID"`
	Provider string `help:"Model API of a direct agent." placeholder:"ID"`
	Cwd      string `help:"Project directory: an agent may have models of a project's own." placeholder:"DIR" short:"C"`
}

// Help implements kong's interface.
func (*modelsList) Help() string {
	return `Piped, each line is: agent, model, name, context window, efforts, default.

Examples:

    garcon models --agent claude
    garcon models list --chat 1767225600000000 --json`
}

// agentModel is one model in the document of models list.
type agentModel struct {
	Agent string `json:"agent"`
	exec.Model
}

// agentProblem says why an agent's catalog is missing from a document.
type agentProblem struct {
	Agent string        `json:"agent"`
	Error errorDocument `json:"error"`
}

// modelsDocument is the document of models list.
type modelsDocument struct {
	ExecutorID string         `json:"executorId"`
	Models     []agentModel   `json:"models"`
	Problems   []agentProblem `json:"problems"`
}

// Run lists models. What one of several agents cannot say does not keep the
// others' from being listed.
func (c *modelsList) Run(ctx context.Context, i *Invocation) error {
	t, err := c.resolve(ctx, i, c.Agent)
	if err != nil {
		return err
	}
	if c.Provider != "" {
		t.provider = c.Provider
	}
	if c.Cwd != "" {
		if t.project, err = i.projectPath(t.executor, c.Cwd); err != nil {
			return err
		}
	}
	doc := modelsDocument{ExecutorID: t.executor, Models: []agentModel{}, Problems: []agentProblem{}}
	names := []string{t.agent}
	if t.agent == "" {
		agents, err := t.agents(ctx, i)
		if err != nil {
			return err
		}
		names = names[:0]
		for _, a := range agents {
			names = append(names, a.ID)
		}
	}
	for _, name := range names {
		models, err := t.models(ctx, i, name)
		if err != nil && (t.agent != "" || ExitCode(err) == ExitInterrupted) {
			return err
		}
		if err != nil {
			doc.Problems = append(doc.Problems, agentProblem{name, errorDocument{Exit: ExitCode(err), Message: err.Error()}})
			continue
		}
		for _, m := range models {
			doc.Models = append(doc.Models, agentModel{name, m})
		}
	}
	return i.printModels(doc)
}

func (t target) models(ctx context.Context, i *Invocation, agent string) ([]exec.Model, error) {
	query := url.Values{"executor": {t.executor}}
	if t.project != "" {
		query.Set("project", t.project)
	}
	if t.provider != "" {
		query.Set("provider", t.provider)
	}
	var list api.ModelList
	err := i.do(ctx, "list the models of "+agent, request{op: api.OpModelsList, path: []string{agent}, query: query}, &list)
	return list.Models, err
}

func (i *Invocation) printModels(doc modelsDocument) error {
	if i.json {
		return i.document(doc)
	}
	for _, p := range doc.Problems {
		i.note("%s: %s", VisibleLine(p.Agent), Visible(p.Error.Message))
	}
	out := table{head: []string{"AGENT", "MODEL", "NAME", "CONTEXT", "EFFORTS", "DEFAULT"}, flex: 2, empty: "There are no models."}
	for _, m := range doc.Models {
		window := ""
		if m.ContextWindow > 0 {
			window = fmt.Sprint(m.ContextWindow)
		}
		isDefault := ""
		if m.Default {
			isDefault = "default"
		}
		out.rows = append(out.rows, []string{m.Agent, m.ID, m.Label, window, strings.Join(m.Efforts, ","), isDefault})
	}
	return i.table(out)
}

type permissionsList struct {
	scope
	Agent string `help:"Agent, default all." placeholder:"ID"`
}

// Help implements kong's interface.
func (*permissionsList) Help() string {
	return `Piped, each line is: agent, mode, name, default, description.

Examples:

    garcon permissions --agent claude
    garcon permissions list --chat 1767225600000000`
}

// agentMode is one mode in the document of permissions list.
type agentMode struct {
	Agent string `json:"agent"`
	exec.Mode
	Default bool `json:"default,omitempty"`
}

// modesDocument is the document of permissions list.
type modesDocument struct {
	ExecutorID  string      `json:"executorId"`
	Permissions []agentMode `json:"permissions"`
}

// Run lists permission modes.
func (c *permissionsList) Run(ctx context.Context, i *Invocation) error {
	t, err := c.resolve(ctx, i, c.Agent)
	if err != nil {
		return err
	}
	agents, err := t.agents(ctx, i)
	if err != nil {
		return err
	}
	doc := modesDocument{ExecutorID: t.executor, Permissions: []agentMode{}}
	for _, a := range agents {
		for _, m := range a.Modes {
			doc.Permissions = append(doc.Permissions, agentMode{a.ID, m, m.ID == a.DefaultMode})
		}
	}
	if i.json {
		return i.document(doc)
	}
	out := table{head: []string{"AGENT", "MODE", "NAME", "DEFAULT", "DESCRIPTION"}, flex: 4, empty: "There are no permission modes."}
	for _, m := range doc.Permissions {
		isDefault := ""
		if m.Default {
			isDefault = "default"
		}
		out.rows = append(out.rows, []string{m.Agent, m.ID, m.Label, isDefault, m.Description})
	}
	return i.table(out)
}

type effortsList struct {
	scope
	Agent string `help:"Agent, default all." placeholder:"ID"`
	Model string `help:"Only the efforts of this model." placeholder:"ID"`
}

// Help implements kong's interface.
func (*effortsList) Help() string {
	return `Piped, each line is: agent, effort.

Examples:

    garcon efforts --agent claude --model opus`
}

// agentEffort is one effort in the document of efforts list.
type agentEffort struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
}

// effortsDocument is the document of efforts list.
type effortsDocument struct {
	ExecutorID string        `json:"executorId"`
	Model      string        `json:"model,omitempty"`
	Efforts    []agentEffort `json:"efforts"`
}

// Run lists reasoning efforts.
func (c *effortsList) Run(ctx context.Context, i *Invocation) error {
	t, err := c.resolve(ctx, i, c.Agent)
	if err != nil {
		return err
	}
	if c.Model != "" && t.agent == "" {
		return usage("a model belongs to an agent", "Add --agent.")
	}
	agents, err := t.agents(ctx, i)
	if err != nil {
		return err
	}
	doc := effortsDocument{ExecutorID: t.executor, Model: c.Model, Efforts: []agentEffort{}}
	for _, a := range agents {
		efforts := a.Efforts
		if c.Model != "" {
			if efforts, err = t.modelEfforts(ctx, i, a, c.Model); err != nil {
				return err
			}
		}
		for _, e := range efforts {
			doc.Efforts = append(doc.Efforts, agentEffort{a.ID, e})
		}
	}
	if i.json {
		return i.document(doc)
	}
	out := table{head: []string{"AGENT", "EFFORT"}, flex: 1, empty: "There are no reasoning efforts to choose from."}
	for _, e := range doc.Efforts {
		out.rows = append(out.rows, []string{e.Agent, e.ID})
	}
	return i.table(out)
}

// modelEfforts returns the efforts of one model: its own, or all of its
// agent's when it does not say.
func (t target) modelEfforts(ctx context.Context, i *Invocation, a api.Agent, model string) ([]string, error) {
	models, err := t.models(ctx, i, a.ID)
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(models, func(m exec.Model) bool { return m.ID == model })
	if n < 0 {
		return nil, usage(fmt.Sprintf("agent %s has no model %s", a.ID, model), "See: "+i.command("models", "list", "--agent", a.ID))
	}
	if len(models[n].Efforts) == 0 {
		return a.Efforts, nil
	}
	return models[n].Efforts, nil
}
