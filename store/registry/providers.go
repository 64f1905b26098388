package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"garcon/proto/exec"
)

func (p Provider) clone() Provider {
	p.Executors = slices.Clone(p.Executors)
	p.Models = slices.Clone(p.Models)
	return p
}

// Providers returns every provider, by id.
func (s *Store) Providers() []Provider {
	s.mu.RLock()
	out := make([]Provider, 0, len(s.provider))
	for _, p := range s.provider {
		out = append(out, p.clone())
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b Provider) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Provider returns one provider.
func (s *Store) Provider(id string) (Provider, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, ok := s.provider[id]
	return p.clone(), ok
}

// PutProvider stores a provider and returns it as stored.
func (s *Store) PutProvider(ctx context.Context, p Provider) (Provider, error) {
	if p.ID == "" || len(p.ID) > maxKey {
		return Provider{}, fmt.Errorf("%w: a provider needs an id", ErrInvalid)
	}
	p = p.clone()
	key := p.Key.Reveal()
	p.Key = exec.Credential{}
	err := s.do(ctx, func(t *txn) error {
		at, keyAt := place{bucketProviders, p.ID}, place{bucketKeys, p.ID}
		_, p.HasKey = t.get(keyAt)
		if raw, ok := t.get(at); ok && p.HasKey {
			var before Provider
			if err := json.Unmarshal(raw, &before); err != nil {
				return err
			}
			if !sameHost(before.BaseURL, p.BaseURL) {
				// A key must not follow its provider to another host.
				t.remove(keyAt)
				p.HasKey = false
			}
		}
		if key != "" {
			t.put(keyAt, []byte(key))
			p.HasKey = true
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return err
		}
		t.put(at, raw)
		return nil
	})
	if err != nil {
		return Provider{}, err
	}
	return p, nil
}

// sameHost reports whether two base URLs lead to the same scheme, host and
// port.
func sameHost(a, b string) bool {
	u, err := url.Parse(a)
	if err != nil {
		return false
	}
	v, err := url.Parse(b)
	return err == nil && u.Scheme == v.Scheme && strings.EqualFold(u.Host, v.Host)
}

// DeleteProvider removes a provider with its key.
func (s *Store) DeleteProvider(ctx context.Context, id string) error {
	return s.do(ctx, func(t *txn) error {
		if _, ok := t.get(place{bucketProviders, id}); !ok {
			return fmt.Errorf("%w: provider %s", ErrNotFound, id)
		}
		t.remove(place{bucketProviders, id})
		t.remove(place{bucketKeys, id})
		return nil
	})
}

// ProviderKey returns the key of a provider that has one.
func (s *Store) ProviderKey(id string) (exec.Credential, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	key, ok := s.keys[id]
	return key, ok
}
