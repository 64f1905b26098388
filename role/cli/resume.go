package cli

import (
	"context"

	"garcon/proto/api"
)

// resumeFlags are the flags that send a message to a chat.
type resumeFlags struct {
	chatArg
	Queue       bool   `help:"If a turn is going, send the message when it has ended." xor:"busy"`
	Steer       bool   `help:"If a turn is going, send the message into it." xor:"busy"`
	Interrupt   bool   `help:"If a turn is going, stop it first." xor:"busy"`
	Model       string `help:"Model from this turn on." placeholder:"ID"`
	Permissions string `help:"Permission mode from this turn on." placeholder:"MODE"`
	Effort      string `help:"Reasoning effort from this turn on." placeholder:"EFFORT"`
	RequestID   string `help:"Id of this request: sending the same request with the same id again sends nothing new." placeholder:"ID"`
	Attach
	Prompt
}

type chatsResume struct {
	resumeFlags
	waitFlags
}

// Help implements kong's interface.
func (*chatsResume) Help() string {
	return `A chat in the middle of a turn refuses the message (exit code 3) unless --queue, --steer or --interrupt says what to do.

Examples:

    garcon chats resume 1767225600000000 "Now run the tests"
    garcon chats resume --queue 1767225600000000 "And then commit"
    garcon chats resume 1767225600000000 - < review.md`
}

type chatsResumeAsync struct{ resumeFlags }

// Help implements kong's interface.
func (*chatsResumeAsync) Help() string {
	return `Examples:

    garcon chats resume-async --queue 1767225600000000 "And then commit"`
}

type chatsSteer struct {
	chatArg
	RequestID string `help:"Id of this request: sending the same request with the same id again sends nothing new." placeholder:"ID"`
	Attach
	Prompt
}

// Help implements kong's interface.
func (*chatsSteer) Help() string {
	return `The message reaches the agent while it works. A chat without a turn refuses it (exit code 3): use resume.

Examples:

    garcon chats steer 1767225600000000 "Leave the generated files alone"`
}

// Run sends the message and waits.
func (c *chatsResume) Run(ctx context.Context, i *Invocation) error {
	accepted, err := c.send(ctx, i)
	if err != nil {
		return err
	}
	return i.waitAccepted(ctx, accepted, c.waitFlags)
}

// Run sends the message.
func (c *chatsResumeAsync) Run(ctx context.Context, i *Invocation) error {
	accepted, err := c.send(ctx, i)
	if err != nil {
		return err
	}
	return i.printAccepted(accepted)
}

func (c *resumeFlags) send(ctx context.Context, i *Invocation) (api.Accepted, error) {
	req := api.SubmitRequest{Busy: api.BusyReject, Model: c.Model, Mode: c.Permissions, Effort: c.Effort}
	switch {
	case c.Queue:
		req.Busy = api.BusyQueue
	case c.Steer:
		req.Busy = api.BusySteer
	case c.Interrupt:
		req.Busy = api.BusyInterrupt
	}
	return i.message(ctx, message{c.Chat, c.RequestID, &c.Prompt, &c.Attach, c.Steer}, req)
}

// message is what resume and steer send.
type message struct {
	chat, requestID string
	prompt          *Prompt
	attach          *Attach
	// orStart says that a message that was to steer may start a turn.
	orStart bool
}

// message reads and sends a message to a chat.
func (i *Invocation) message(ctx context.Context, m message, req api.SubmitRequest) (api.Accepted, error) {
	var err error
	if req.Prompt, err = m.prompt.text(ctx, i.Env); err != nil {
		return api.Accepted{}, err
	}
	if req.RequestID, err = requestID(m.requestID); err != nil {
		return api.Accepted{}, err
	}
	if err := i.connect(ctx); err != nil {
		return api.Accepted{}, err
	}
	if req.Attachments, err = m.attach.upload(ctx, i); err != nil {
		return api.Accepted{}, err
	}
	accepted, err := i.deliver(ctx, m.chat, req, m.orStart)
	if hasCode(err, api.CodeChatBusy) {
		return api.Accepted{}, i.busy(err, m.chat, req.Busy)
	}
	return accepted, err
}

// maxTurns bounds how often a message follows a chat that keeps changing
// between idle and busy.
const maxTurns = 5

// deliver submits the message. With orStart a message that was to steer starts
// a turn when none is going; both refusals are definite, so trying the other
// way sends nothing twice.
func (i *Invocation) deliver(ctx context.Context, chat string, req api.SubmitRequest, orStart bool) (api.Accepted, error) {
	for n := 0; ; n++ {
		accepted, err := i.submit(ctx, "send the message", request{op: api.OpChatsSubmit, path: []string{chat}, body: req})
		switch {
		case !orStart || n == maxTurns:
			return accepted, err
		case hasCode(err, api.CodeChatIdle):
			req.Busy = api.BusyReject
		case hasCode(err, api.CodeChatBusy):
			req.Busy = api.BusySteer
		default:
			return accepted, err
		}
	}
}

// busy says what can be done about a chat in the middle of a turn.
func (i *Invocation) busy(err error, chat string, policy api.BusyPolicy) error {
	hint := "Wait for it: " + i.command("chats", "wait", chat)
	if policy == api.BusyReject {
		hint = "Add --queue to send it afterwards, --steer to send it into the turn, or wait: " + i.command("chats", "wait", chat)
	}
	return &Failure{Exit: ExitUnavailable, Code: api.CodeChatBusy, Message: err.Error(), Hint: hint, cause: err}
}

// Run sends the message into the turn that is going.
func (c *chatsSteer) Run(ctx context.Context, i *Invocation) error {
	accepted, err := i.message(ctx, message{c.Chat, c.RequestID, &c.Prompt, &c.Attach, false}, api.SubmitRequest{Busy: api.BusySteer})
	if hasCode(err, api.CodeChatIdle) {
		return &Failure{
			Exit: ExitUnavailable, Code: api.CodeChatIdle, Message: err.Error(), cause: err,
			Hint: "Send it as a new turn: " + i.command("chats", "resume", c.Chat) + " MESSAGE",
		}
	}
	if err != nil {
		return err
	}
	return i.printAccepted(accepted)
}
