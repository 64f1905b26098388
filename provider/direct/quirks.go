package direct

import (
	"maps"
	"sync"

	"garcon/proto/exec"
)

// quirks is what was learned about a model at an endpoint. It is a value: a
// change makes a new one.
type quirks struct {
	// refused holds the names of optional fields that the server refused.
	refused map[string]bool
	// maxTokens is the largest answer the server allows, 0 when unknown.
	maxTokens int
	// bearer says that an Anthropic server wants the key as a bearer token.
	bearer bool
}

func (q quirks) has(field string) bool { return q.refused[field] }

// lesson is one thing to remember.
type lesson struct {
	// model limits the lesson to the model in question; else it is about the
	// whole endpoint.
	model   bool
	refused string
	max     int
	bearer  bool
}

func (q quirks) learn(l lesson) quirks {
	q.refused = maps.Clone(q.refused)
	if l.refused != "" {
		if q.refused == nil {
			q.refused = map[string]bool{}
		}
		q.refused[l.refused] = true
	}
	if l.max > 0 {
		q.maxTokens = l.max
	}
	q.bearer = q.bearer || l.bearer
	return q
}

// maxRemembered bounds the memory: far more models than a person uses. Beyond
// it everything is forgotten and learned again.
const maxRemembered = 1024

// memory keeps quirks for the life of an adapter.
type memory struct {
	mu    sync.Mutex
	known map[memoryKey]quirks
}

// memoryKey holds the address besides the id, since an endpoint can be pointed
// at another server.
type memoryKey struct{ endpoint, baseURL, model string }

func (m *memory) get(ep exec.Endpoint, model string) quirks {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.known[memoryKey{ep.ID, ep.BaseURL, ""}]
	one := m.known[memoryKey{ep.ID, ep.BaseURL, model}]
	out := quirks{refused: map[string]bool{}, maxTokens: one.maxTokens, bearer: all.bearer}
	maps.Copy(out.refused, all.refused)
	maps.Copy(out.refused, one.refused)
	return out
}

func (m *memory) learn(ep exec.Endpoint, model string, l lesson) {
	if !l.model {
		model = ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxRemembered {
		m.known = map[memoryKey]quirks{}
	}
	key := memoryKey{ep.ID, ep.BaseURL, model}
	m.known[key] = m.known[key].learn(l)
}
