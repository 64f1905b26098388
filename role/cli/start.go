package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// startFlags are the flags that start a chat.
type startFlags struct {
	Cwd         string            `help:"Project directory of the chat, default the current one. With another executor an absolute path there." placeholder:"DIR" short:"C"`
	Agent       string            `help:"Agent; agents list shows them. Default: the one last used in the project." placeholder:"ID"`
	Model       string            `help:"Model; models list shows them." placeholder:"ID"`
	Executor    string            `help:"Executor to run on, default the server's." placeholder:"ID"`
	Permissions string            `help:"Permission mode; permissions list shows them." placeholder:"MODE"`
	Effort      string            `help:"Reasoning effort; efforts list shows them." placeholder:"EFFORT"`
	Provider    string            `help:"Model API of a direct agent; providers list shows them." placeholder:"ID"`
	Setting     map[string]string `help:"Setting of the agent; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	Title       string            `help:"Title of the chat, default made from the message." placeholder:"TEXT"`
	Tag         []string          `help:"Tag of the chat; may be repeated." sep:"none"`
	Parent      string            `help:"Chat that this one is said to come from." placeholder:"CHAT"`
	RequestID   string            `help:"Id of this request: sending the same request with the same id again starts nothing new." placeholder:"ID"`
	Attach
	Prompt
}

type chatsStart struct {
	startFlags
	waitFlags
}

// Help implements kong's interface.
func (*chatsStart) Help() string {
	return `The ids of the chat and the turn are printed first, the answer when the turn has ended. Interrupting the command leaves the turn running.

Examples:

    garcon chats start "Fix the failing test"
    garcon chats start --agent claude --permissions plan --cwd ~/src/shop "Plan the migration"
    git diff | garcon chats start --attach screen.png -
    garcon chats start --json -- "--verbose does nothing"`
}

type chatsStartAsync struct{ startFlags }

// Help implements kong's interface.
func (*chatsStartAsync) Help() string {
	return `Examples:

    garcon chats start-async --tag nightly "Update the dependencies"
    garcon chats wait "$(garcon chats start-async --json "Say hello" | jq -r .chatId)"`
}

// submitted is the document of an accepted submission.
type submitted struct {
	ChatID      string          `json:"chatId"`
	TurnID      string          `json:"turnId"`
	Disposition api.Disposition `json:"disposition"`
	Replayed    bool            `json:"replayed,omitempty"`
	// Receipt is how the turn ended, in commands that wait.
	Receipt *api.Receipt `json:"receipt,omitempty"`
}

// Run starts the chat and waits.
func (c *chatsStart) Run(ctx context.Context, i *Invocation) error {
	accepted, err := c.start(ctx, i)
	if err != nil {
		return err
	}
	return i.waitAccepted(ctx, accepted, c.waitFlags)
}

// Run starts the chat.
func (c *chatsStartAsync) Run(ctx context.Context, i *Invocation) error {
	accepted, err := c.start(ctx, i)
	if err != nil {
		return err
	}
	return i.printAccepted(accepted)
}

func (c *startFlags) start(ctx context.Context, i *Invocation) (api.Accepted, error) {
	req := api.StartRequest{
		Agent: c.Agent, Model: c.Model, Mode: c.Permissions, Effort: c.Effort, ProviderID: c.Provider,
		Title: c.Title, Tags: c.Tag, ParentID: c.Parent, Settings: c.Setting,
	}
	var err error
	if req.Prompt, err = c.Prompt.text(ctx, i.Env); err != nil {
		return api.Accepted{}, err
	}
	if req.RequestID, err = requestID(c.RequestID); err != nil {
		return api.Accepted{}, err
	}
	if err := i.connect(ctx); err != nil {
		return api.Accepted{}, err
	}
	req.ExecutorID = c.Executor
	if req.ExecutorID == "" {
		req.ExecutorID = i.context.DefaultExecutorID
	}
	if req.ProjectPath, err = i.projectPath(req.ExecutorID, c.Cwd); err != nil {
		return api.Accepted{}, err
	}
	if req.Attachments, err = c.upload(ctx, i); err != nil {
		return api.Accepted{}, err
	}
	return i.submit(ctx, "start the chat", request{op: api.OpChatsStart, body: req})
}

// projectPath returns the project directory of a chat that starts on the
// executor. A relative one is resolved here only when the executor runs here.
func (i *Invocation) projectPath(executor, dir string) (string, error) {
	here := executor == exec.LocalID
	switch {
	case !here && dir == "":
		return "", usage(fmt.Sprintf("executor %s is another machine, so the project directory must be given", executor),
			"Give --cwd an absolute path on that machine.")
	case !here && dir[0] != '/':
		return "", usage(fmt.Sprintf("%s is relative, and executor %s is another machine", dir, executor),
			"Give --cwd an absolute path on that machine.")
	case !here || filepath.IsAbs(dir):
		return dir, nil
	case i.Dir == "":
		return "", usage("there is no current directory", "Give --cwd an absolute path.")
	}
	return filepath.Join(i.Dir, dir), nil
}

// printAccepted prints what a submission became.
func (i *Invocation) printAccepted(a api.Accepted) error {
	if i.json {
		return i.document(submitted{ChatID: a.ChatID, TurnID: a.TurnID, Disposition: a.Disposition, Replayed: a.Replayed})
	}
	return i.printf("%s", acceptedText(a))
}

func acceptedText(a api.Accepted) string {
	text := fmt.Sprintf("chat id: %s\nturn id: %s\n", VisibleLine(a.ChatID), VisibleLine(a.TurnID))
	if a.Disposition == api.Queued {
		text += "queued: yes\n"
	}
	return text
}
