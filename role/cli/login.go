package cli

import (
	"context"
	"time"

	"garcon/proto/api"
)

// Login prints a link that signs a browser in.
type Login struct{ Connection }

// Help implements kong's interface.
func (*Login) Help() string {
	return `The link works once and for ten minutes. Its secret is in the part behind the #, which a browser sends to nobody. Whoever opens it can run programs on the controller's machine: pass it on to yourself only.

Examples:

    garcon login
    xdg-open "$(garcon login)"`
}

// Run asks the controller for a link and prints it.
func (*Login) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	var link api.LoginLink
	if err := i.do(ctx, "ask for a link", request{op: api.OpLoginLink, body: struct{}{}}, &link); err != nil {
		return err
	}
	if i.json {
		return i.document(link)
	}
	if i.StdoutTerminal {
		until := time.UnixMilli(link.ExpiresAt).Format("15:04")
		i.note("Open this link in a browser before %s; it works once:", until)
	}
	return i.printf("%s\n", Visible(link.URL))
}
