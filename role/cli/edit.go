package cli

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"garcon/proto/api"
)

type chatsRename struct {
	chatArg
	Title []string `arg:"" help:"The new title; several words are joined by spaces."`
}

// Help implements kong's interface.
func (*chatsRename) Help() string {
	return `Examples:

    garcon chats rename 1767225600000000 "Payment retries"`
}

// Run changes the title.
func (c *chatsRename) Run(ctx context.Context, i *Invocation) error {
	title := strings.Join(c.Title, " ")
	if len(title) > api.MaxTitle {
		return usage(fmt.Sprintf("the title is over the limit of %d bytes", api.MaxTitle), "")
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	return i.updateAll(ctx, []string{c.Chat}, api.UpdateRequest{Title: &title})
}

type chatsTags struct {
	chatArg
	Add    []string `help:"Tag to add; may be repeated." sep:"none" placeholder:"TAG"`
	Remove []string `help:"Tag to remove; may be repeated." sep:"none" placeholder:"TAG"`
	Set    []string `help:"Replace all tags by this one; may be repeated." sep:"none" placeholder:"TAG"`
	Clear  bool     `help:"Remove all tags."`
}

// Help implements kong's interface.
func (*chatsTags) Help() string {
	return `Examples:

    garcon chats tags 1767225600000000
    garcon chats tags 1767225600000000 --add nightly --remove draft`
}

// Run shows or changes the tags.
func (c *chatsTags) Run(ctx context.Context, i *Invocation) error {
	if len(c.Set) > 0 && (c.Clear || len(c.Add) > 0 || len(c.Remove) > 0) {
		return usage("--set excludes --add, --remove and --clear", "")
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	var chat api.Chat
	if err := i.do(ctx, "look at the chat", request{op: api.OpChatsShow, path: []string{c.Chat}}, &chat); err != nil {
		return err
	}
	if c.changes() {
		tags := c.apply(chat.Tags)
		return i.updateAll(ctx, []string{c.Chat}, api.UpdateRequest{Tags: &tags})
	}
	return i.printTags(chat)
}

func (c *chatsTags) changes() bool {
	return c.Clear || len(c.Add)+len(c.Remove)+len(c.Set) > 0
}

// apply returns the tags after the change, each once.
func (c *chatsTags) apply(tags []string) []string {
	switch {
	case len(c.Set) > 0:
		tags = c.Set
	case c.Clear:
		tags = nil
	}
	out := []string{}
	for _, t := range slices.Concat(tags, c.Add) {
		if !slices.Contains(out, t) && !slices.Contains(c.Remove, t) {
			out = append(out, t)
		}
	}
	return out
}

func (i *Invocation) printTags(chat api.Chat) error {
	if i.json {
		return i.document(chatsDocument{[]api.Chat{chat}})
	}
	for _, t := range chat.Tags {
		if err := i.printf("%s\n", VisibleLine(t)); err != nil {
			return err
		}
	}
	return nil
}

// chatsDocument is the document of commands that change chats.
type chatsDocument struct {
	Chats []api.Chat `json:"chats"`
}

// updateAll changes chats one after the other, up to the first that fails.
func (i *Invocation) updateAll(ctx context.Context, chats []string, req api.UpdateRequest) error {
	doc := chatsDocument{Chats: []api.Chat{}}
	var failed error
	for _, id := range chats {
		var chat api.Chat
		if failed = i.do(ctx, "change chat "+id, request{op: api.OpChatsUpdate, path: []string{id}, body: req}, &chat); failed != nil {
			break
		}
		doc.Chats = append(doc.Chats, chat)
	}
	if failed != nil && len(doc.Chats) == 0 {
		return failed
	}
	if i.json {
		if err := i.document(doc); err != nil {
			return err
		}
		return failed
	}
	for _, chat := range doc.Chats {
		if err := i.printf("%s\t%s\n", chat.ID, VisibleLine(chat.Title)); err != nil {
			return err
		}
	}
	return failed
}

type (
	chatsPin       struct{ chatsArg }
	chatsUnpin     struct{ chatsArg }
	chatsArchive   struct{ chatsArg }
	chatsUnarchive struct{ chatsArg }
)

// Run pins the chats.
func (c *chatsPin) Run(ctx context.Context, i *Invocation) error {
	return i.flag(ctx, c.Chats, api.UpdateRequest{Pinned: new(true)})
}

// Run unpins the chats.
func (c *chatsUnpin) Run(ctx context.Context, i *Invocation) error {
	return i.flag(ctx, c.Chats, api.UpdateRequest{Pinned: new(false)})
}

// Run archives the chats.
func (c *chatsArchive) Run(ctx context.Context, i *Invocation) error {
	return i.flag(ctx, c.Chats, api.UpdateRequest{Archived: new(true)})
}

// Run takes the chats out of the archive.
func (c *chatsUnarchive) Run(ctx context.Context, i *Invocation) error {
	return i.flag(ctx, c.Chats, api.UpdateRequest{Archived: new(false)})
}

func (i *Invocation) flag(ctx context.Context, chats []string, req api.UpdateRequest) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	return i.updateAll(ctx, chats, req)
}

type chatsDelete struct {
	chatsArg
	Yes bool `help:"Do not ask." short:"y"`
}

// Help implements kong's interface.
func (*chatsDelete) Help() string {
	return `A turn that is going ends. On a terminal the command asks first. What the agent program itself keeps of the conversation stays.

Examples:

    garcon chats delete 1767225600000000`
}

// deletedDocument is the document of chats delete.
type deletedDocument struct {
	Deleted []string `json:"deleted"`
}

// Run deletes the chats.
func (c *chatsDelete) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	if !c.Yes && i.StdinFD >= 0 {
		if err := c.confirm(ctx, i); err != nil {
			return err
		}
	}
	doc := deletedDocument{Deleted: []string{}}
	var failed error
	for _, id := range c.Chats {
		var done api.Deleted
		if failed = i.do(ctx, "delete chat "+id, request{op: api.OpChatsDelete, path: []string{id}}, &done); failed != nil {
			break
		}
		doc.Deleted = append(doc.Deleted, id)
	}
	if failed != nil && len(doc.Deleted) == 0 {
		return failed
	}
	if i.json {
		if err := i.document(doc); err != nil {
			return err
		}
		return failed
	}
	for _, id := range doc.Deleted {
		if err := i.printf("deleted %s\n", id); err != nil {
			return err
		}
	}
	return failed
}

