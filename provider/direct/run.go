package direct

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// chat implements [provider.Conversation]. It keeps nothing between runs: the
// conversation comes with every launch.
type chat struct {
	adapter *adapter
	// ctx ends with the binding.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// runs counts the goroutines of runs; Close waits for them.
	runs sync.WaitGroup

	// mu guards busy and closed.
	mu     sync.Mutex
	busy   bool
	closed bool

	// told holds what the user was told of in this chat, so that every turn
	// does not repeat it. Only the goroutine of the run uses it.
	told map[string]bool
}

// Causes of a run that ends early.
var (
	errAborted = errors.New("the run was stopped")
	errClosed  = errors.New("the binding was closed")
)

// Launch implements [provider.Conversation]. It checks the launch and fetches
// the credential; what the server says comes through run.
func (c *chat) Launch(ctx context.Context, l exec.Launch, run provider.Run) (provider.Active, error) {
	k, omitted, err := c.prepare(ctx, l)
	if err != nil {
		return nil, err
	}
	return c.start(run, func(ctx context.Context) {
		c.answer(ctx, k, omitted, run)
	})
}

// prepare makes the call of a launch. omitted is how many attachments the call
// leaves out.
func (c *chat) prepare(ctx context.Context, l exec.Launch) (k call, omitted int, err error) {
	limit, bad := tokenSetting(l.Settings[settingMaxTokens])
	if bad != nil {
		return call{}, 0, bad
	}
	if l.Model == "" {
		return call{}, 0, exec.Errorf(exec.CodeUnknownModel, "No model was chosen.").
			WithHint("Choose a model from the list, or type the name of one the endpoint offers.")
	}
	credential, bad := c.adapter.credential(ctx, l.Endpoint, l.RunID)
	if bad != nil {
		return call{}, 0, bad
	}
	if _, bad := baseURL(*l.Endpoint); bad != nil {
		return call{}, 0, bad
	}
	model, _ := c.adapter.models.find(*l.Endpoint, l.Model)
	messages, omitted := conversation(l.Conversation, l.Prompt, model.images != ruledOut)
	if len(messages) == 0 || messages[len(messages)-1].role != roleUser {
		return call{}, 0, exec.Errorf(exec.CodeInvalid, "The prompt is empty.").WithHint("Write a message.")
	}
	return call{
		endpoint:   *l.Endpoint,
		credential: credential,
		turn: turn{
			model: l.Model, system: strings.TrimSpace(row.Text(l.Settings[settingInstructions])), messages: messages,
			effort: l.Effort, maxTokens: limit, stream: true,
		},
	}, omitted, nil
}

func tokenSetting(value string) (int, *exec.Error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, exec.Errorf(exec.CodeInvalid, "The setting %q must be a number of tokens, not %q.", settingMaxTokens, value).
			WithHint("Correct it in the settings of the chat, or leave it empty.")
	}
	return n, nil
}

// start runs work in a goroutine of the conversation. work publishes the
// terminal last.
func (c *chat) start(run provider.Run, work func(ctx context.Context)) (provider.Active, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, exec.Errorf(exec.CodeStaleResource, "The chat was closed.")
	}
	if c.busy {
		return nil, exec.Errorf(exec.CodeSessionBusy, "The chat is still answering.")
	}
	c.busy = true
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.runs.Go(func() {
		defer cancel(nil)
		work(ctx)
	})
	return &active{cancel: cancel}, nil
}

// finish ends a run. The chat is free before the terminal is out: with the
// terminal comes the next launch.
func (c *chat) finish(run provider.Run, t exec.Terminal) {
	c.mu.Lock()
	c.busy = false
	c.mu.Unlock()
	run.Finish(t)
}

// answer makes the call and publishes what comes.
func (c *chat) answer(ctx context.Context, k call, omitted int, run provider.Run) {
	out := &output{run: run}
	k.sink = out
	k.notice = func(n row.Notice) { run.Rows(row.Row{Body: &n}) }
	k.omitted = func(notes []string) {
		for _, note := range notes {
			if !c.told[note] {
				c.told[note] = true
				k.notice(row.Notice{Code: "adapted", Title: "Not as asked", Text: note})
			}
		}
	}
	if omitted > 0 {
		k.notice(row.Notice{
			Code: "attachments-left-out", Title: "Attachments left out",
			Text: fmt.Sprintf("%s cannot see %s of this chat; a note stands in each place.", k.turn.model, count(omitted, "attachment")),
		})
	}
	end, err := c.adapter.client.do(ctx, k)
	// A stop that came too late leaves a complete answer complete.
	stopped := err != nil && ctx.Err() != nil
	if err == nil {
		err = end.failure(k.endpoint, k.turn.model)
	}
	out.finish(err == nil)
	if err == nil && !out.answered {
		k.notice(row.Notice{
			Code: "empty-answer", Title: "Empty answer",
			Text: fmt.Sprintf("%s ended its answer without saying anything.", k.turn.model),
		})
	}
	t := exec.Terminal{Phase: row.RunCompleted, Usage: c.withWindow(end.usage, k)}
	switch {
	case stopped:
		t.Phase = row.RunInterrupted
	case err != nil:
		t.Phase, t.Error = row.RunFailed, err
	}
	c.finish(run, t)
}

// withWindow adds the size of the context window, when the listing has told
// it.
func (c *chat) withWindow(u *row.Usage, k call) *row.Usage {
	if u == nil {
		return nil
	}
	if m, ok := c.adapter.models.find(k.endpoint, k.turn.model); ok {
		u.ContextWindow = m.ContextWindow
	}
	return u
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// Close implements [provider.Conversation].
func (c *chat) Close(context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(errClosed)
	c.runs.Wait()
	return nil
}

// active implements [provider.Active].
type active struct{ cancel context.CancelCauseFunc }

// Abort implements [provider.Active]. The connection is closed, which is the
// only way to tell a server.
func (a *active) Abort(context.Context) error {
	a.cancel(errAborted)
	return nil
}

// Steer implements [provider.Active].
func (a *active) Steer(context.Context, exec.Steer) error {
	return exec.Errorf(exec.CodeUnsupported, "A model API cannot be steered in the middle of an answer.").
		WithHint("Queue the message, or stop the answer first.")
}
