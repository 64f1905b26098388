package chat

import (
	"context"
	"slices"

	"garcon/proto/exec"
)

// credentials implements [exec.Credentials] for one executor.
type credentials struct {
	s        func() *Service
	executor string
}

// CredentialsFor returns what the executor may resolve. s is called for each
// request, because a runtime is made before the service that uses it; it returns
// nil until then.
func CredentialsFor(executor string, s func() *Service) exec.Credentials {
	return credentials{s, executor}
}

// Resolve implements [exec.Credentials]: it answers for a provider assigned to
// the executor. A run must be one of a chat there that uses the provider.
func (c credentials) Resolve(_ context.Context, endpointID, runID string) (exec.Credential, error) {
	s := c.s()
	if s == nil {
		return exec.Credential{}, exec.Errorf(exec.CodeUnavailable, "the controller is still starting")
	}
	p, ok := s.registry.Provider(endpointID)
	if !ok {
		return exec.Credential{}, exec.Errorf(exec.CodeRefused, "the API provider of this chat has been removed").
			WithHint("Choose another with `garcon chats start --provider`.")
	}
	if !slices.Contains(p.Executors, c.executor) {
		return exec.Credential{}, exec.Errorf(exec.CodeRefused, "provider %s is not assigned to executor %s", p.Label, c.executor)
	}
	if runID != "" && !s.runUses(runID, c.executor, endpointID) {
		return exec.Credential{}, exec.Errorf(exec.CodeRefused, "the run does not use provider %s", p.Label)
	}
	key, _ := s.registry.ProviderKey(endpointID)
	return key, nil
}

// runUses reports whether a live run belongs to a chat on the executor with
// the provider.
func (s *Service) runUses(runID, executor, provider string) bool {
	for _, o := range s.live() {
		o.mu.Lock()
		_, ok := o.runs[runID]
		o.mu.Unlock()
		if ok {
			c, err := o.record()
			return err == nil && c.ExecutorID == executor && c.EndpointID == provider
		}
	}
	return false
}
