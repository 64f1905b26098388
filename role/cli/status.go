package cli

import (
	"context"
	"fmt"
	"strings"

	"garcon/proto/api"
)

type chatsStatus struct{ chatArg }

// Help implements kong's interface.
func (*chatsStatus) Help() string {
	return `Examples:

    garcon chats status 1767225600000000
    garcon chats status --json 1767225600000000 | jq -r .control.phase`
}

// statusDocument is the document of chats status.
type statusDocument struct {
	Chat    api.Chat    `json:"chat"`
	Control api.Control `json:"control"`
}

// Run shows what a chat is doing.
func (c *chatsStatus) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	var doc statusDocument
	if err := i.do(ctx, "look at the chat", request{op: api.OpChatsShow, path: []string{c.Chat}}, &doc.Chat); err != nil {
		return err
	}
	if err := i.do(ctx, "look at the chat", request{op: api.OpChatsControl, path: []string{c.Chat}}, &doc.Control); err != nil {
		return err
	}
	if i.json {
		return i.document(doc)
	}
	return i.printStatus(doc)
}

func (i *Invocation) printStatus(doc statusDocument) error {
	chat, control := doc.Chat, doc.Control
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, VisibleLine(value))
		}
	}
	field("chat id", chat.ID)
	field("title", chat.Title)
	field("state", stateText(chat))
	field("unavailable", chat.State.Unavailable)
	field("turn id", control.TurnID)
	field("agent", chat.Agent)
	field("model", chat.Model)
	field("permissions", chat.Mode)
	field("effort", chat.Effort)
	field("provider", chat.ProviderID)
	field("executor", chat.ExecutorID)
	field("project", chat.ProjectPath)
	field("marks", marks(chat))
	field("tags", strings.Join(chat.Tags, ", "))
	field("parent", chat.ParentID)
	field("last activity", i.when(chat.LastActivity))
	for _, job := range control.Jobs {
		field("background job", strings.TrimSpace(job.Title+" "+job.Kind))
	}
	if control.Queue.Paused {
		field("queue paused", control.Queue.Reason)
	}
	for _, entry := range control.Queue.Entries {
		field("queued "+VisibleLine(entry.ID), entry.Prompt)
	}
	for _, p := range control.Pending {
		fmt.Fprintf(&b, "\n%s\n", i.pendingText(chat.ID, p))
	}
	return i.printf("%s", b.String())
}

type chatsStop struct {
	chatArg
	Turn string `help:"Stop only if this turn is the one that is going." placeholder:"TURN"`
}

// Help implements kong's interface.
func (*chatsStop) Help() string {
	return `Messages that wait in the queue stay there, and the queue is paused.

Examples:

    garcon chats stop 1767225600000000`
}

// stoppedDocument is the document of chats stop.
type stoppedDocument struct {
	ChatID string `json:"chatId"`
	api.Stopped
}

// Run stops the turn.
func (c *chatsStop) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	var done api.Stopped
	r := request{op: api.OpChatsStop, path: []string{c.Chat}, body: api.StopRequest{TurnID: c.Turn}}
	if err := i.do(ctx, "stop the chat", r, &done); err != nil {
		return err
	}
	if i.json {
		return i.document(stoppedDocument{c.Chat, done})
	}
	if !done.Stopped {
		return i.printf("nothing was running\n")
	}
	if err := i.printf("stopped turn %s\n", VisibleLine(done.TurnID)); err != nil {
		return err
	}
	if done.QueuePaused {
		i.note("Messages are waiting in the queue, which is paused now. Let it go on: %s", i.command("chats", "queue", "resume", c.Chat))
	}
	return nil
}
