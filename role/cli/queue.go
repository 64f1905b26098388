package cli

import (
	"context"
	"fmt"
	"slices"

	"garcon/proto/api"
)

// Queue are the commands of a chat's queue. Alone it lists it.
type Queue struct {
	List   queueList   `cmd:"" default:"withargs" help:"List the messages that wait (default)."`
	Add    queueAdd    `cmd:"" help:"Send a message when the turn has ended."`
	Edit   queueEdit   `cmd:"" help:"Change a message that waits."`
	Remove queueRemove `cmd:"" help:"Take messages out of the queue."`
	Order  queueOrder  `cmd:"" help:"Put messages first, in this order."`
	Pause  queuePause  `cmd:"" help:"Keep the messages waiting."`
	Resume queueResume `cmd:"" help:"Let the messages be sent again."`
	Send   queueSend   `cmd:"" help:"Send a message that waits at once."`
}

// entryArg is the argument of commands about one message of a queue.
type entryArg struct {
	Entry string `arg:"" help:"Id of the message, as chats queue shows it."`
}

type queueList struct{ chatArg }

// Help implements kong's interface.
func (*queueList) Help() string {
	return `Piped, each line is: id, turn, revision, time, message.

Examples:

    garcon chats queue 1767225600000000
    garcon chats queue list --json 1767225600000000`
}

// queueDocument is the document of commands about a queue.
type queueDocument struct {
	ChatID string `json:"chatId"`
	api.Queue
}

// Run lists the queue.
func (c *queueList) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	q, err := i.queue(ctx, c.Chat)
	if err != nil {
		return err
	}
	return i.printQueue(c.Chat, q)
}

// changeQueue makes a request that answers with the chat's state after it, and
// prints the queue.
func (i *Invocation) changeQueue(ctx context.Context, what string, r request) error {
	var control api.Control
	if err := i.do(ctx, what, r, &control); err != nil {
		return err
	}
	return i.printQueue(control.ChatID, control.Queue)
}

// queue returns a chat's queue.
func (i *Invocation) queue(ctx context.Context, chat string) (api.Queue, error) {
	var control api.Control
	err := i.do(ctx, "look at the queue", request{op: api.OpChatsControl, path: []string{chat}}, &control)
	return control.Queue, err
}

func (i *Invocation) printQueue(chat string, q api.Queue) error {
	if i.json {
		return i.document(queueDocument{chat, q})
	}
	if q.Paused {
		i.note("The queue is paused: %s. Let it go on: %s", VisibleLine(q.Reason), i.command("chats", "queue", "resume", chat))
	}
	t := table{head: []string{"ID", "TURN", "REVISION", "SINCE", "MESSAGE"}, flex: 4, empty: "No message is waiting."}
	for _, e := range q.Entries {
		t.rows = append(t.rows, []string{e.ID, e.TurnID, fmt.Sprint(e.Revision), i.when(e.QueuedAt), e.Prompt})
	}
	return i.table(t)
}

type queueAdd struct {
	chatArg
	RequestID string `help:"Id of this request: sending the same request with the same id again adds nothing new." placeholder:"ID"`
	Attach
	Prompt
}

// Help implements kong's interface.
func (*queueAdd) Help() string {
	return `To an idle chat the message is sent at once.

Examples:

    garcon chats queue add 1767225600000000 "And then commit"`
}

// Run adds a message.
func (c *queueAdd) Run(ctx context.Context, i *Invocation) error {
	accepted, err := i.message(ctx, message{chat: c.Chat, requestID: c.RequestID, prompt: &c.Prompt, attach: &c.Attach}, api.SubmitRequest{Busy: api.BusyQueue})
	if err != nil {
		return err
	}
	return i.printAccepted(accepted)
}

type queueEdit struct {
	chatArg
	entryArg
	Revision int64 `help:"Revision that was seen, default the current one." placeholder:"N"`
	Prompt
}

// Run changes a message.
func (c *queueEdit) Run(ctx context.Context, i *Invocation) error {
	text, err := c.Prompt.text(ctx, i.Env)
	if err != nil {
		return err
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	req := api.QueueUpdateRequest{Revision: c.Revision, Prompt: &text}
	if req.Revision == 0 {
		q, err := i.queue(ctx, c.Chat)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(q.Entries, func(e api.QueueEntry) bool { return e.ID == c.Entry })
		if n < 0 {
			return unavailable("the queue has no message "+c.Entry, "It may have been sent. See: "+i.command("chats", "queue", c.Chat), nil)
		}
		req.Revision = q.Entries[n].Revision
	}
	return i.changeQueue(ctx, "change the message", request{op: api.OpQueueUpdate, path: []string{c.Chat, c.Entry}, body: req})
}

type queueRemove struct {
	chatArg
	Entries []string `arg:"" name:"entry" help:"Ids of the messages."`
}

// Run takes messages out.
func (c *queueRemove) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	var control api.Control
	for _, id := range c.Entries {
		if err := i.do(ctx, "remove the message", request{op: api.OpQueueRemove, path: []string{c.Chat, id}}, &control); err != nil {
			return err
		}
	}
	return i.printQueue(c.Chat, control.Queue)
}

type queueOrder struct {
	chatArg
	Entries []string `arg:"" name:"entry" help:"Ids of the messages to send first; the others follow in their order."`
}

// Run reorders the queue.
func (c *queueOrder) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	q, err := i.queue(ctx, c.Chat)
	if err != nil {
		return err
	}
	order := slices.Clone(c.Entries)
	for _, e := range q.Entries {
		if !slices.Contains(order, e.ID) {
			order = append(order, e.ID)
		}
	}
	r := request{op: api.OpQueueOrder, path: []string{c.Chat}, body: api.QueueOrderRequest{EntryIDs: order}}
	return i.changeQueue(ctx, "reorder the queue", r)
}

type queuePause struct{ chatArg }

// Run pauses the queue.
func (c *queuePause) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	return i.changeQueue(ctx, "pause the queue", request{op: api.OpQueuePause, path: []string{c.Chat}})
}

type queueResume struct{ chatArg }

// Run lets the queue go on.
func (c *queueResume) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	return i.changeQueue(ctx, "resume the queue", request{op: api.OpQueueResume, path: []string{c.Chat}})
}

type queueSend struct {
	chatArg
	entryArg
	Interrupt bool `help:"Stop the turn that is going first, instead of sending the message into it."`
}

// Help implements kong's interface.
func (*queueSend) Help() string {
	return `Examples:

    garcon chats queue send 1767225600000000 ENTRY
    garcon chats queue send --interrupt 1767225600000000 ENTRY`
}

// Run sends a message.
func (c *queueSend) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	req := api.QueueSendRequest{How: api.BusySteer}
	if c.Interrupt {
		req.How = api.BusyInterrupt
	}
	var accepted api.Accepted
	r := request{op: api.OpQueueSend, path: []string{c.Chat, c.Entry}, body: req}
	if err := i.do(ctx, "send the message", r, &accepted); err != nil {
		return err
	}
	return i.printAccepted(accepted)
}