func (c *chatsDelete) confirm(ctx context.Context, i *Invocation) error {
	for _, id := range c.Chats {
		var chat api.Chat
		if err := i.do(ctx, "look at the chat", request{op: api.OpChatsShow, path: []string{id}}, &chat); err != nil {
			return err
		}
		i.note("%s  %s", chat.ID, VisibleLine(chat.Title))
	}
	fmt.Fprintf(i.Stderr, "Delete for good? [y/N] ")
	answer, err := interruptible(ctx, func() (string, error) { return bufio.NewReader(i.Stdin).ReadString('\n') })
	if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return &Failure{Exit: ExitInterrupted, Message: "nothing was deleted", cause: err}
	}
	return nil
}

type chatsCompact struct {
	chatArg
	Instructions string `help:"What the summary should keep." short:"m"`
	RequestID    string `help:"Id of this request: sending the same request with the same id again does nothing new." placeholder:"ID"`
	Async        bool   `help:"Print the turn's id at once."`
	waitFlags
}

// Help implements kong's interface.
func (*chatsCompact) Help() string {
	return `Examples:

    garcon chats compact 1767225600000000 -m "Keep the API decisions"`
}

// Run has the agent compact its context.
func (c *chatsCompact) Run(ctx context.Context, i *Invocation) error {
	id, err := requestID(c.RequestID)
	if err != nil {
		return err
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	accepted, err := i.submit(ctx, "compact the chat", request{
		op: api.OpChatsCompact, path: []string{c.Chat}, body: api.CompactRequest{RequestID: id, Instructions: c.Instructions},
	})
	switch {
	case hasCode(err, api.CodeChatBusy):
		return i.busy(err, c.Chat, "")
	case err != nil:
		return err
	case c.Async:
		return i.printAccepted(accepted)
	}
	return i.waitAccepted(ctx, accepted, c.waitFlags)
}
