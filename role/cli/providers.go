package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// maxKey bounds the key of a provider, in bytes: far over any that is issued.
const maxKey = 16 << 10

// Providers are the commands about model APIs.
type Providers struct {
	Connection
	List   providersList   `cmd:"" default:"withargs" help:"List the providers (default)."`
	Add    providersAdd    `cmd:"" help:"Add a provider."`
	Update providersUpdate `cmd:"" help:"Change a provider."`
	Remove providersRemove `cmd:"" help:"Remove providers and their keys."`
	Test   providersTest   `cmd:"" help:"Ask a provider for its models."`
}

// providerFlags describe a provider.
type providerFlags struct {
	Label    string   `help:"Name for people, default the host of the address." placeholder:"NAME"`
	Protocol string   `help:"What the API speaks: anthropic, openai-chat or openai-responses." placeholder:"PROTOCOL"`
	BaseURL  string   `help:"Address of the API." name:"base-url" placeholder:"URL"`
	Model    []string `help:"Model to offer beside those the API lists; may be repeated." sep:"none" placeholder:"ID"`
	KeyStdin bool     `help:"Read the key from standard input." xor:"key"`
	KeyEnv   string   `help:"Read the key from this environment variable." placeholder:"NAME" xor:"key"`
}

// request returns the parts of the provider that were given.
func (f *providerFlags) request() api.ProviderRequest {
	var req api.ProviderRequest
	if f.Label != "" {
		req.Label = &f.Label
	}
	if f.Protocol != "" {
		req.Protocol = &f.Protocol
	}
	if f.BaseURL != "" {
		req.BaseURL = &f.BaseURL
	}
	if len(f.Model) > 0 {
		req.Models = &f.Model
	}
	return req
}

// key returns the key, nil when none is given. It is never an argument of the
// program: every user of the machine can see those.
func (f *providerFlags) key(ctx context.Context, e *Env, ask bool) (*string, error) {
	var key string
	var err error
	switch {
	case f.KeyEnv != "":
		if key = e.Getenv(f.KeyEnv); key == "" {
			return nil, usage("the environment variable "+f.KeyEnv+" is not set", "")
		}
	case f.KeyStdin:
		if key, err = e.readText(ctx, "key", maxKey); err != nil {
			return nil, err
		}
		if strings.TrimSpace(key) == "" {
			return nil, usage("there is no key on standard input", "")
		}
	case ask && e.StdinFD >= 0:
		fmt.Fprint(e.Stderr, "Key (empty for none): ")
		if key, err = e.readHidden(ctx); err != nil {
			return nil, &Failure{Exit: ExitInterrupted, Message: "nothing was changed", cause: err}
		}
	}
	if key = strings.TrimSpace(key); key == "" {
		return nil, nil
	}
	return &key, nil
}

type providersList struct{}

// Help implements kong's interface.
func (*providersList) Help() string {
	return `Piped, each line is: id, name, protocol, address, key, models.

Examples:

    garcon providers
    garcon providers list --json`
}

// Run lists the providers.
func (c *providersList) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	var list api.ProviderList
	if err := i.do(ctx, "list the providers", request{op: api.OpProvidersList}, &list); err != nil {
		return err
	}
	if i.json {
		return i.document(list)
	}
	return i.printProviders(list.Providers)
}

func (i *Invocation) printProviders(providers []api.Provider) error {
	out := table{
		head: []string{"ID", "NAME", "PROTOCOL", "ADDRESS", "KEY", "MODELS"}, flex: 5,
		empty: "There are no providers. Add one: " + i.command("providers", "add") + " --label NAME --protocol PROTOCOL --base-url URL",
	}
	for _, p := range providers {
		out.rows = append(out.rows, []string{p.ID, p.Label, p.Protocol, p.BaseURL, yesNo(p.HasKey), strings.Join(p.Models, ",")})
	}
	return i.table(out)
}

// providerDocument is the document of commands about one provider.
type providerDocument struct {
	Provider api.Provider `json:"provider"`
}

func (i *Invocation) printProvider(p api.Provider) error {
	if i.json {
		return i.document(providerDocument{p})
	}
	return i.printProviders([]api.Provider{p})
}

type providersAdd struct{ providerFlags }

