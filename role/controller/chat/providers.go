package chat

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/store/registry"
)

// defaultProviderExecutors are those that may use a new provider.
var defaultProviderExecutors = []string{exec.LocalID}

func endpointOf(p registry.Provider) *exec.Endpoint {
	return &exec.Endpoint{ID: p.ID, Label: p.Label, Protocol: p.Protocol, BaseURL: p.BaseURL}
}

// providerFor returns the provider an agent uses: the named one, or the only
// one of its protocol.
func (s *Service) providerFor(m exec.Manifest, id string) (registry.Provider, error) {
	if id != "" {
		p, ok := s.registry.Provider(id)
		if !ok {
			return registry.Provider{}, api.NewError(api.CodeInvalid, "there is no provider "+id, "`garcon providers list` shows them.")
		}
		if p.Protocol != m.Protocol {
			return registry.Provider{}, api.NewError(api.CodeInvalid,
				fmt.Sprintf("provider %s speaks %s, %s needs %s", p.Label, p.Protocol, m.Label, m.Protocol), "Choose the agent "+p.Protocol+".")
		}
		return p, nil
	}
	var found []registry.Provider
	for _, p := range s.registry.Providers() {
		if p.Protocol == m.Protocol {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return registry.Provider{}, api.NewError(api.CodeInvalid, m.Label+" needs an API provider and there is none",
			"`garcon providers add --protocol "+m.Protocol+" --base-url URL` adds one.")
	}
	names := make([]string, len(found))
	for i, p := range found {
		names[i] = p.ID + " (" + p.Label + ")"
	}
	return registry.Provider{}, api.NewError(api.CodeInvalid, "there are several API providers for "+m.Label,
		"Use --provider with one of: "+strings.Join(names, ", ")+".")
}

// Providers lists the API providers.
func (s *Service) Providers() []api.Provider {
	ps := s.registry.Providers()
	out := make([]api.Provider, len(ps))
	for i, p := range ps {
		out[i] = presentProvider(p)
	}
	return out
}

func presentProvider(p registry.Provider) api.Provider {
	out := api.Provider{
		ID: p.ID, Label: p.Label, Protocol: p.Protocol, BaseURL: p.BaseURL, HasKey: p.HasKey, Models: p.Models,
		Executors: p.Executors, CreatedAt: p.CreatedAt,
	}
	if out.Models == nil {
		out.Models = []string{}
	}
	if out.Executors == nil {
		out.Executors = []string{}
	}
	return out
}

// AddProvider adds an API provider.
func (s *Service) AddProvider(ctx context.Context, req api.ProviderRequest) (api.Provider, error) {
	p := registry.Provider{ID: newID(), Executors: slices.Clone(defaultProviderExecutors), CreatedAt: now()}
	return s.putProvider(ctx, p, req)
}

// UpdateProvider changes an API provider.
func (s *Service) UpdateProvider(ctx context.Context, id string, req api.ProviderRequest) (api.Provider, error) {
	p, ok := s.registry.Provider(id)
	if !ok {
		return api.Provider{}, errNoProvider(id)
	}
	return s.putProvider(ctx, p, req)
}

func errNoProvider(id string) error {
	return api.NewError(api.CodeNotFound, "there is no provider "+id, "`garcon providers list` shows them.")
}

func (s *Service) putProvider(ctx context.Context, p registry.Provider, req api.ProviderRequest) (api.Provider, error) {
	set(&p.Label, req.Label)
	set(&p.Protocol, req.Protocol)
	set(&p.BaseURL, req.BaseURL)
	set(&p.Models, req.Models)
	if req.Key != nil {
		p.Key = exec.NewCredential(strings.TrimSpace(*req.Key))
	}
	if err := checkProvider(&p); err != nil {
		return api.Provider{}, err
	}
	for _, other := range s.registry.Providers() {
		if other.ID != p.ID && strings.EqualFold(other.Label, p.Label) {
			return api.Provider{}, api.NewError(api.CodeConflict, "another provider is called "+other.Label, "Choose another label.")
		}
	}
	p, err := s.registry.PutProvider(ctx, p)
	if err != nil {
		return api.Provider{}, storageError(err)
	}
	return presentProvider(p), nil
}

// protocols are the endpoint protocols of the direct agents, which are called
// like them.
var protocols = []string{"anthropic", "openai-chat", "openai-responses"}

func checkProvider(p *registry.Provider) error {
	p.Label = cleanTitle(p.Label)
	if !slices.Contains(protocols, p.Protocol) {
		return api.NewError(api.CodeInvalid, fmt.Sprintf("unknown protocol %q", p.Protocol), "Protocols: "+strings.Join(protocols, ", ")+".")
	}
	u, err := url.Parse(p.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return api.NewError(api.CodeInvalid, "the base URL must begin with http:// or https:// and name a host", "For example https://api.example.com/v1.")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return api.NewError(api.CodeInvalid, "the base URL must have no user, query or fragment", "The key goes in by itself: it is never part of a URL.")
	}
	p.BaseURL = strings.TrimRight(p.BaseURL, "/")
	if p.Label == "" {
		p.Label = u.Host
	}
	return nil
}

// RemoveProvider removes an API provider and its key.
func (s *Service) RemoveProvider(ctx context.Context, id string) error {
	if _, ok := s.registry.Provider(id); !ok {
		return errNoProvider(id)
	}
	return storageError(s.registry.DeleteProvider(ctx, id))
}

// TestProvider asks a provider for its models.
func (s *Service) TestProvider(ctx context.Context, id string) (api.ProviderTest, error) {
	p, ok := s.registry.Provider(id)
	if !ok {
		return api.ProviderTest{}, errNoProvider(id)
	}
	executor := exec.LocalID
	if len(p.Executors) > 0 {
		executor = p.Executors[0]
	}
	models, err := s.checkEndpoint(ctx, executor, p)
	if err != nil {
		e, ok := err.(*api.Error)
		if !ok {
			e = api.FromExec(exec.AsError(err))
		}
		return api.ProviderTest{Models: []exec.Model{}, Error: e}, nil
	}
	return api.ProviderTest{OK: true, Models: models}, nil
}

// checkEndpoint asks the provider, from the executor, and lists its models.
func (s *Service) checkEndpoint(ctx context.Context, executor string, p registry.Provider) ([]exec.Model, error) {
	integration, _, err := s.catalog(ctx, executor, p.Protocol, "")
	if err != nil {
		return nil, err
	}
	if integration.Endpoints == nil {
		return nil, exec.Errorf(exec.CodeUnsupported, "%s cannot check an endpoint", integration.Manifest.Label)
	}
	if err := integration.Endpoints.Check(ctx, endpointOf(p)); err != nil {
		return nil, err
	}
	models, err := s.Models(ctx, executor, p.Protocol, "", p.ID)
	if err != nil {
		// The endpoint works; a missing list is no failure of it.
		return []exec.Model{}, nil
	}
	return models, nil
}
