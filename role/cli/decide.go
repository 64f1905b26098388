package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"garcon/proto/api"
	"garcon/proto/row"
)

type chatsDecide struct {
	chatArg
	Occurrence   string `help:"Which request, when there is more than one." placeholder:"ID"`
	Allow        bool   `help:"Let this one call run." xor:"decision"`
	AllowSession bool   `help:"Let this call and what the option describes run from now on." xor:"decision"`
	Deny         bool   `help:"Refuse the call; the agent goes on." xor:"decision"`
	DenyStop     bool   `help:"Refuse the call and end the turn." xor:"decision"`
	Option       string `help:"Choose the option with this id." placeholder:"ID" xor:"decision"`
	Message      string `help:"What to tell the agent with a refusal." short:"m"`
}

// Help implements kong's interface.
func (*chatsDecide) Help() string {
	return `Without a decision the open requests and their options are listed. The first answer counts; a later one is refused.

Examples:

    garcon chats decide 1767225600000000
    garcon chats decide 1767225600000000 --allow
    garcon chats decide 1767225600000000 --occurrence perm-1 --deny -m "Use the test database"`
}

// resolvedDocument is the document of an answered request.
type resolvedDocument struct {
	ChatID string `json:"chatId"`
	api.Resolved
}

// pendingDocument is the document of open requests.
type pendingDocument struct {
	ChatID  string        `json:"chatId"`
	Pending []api.Pending `json:"pending"`
}

// Run answers the request.
func (c *chatsDecide) Run(ctx context.Context, i *Invocation) error {
	req := api.DecideRequest{OptionID: c.Option, Message: c.Message}
	switch {
	case c.Allow:
		req.Decision = row.AllowOnce
	case c.AllowSession:
		req.Decision = row.AllowSession
	case c.Deny:
		req.Decision = row.Deny
	case c.DenyStop:
		req.Decision = row.DenyStop
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	pending, err := i.pending(ctx, c.Chat, row.KindPermission)
	if err != nil {
		return err
	}
	if req.Decision == "" && req.OptionID == "" {
		return i.listPending(c.Chat, pending, usage("there is no decision", "Add --allow, --allow-session, --deny, --deny-stop or --option ID."))
	}
	p, err := i.choose(c.Chat, pending, c.Occurrence)
	if err != nil {
		return err
	}
	req.RunID, req.ControlID = p.RunID, p.ControlID
	var done api.Resolved
	r := request{op: api.OpDecide, path: []string{c.Chat, p.Occurrence}, body: req}
	if err := i.do(ctx, "answer the request", r, &done); err != nil {
		return err
	}
	return i.printResolved(c.Chat, done)
}

// pending returns the chat's open requests of a kind.
func (i *Invocation) pending(ctx context.Context, chat string, kind row.Kind) ([]api.Pending, error) {
	var control api.Control
	if err := i.do(ctx, "look at the chat", request{op: api.OpChatsControl, path: []string{chat}}, &control); err != nil {
		return nil, err
	}
	var out []api.Pending
	for _, p := range control.Pending {
		if p.Kind == kind {
			out = append(out, p)
		}
	}
	return out, nil
}

// choose returns the request with the occurrence, or the only one there is.
func (i *Invocation) choose(chat string, pending []api.Pending, occurrence string) (api.Pending, error) {
	if occurrence != "" {
		for _, p := range pending {
			if p.Occurrence == occurrence {
				return p, nil
			}
		}
		return api.Pending{}, unavailable(fmt.Sprintf("the chat has no open request %s", occurrence),
			"It may have been answered already. See: "+i.command("chats", "status", chat), nil)
	}
	switch len(pending) {
	case 0:
		return api.Pending{}, unavailable("the chat has no open request", "See: "+i.command("chats", "status", chat), nil)
	case 1:
		return pending[0], nil
	}
	return api.Pending{}, i.listPending(chat, pending, usage("the chat has several open requests", "Add --occurrence with the one that is meant."))
}

// listPending prints the open requests and returns err, or says that there are
// none.
func (i *Invocation) listPending(chat string, pending []api.Pending, err error) error {
	if len(pending) == 0 {
		return unavailable("the chat has no open request", "See: "+i.command("chats", "status", chat), nil)
	}
	if i.json {
		if err := i.document(pendingDocument{chat, pending}); err != nil {
			return err
		}
		return err
	}
	for _, p := range pending {
		i.note("%s", i.pendingText(chat, p))
	}
	return err
}

// pendingText describes an open request and says how to answer it.
func (i *Invocation) pendingText(chat string, p api.Pending) string {
	var x row.Row
	if err := json.Unmarshal(p.Row, &x); err != nil {
		return fmt.Sprintf("The agent asks something this version does not understand (%s).", VisibleLine(p.Occurrence))
	}
	var b strings.Builder
	switch body := x.Body.(type) {
	case *row.Permission:
		fmt.Fprintf(&b, "The agent asks for permission (%s) to run %s: %s\n", VisibleLine(p.Occurrence), VisibleLine(string(body.Tool)),
			VisibleLine(summary(body.Tool, body.Title, body.Input)))
		if body.Reason != "" {
			fmt.Fprintf(&b, "  %s\n", VisibleLine(body.Reason))
		}
		for _, o := range body.Options {
			fmt.Fprintf(&b, "  %s: %s\n", decisionFlag(o), VisibleLine(o.Label))
		}
	case *row.Question:
		fmt.Fprintf(&b, "The agent asks (%s):\n%s\n", VisibleLine(p.Occurrence), indent(questionText(body)))
	}
	fmt.Fprintf(&b, "  %s", i.answerCommand(chat, p.Kind, p.Occurrence))
	return b.String()
}

// answerCommand is the command that answers a request.
func (i *Invocation) answerCommand(chat string, kind row.Kind, occurrence string) string {
	if kind == row.KindQuestion {
		return i.command("chats", "answer", chat, "--occurrence", occurrence)
	}
	return i.command("chats", "decide", chat, "--occurrence", occurrence, "--allow")
}

// decisionFlag returns the flag that chooses an option.
func decisionFlag(o row.PermissionOption) string {
	switch o.Decision {
	case row.AllowOnce:
		return "--allow"
	case row.AllowSession:
		return "--allow-session"
	case row.Deny:
		return "--deny"
	case row.DenyStop:
		return "--deny-stop"
	}
	return "--option " + shellQuote(VisibleLine(o.ID))
}

// printResolved prints what became of an answer.
func (i *Invocation) printResolved(chat string, done api.Resolved) error {
	if i.json {
		if err := i.document(resolvedDocument{chat, done}); err != nil {
			return err
		}
	} else if err := i.printf("%s: %s\n", VisibleLine(done.Occurrence), VisibleLine(done.Outcome)); err != nil {
		return err
	}
	if done.Outcome == "unknown" {
		return unavailable("nobody knows whether the agent got the answer", "Watch what it does: "+i.command("chats", "watch", chat), nil)
	}
	return nil
}