// Help implements kong's interface.
func (*providersAdd) Help() string {
	return `The key is read from standard input, from an environment variable, or asked for on the terminal.

Examples:

    garcon providers add --label Work --protocol anthropic --base-url https://api.anthropic.com --key-env ANTHROPIC_API_KEY
    pass show openai | garcon providers add --label OpenAI --protocol openai-responses --base-url https://api.openai.com/v1 --key-stdin`
}

// Run adds a provider.
func (c *providersAdd) Run(ctx context.Context, i *Invocation) error {
	if c.Protocol == "" || c.BaseURL == "" {
		return usage("a provider needs --protocol and --base-url", "")
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" {
		return usage(fmt.Sprintf("%q is no address of an API", c.BaseURL), "It is like https://api.example.com/v1.")
	}
	if c.Label == "" {
		c.Label = base.Host
	}
	req := c.request()
	if req.Key, err = c.key(ctx, i.Env, true); err != nil {
		return err
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	var p api.Provider
	if err := i.do(ctx, "add the provider", request{op: api.OpProvidersAdd, body: req}, &p); err != nil {
		return err
	}
	if !p.HasKey {
		i.note("The provider has no key.")
	}
	return i.printProvider(p)
}

// providerArg is the argument of commands about one provider.
type providerArg struct {
	Provider string `arg:"" help:"Id of the provider, as providers list shows it."`
}

type providersUpdate struct {
	providerArg
	providerFlags
	AskKey bool `help:"Ask for a new key on the terminal."`
}

// Help implements kong's interface.
func (*providersUpdate) Help() string {
	return `What is not given stays. Another host in the address clears the key unless a new one comes with it.

Examples:

    garcon providers update work --ask-key
    garcon providers update work --base-url https://proxy.example --key-env PROXY_KEY`
}

// Run changes a provider.
func (c *providersUpdate) Run(ctx context.Context, i *Invocation) error {
	req := c.request()
	var err error
	if req.Key, err = c.key(ctx, i.Env, c.AskKey); err != nil {
		return err
	}
	if req == (api.ProviderRequest{}) {
		return usage("there is nothing to change", "")
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	var p api.Provider
	if err := i.do(ctx, "change the provider", request{op: api.OpProvidersUpdate, path: []string{c.Provider}, body: req}, &p); err != nil {
		return err
	}
	if !p.HasKey {
		i.note("The provider has no key.")
	}
	return i.printProvider(p)
}

type providersRemove struct {
	Providers []string `arg:"" name:"provider" help:"Ids of the providers."`
}

// removedDocument is the document of providers remove.
type removedDocument struct {
	Removed []string `json:"removed"`
}

// Run removes providers.
func (c *providersRemove) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	for _, id := range c.Providers {
		if err := i.do(ctx, "remove the provider", request{op: api.OpProvidersRemove, path: []string{id}}, nil); err != nil {
			return err
		}
		if !i.json {
			if err := i.printf("removed %s\n", VisibleLine(id)); err != nil {
				return err
			}
		}
	}
	if i.json {
		return i.document(removedDocument{c.Providers})
	}
	return nil
}

type providersTest struct{ providerArg }

// testDocument is the document of providers test.
type testDocument struct {
	ProviderID string       `json:"providerId"`
	OK         bool         `json:"ok"`
	Models     []exec.Model `json:"models"`
	Error      *api.Error   `json:"error,omitempty"`
}

// Run asks a provider for its models.
func (c *providersTest) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	var test api.ProviderTest
	if err := i.do(ctx, "test the provider", request{op: api.OpProvidersTest, path: []string{c.Provider}}, &test); err != nil {
		return err
	}
	if test.Models == nil {
		test.Models = []exec.Model{}
	}
	if i.json {
		if err := i.document(testDocument{c.Provider, test.OK, test.Models, test.Error}); err != nil {
			return err
		}
	}
	if !test.OK {
		failure := &Failure{Exit: ExitUnavailable, Message: "the provider does not work" + because(test.Error)}
		if test.Error != nil {
			failure.Code, failure.Hint = test.Error.Code, test.Error.Hint
		}
		return failure
	}
	if i.json {
		return nil
	}
	out := table{head: []string{"MODEL", "NAME"}, flex: 1, empty: "The provider answers, and lists no models."}
	for _, m := range test.Models {
		out.rows = append(out.rows, []string{m.ID, m.Label})
	}
	return i.table(out)
}
