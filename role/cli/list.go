package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"garcon/proto/api"
)

type chatsList struct {
	All      bool   `help:"Archived chats, too." xor:"archived"`
	Archived bool   `help:"Archived chats only." xor:"archived"`
	Tag      string `help:"Only chats with this tag."`
	Project  string `help:"Only chats of this project directory." placeholder:"DIR"`
	Agent    string `help:"Only chats of this agent." placeholder:"ID"`
}

// Help implements kong's interface.
func (*chatsList) Help() string {
	return `Piped, each line is: id, state, agent, title, project, last activity, tags, marks.

Examples:

    garcon chats
    garcon chats list --tag nightly --json
    garcon chats list --all | cut -f1,4`
}

// Run lists chats.
func (c *chatsList) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	query := url.Values{}
	switch {
	case c.All:
		query.Set("archived", "true")
	case c.Archived:
		query.Set("only", "archived")
	}
	for name, value := range map[string]string{"tag": c.Tag, "project": c.Project, "agent": c.Agent} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var list api.ChatList
	if err := i.do(ctx, "list the chats", request{op: api.OpChatsList, query: query}, &list); err != nil {
		return err
	}
	if i.json {
		return i.document(list)
	}
	t := table{
		head: []string{"ID", "STATE", "AGENT", "TITLE", "PROJECT", "ACTIVITY", "TAGS", "MARKS"}, flex: 3,
		empty: "There are no chats. Start one: " + i.command("chats", "start") + " MESSAGE",
	}
	for _, chat := range list.Chats {
		t.rows = append(t.rows, []string{
			chat.ID, stateText(chat), chat.Agent, chat.Title, i.path(chat.ProjectPath), i.when(chat.LastActivity), strings.Join(chat.Tags, ","), marks(chat),
		})
	}
	return i.table(t)
}

// stateText says in a word or two what a chat is doing.
func stateText(c api.Chat) string {
	var words []string
	switch {
	case c.State.Unavailable != "":
		words = append(words, "damaged")
	case c.State.Pending > 0:
		words = append(words, "waiting for you")
	default:
		words = append(words, string(c.State.Phase))
	}
	if c.State.Queued > 0 {
		queued := fmt.Sprintf("%d queued", c.State.Queued)
		if c.State.QueuePaused {
			queued += " (paused)"
		}
		words = append(words, queued)
	}
	return strings.Join(words, ", ")
}

// marks says how the user has marked a chat.
func marks(c api.Chat) string {
	var words []string
	if c.Pinned {
		words = append(words, "pinned")
	}
	if c.Archived {
		words = append(words, "archived")
	}
	if c.Unread {
		words = append(words, "unread")
	}
	return strings.Join(words, ",")
}

// path shortens a path under the home directory for people.
func (e *Env) path(p string) string {
	if rest, ok := strings.CutPrefix(p, e.Home); ok && e.StdoutTerminal && e.Home != "" && (rest == "" || rest[0] == '/') {
		return "~" + rest
	}
	return p
}

// when returns a time: how long ago for people, RFC 3339 for programs.
func (e *Env) when(ms int64) string {
	if ms == 0 {
		return ""
	}
	at := time.UnixMilli(ms)
	if !e.StdoutTerminal {
		return at.UTC().Format(time.RFC3339)
	}
	switch ago := time.Since(at); {
	case ago < time.Minute:
		return "now"
	case ago < time.Hour:
		return fmt.Sprintf("%d min ago", int(ago.Minutes()))
	case ago < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(ago.Hours()))
	default:
		return at.Format("2006-01-02")
	}
}
