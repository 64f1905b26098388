package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"garcon/proto/api"
	"garcon/store/runtimefile"
)

// proofTimeout bounds proving the endpoint and reading the server's context:
// both only touch memory, and a runtime that cannot do that in this time is
// not available.
const proofTimeout = 5 * time.Second

// challengeSize is the size of a challenge in bytes.
const challengeSize = 32

// Global are the flags of the whole program.
type Global struct {
	ConfigDir string `help:"Configuration directory, default ~/.garcon." placeholder:"DIR" env:"GARCON_CONFIG_DIR"`
}

// Connection are the flags of every command that talks to a server.
type Connection struct {
	Runtime string `help:"Runtime to talk to: auto, controller or executor." default:"auto" enum:"auto,controller,executor" env:"GARCON_RUNTIME" group:"Connection:"`
	Server  string `help:"Fail unless the runtime serves at this URL." placeholder:"URL" env:"GARCON_SERVER" group:"Connection:"`
	JSON    bool   `help:"Print one JSON document on standard output." name:"json" group:"Connection:"`
}

// AfterApply implements kong's hook: it offers the invocation to the command.
func (c *Connection) AfterApply(k *kong.Context, env *Env, g *Global) error {
	env.json = c.JSON
	root, err := env.Root(g.ConfigDir)
	if err != nil {
		return err
	}
	k.Bind(&Invocation{Env: env, root: root, flags: *c})
	return nil
}

// Invocation is one run of a command: the environment, and the server once
// [Invocation.connect] found it.
type Invocation struct {
	*Env
	// root is the configuration directory, absolute.
	root  string
	flags Connection

	// These are set by connect.
	client  *client
	role    string
	context api.Context
}

// connect finds the runtime, proves that it wrote its descriptor, and reads the
// server's context. It is called once, before anything else is asked.
func (i *Invocation) connect(ctx context.Context) error {
	d, warnings, err := runtimefile.Discover(i.root, runtimefile.Mode(i.flags.Runtime))
	for _, w := range warnings {
		i.note("warning: %s", Visible(w))
	}
	if errors.Is(err, runtimefile.ErrMissing) {
		return i.notRunning(err)
	}
	if err != nil {
		return unavailable(err.Error(), "If no garcon is running, remove the file; else stop it and start it again.", err)
	}
	if i.flags.Server != "" && !sameURL(i.flags.Server, d.URL) {
		return unavailable(fmt.Sprintf("the %s serves at %s, not at %s", d.Role, d.URL, i.flags.Server),
			"Leave --server out, or start the one that is meant.", nil)
	}
	c := newClient(d.URL)
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	if err := c.prove(ctx, d); err != nil {
		return i.explain(err, fmt.Sprintf("reach the %s at %s", d.Role, d.URL))
	}
	c.bearer = runtimefile.Bearer(d.Capability)
	c.instance = d.InstanceID
	if d.Role == runtimefile.RoleExecutor {
		// A gateway has an instance of its own; that of the controller behind
		// it comes with the context.
		c.instance = ""
	}
	if err := c.call(ctx, request{op: api.OpContext}, &i.context); err != nil {
		return i.explain(err, "ask the "+d.Role+" what it serves")
	}
	c.instance = i.context.ServerInstanceID
	i.client, i.role = c, d.Role
	return nil
}

// notRunning is the failure of a root without a runtime.
func (i *Invocation) notRunning(cause error) error {
	role := i.flags.Runtime
	if role == string(runtimefile.Auto) {
		role = runtimefile.RoleController
	}
	return unavailable(fmt.Sprintf("no %s is running with the configuration directory %s", role, i.root),
		fmt.Sprintf("Start one: garcon %s --config-dir %s", role, shellQuote(i.root)), cause)
}

// prove has the server answer a challenge that only the writer of the
// descriptor can answer. Nothing secret is sent.
func (c *client) prove(ctx context.Context, d runtimefile.Descriptor) error {
	challenge := make([]byte, challengeSize)
	// crypto/rand does not fail; it ends the program if it would.
	_, _ = rand.Read(challenge)
	var proof api.RuntimeProof
	r := request{op: api.OpRuntime, query: url.Values{"challenge": {hex.EncodeToString(challenge)}}}
	if err := c.call(ctx, r, &proof); err != nil {
		return err
	}
	if proof.Role != d.Role || proof.InstanceID != d.InstanceID || proof.URL != d.URL ||
		!runtimefile.Verify(d.Capability, d.Role, d.InstanceID, d.URL, challenge, proof.Proof) {
		return unavailable(fmt.Sprintf("what answers at %s is not the %s that wrote the runtime file", d.URL, d.Role),
			"Nothing was sent to it. Start the "+d.Role+" again.", nil)
	}
	return nil
}

// explain turns the error of a request into one for people. what completes
// "cannot …".
func (i *Invocation) explain(err error, what string) error {
	t, ok := errors.AsType[*transportError](err)
	if !ok {
		return i.withCommand(err)
	}
	if errors.Is(err, context.Canceled) {
		return &Failure{Exit: ExitInterrupted, Message: "interrupted", cause: err}
	}
	message := fmt.Sprintf("cannot %s: %v", what, t.err)
	hint := "Check it with: " + i.command("doctor")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		message = fmt.Sprintf("cannot %s: no answer in time", what)
	case !t.sent:
		hint = fmt.Sprintf("It may have ended. Start it again: garcon %s --config-dir %s", i.roleOr(), shellQuote(i.root))
	}
	return unavailable(message, hint, err)
}

// withCommand adds this program's hint to refusals that a command resolves.
func (i *Invocation) withCommand(err error) error {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return err
	}
	if f.Code == api.CodeControllerChanged {
		c := *f
		c.Hint = "Another controller is running now. Run the command again to use it."
		return &c
	}
	return f
}

// do makes a request of a connected invocation.
func (i *Invocation) do(ctx context.Context, what string, r request, out any) error {
	if err := i.client.call(ctx, r, out); err != nil {
		return i.explain(err, what)
	}
	return nil
}

// command returns a command line of this program that talks to the same
// runtime from any directory and environment.
func (i *Invocation) command(words ...string) string {
	line := []string{"garcon"}
	for _, w := range words {
		line = append(line, shellQuote(w))
	}
	return strings.Join(append(line, "--config-dir", shellQuote(i.root), "--runtime", i.roleOr()), " ")
}

// roleOr returns the role of the runtime, or the one that would be looked for.
func (i *Invocation) roleOr() string {
	switch {
	case i.role != "":
		return i.role
	case i.flags.Runtime == string(runtimefile.Executor):
		return runtimefile.RoleExecutor
	}
	return runtimefile.RoleController
}

// shellQuote returns the word as a POSIX shell reads it back.
func shellQuote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// sameURL compares an asserted URL with that of a descriptor.
func sameURL(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "/"), strings.TrimSuffix(b, "/"))
}
