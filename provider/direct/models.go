package direct

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

const (
	// listTimeout bounds a whole listing.
	listTimeout = 10 * time.Second
	// listLifetime is how long a listing is good.
	listLifetime = 5 * time.Minute
	// maxListBody bounds a page of a listing. The largest public one, of some
	// hundred models, has less than a megabyte.
	maxListBody = 16 << 20
	// maxModels bounds a listing; more nobody can choose from.
	maxModels = 5000
	// maxPages bounds a listing that comes in pages.
	maxPages = 20
	// maxListings bounds the cache.
	maxListings = 256
	// maxModelText bounds ids and names, in bytes.
	maxModelText = 512
)

// Models implements [exec.Catalog]. An endpoint that has no listing gives an
// empty one: any model id may be typed.
func (a *adapter) Models(ctx context.Context, _ string, endpoint *exec.Endpoint) ([]exec.Model, error) {
	credential, bad := a.credential(ctx, endpoint, "")
	if bad != nil {
		return nil, bad
	}
	if models, ok := a.models.get(*endpoint, time.Now()); ok {
		return exported(models), nil
	}
	models, err := a.client.list(ctx, *endpoint, credential)
	if err != nil && !errors.Is(err, errNoListing) {
		return nil, err
	}
	a.models.put(*endpoint, models, time.Now())
	return exported(models), nil
}

// exported returns a copy that the caller may change.
func exported(models []listed) []exec.Model {
	out := make([]exec.Model, len(models))
	for i, m := range models {
		out[i] = m.Model
		out[i].Efforts = slices.Clone(m.Efforts)
	}
	return out
}

// listed is a model of a listing.
type listed struct {
	exec.Model
	// images is what the listing says of pictures.
	images certainty
}

// certainty is whether something is known.
type certainty string

const (
	certain  certainty = "yes"
	ruledOut certainty = "no"
)

// modelCache keeps listings by endpoint.
type modelCache struct {
	mu       sync.Mutex
	listings map[listingKey]listing
}

type listingKey struct{ endpoint, baseURL string }

type listing struct {
	models []listed
	at     time.Time
}

func (c *modelCache) get(ep exec.Endpoint, now time.Time) ([]listed, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.listings[listingKey{ep.ID, ep.BaseURL}]
	return l.models, ok && now.Sub(l.at) < listLifetime
}

func (c *modelCache) put(ep exec.Endpoint, models []listed, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listings == nil || len(c.listings) >= maxListings {
		c.listings = map[listingKey]listing{}
	}
	c.listings[listingKey{ep.ID, ep.BaseURL}] = listing{models, now}
}

// find returns a model of the last listing, however old.
func (c *modelCache) find(ep exec.Endpoint, id string) (listed, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	models := c.listings[listingKey{ep.ID, ep.BaseURL}].models
	i := slices.IndexFunc(models, func(m listed) bool { return m.ID == id })
	if i < 0 {
		return listed{}, false
	}
	return models[i], true
}

// errNoListing means that the endpoint offers no listing of models.
var errNoListing = errors.New("the endpoint lists no models")

// list fetches the models of an endpoint. It fails with [errNoListing] or with
// an [*exec.Error].
func (c *client) list(ctx context.Context, ep exec.Endpoint, credential exec.Credential) ([]listed, error) {
	base, bad := baseURL(ep)
	if bad != nil {
		return nil, bad
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var models []listed
	seen := map[string]bool{}
	address := c.codec.models(base)
	for range maxPages {
		page, next, err := c.page(ctx, ep, credential, address)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if !seen[m.ID] && len(models) < maxModels {
				seen[m.ID] = true
				models = append(models, m)
			}
		}
		if next == "" || len(models) >= maxModels {
			break
		}
		q := address.Query()
		if q.Get("after_id") == next {
			break
		}
		q.Set("after_id", next)
		address = withQuery(address, q)
	}
	return models, nil
}

func withQuery(u *url.URL, q url.Values) *url.URL {
	c := *u
	c.RawQuery = q.Encode()
	return &c
}

// page fetches one page; next is the id to go on after, "" at the end.
func (c *client) page(ctx context.Context, ep exec.Endpoint, credential exec.Credential, address *url.URL) (page []listed, next string, err error) {
	status, header, body, f := c.get(ctx, ep, credential, http.MethodGet, address, nil)
	if f != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, "", exec.Errorf(exec.CodeUnreachable, "%s did not list its models within %s.",
				capital(endpointName(ep)), listTimeout).WithHint("Check whether the server is working.")
		}
		return nil, "", f.err
	}
	switch {
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return nil, "", errNoListing
	case status != http.StatusOK:
		return nil, "", judge(ep, "", parseAPIError(status, body, credential.Reveal()), header, time.Now()).err
	}
	page, next, ok := parseModels(body)
	if !ok {
		return nil, "", exec.Errorf(exec.CodeUnreachable, "%s does not answer with a list of models.", capital(endpointName(ep))).
			WithHint("Check the base URL and the protocol of the endpoint; many base URLs end in /v1.").
			WithDispatched(exec.WasDispatched)
	}
	return page, next, nil
}

// get makes a small request and reads the answer as a whole.
func (c *client) get(ctx context.Context, ep exec.Endpoint, credential exec.Credential, method string, address *url.URL, body []byte,
) (status int, header http.Header, answer []byte, f *failure) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := c.memory.get(ep, "")
	for {
		h := http.Header{}
		h.Set("Accept", "application/json")
		if body != nil {
			h.Set("Content-Type", "application/json")
		}
		c.codec.authorize(h, credential.Reveal(), q)
		resp, f := c.send(ctx, cancel, ep, method, address, h, body)
		if f != nil {
			return 0, nil, nil, f
		}
		answer, f := readAnswer(ep, resp)
		if f != nil {
			return 0, nil, nil, f
		}
		if resp.StatusCode == http.StatusUnauthorized && credential.Reveal() != "" {
			e := parseAPIError(resp.StatusCode, answer, credential.Reveal())
			if l, ok := c.codec.adapt(turn{}, q, address.Host, e); ok {
				c.memory.learn(ep, "", l)
				q = q.learn(l)
				continue
			}
		}
		return resp.StatusCode, resp.Header, answer, nil
	}
}

// readAnswer reads the body of a small answer and closes it.
func readAnswer(ep exec.Endpoint, resp *http.Response) ([]byte, *failure) {
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxListBody+1))
	switch {
	case err != nil:
		return nil, again(broken(ep, err))
	case len(answer) > maxListBody:
		return nil, fatal(exec.Errorf(exec.CodeModelError, "The list of models of %s is larger than %d MB.",
			endpointName(ep), maxListBody>>20).WithHint("Type the name of the model instead."))
	}
	return answer, nil
}

// modelEntry holds the members of all kinds of listings.
type modelEntry struct {
	ID          lenientText `json:"id"`
	Name        lenientText `json:"name"`
	Model       lenientText `json:"model"`
	DisplayName lenientText `json:"display_name"`
	Description lenientText `json:"description"`
	Type        lenientText `json:"type"`

	ContextLength    lenientInt `json:"context_length"`
	ContextWindow    lenientInt `json:"context_window"`
	MaxModelLen      lenientInt `json:"max_model_len"`
	MaxContextLength lenientInt `json:"max_context_length"`
	MaxInputTokens   lenientInt `json:"max_input_tokens"`
	Meta             struct {
		Context lenientInt `json:"n_ctx_train"`
	} `json:"meta"`

	Architecture struct {
		Input  []string `json:"input_modalities"`
		Output []string `json:"output_modalities"`
	} `json:"architecture"`
	Parameters []string `json:"supported_parameters"`
}

// lenientInt is a JSON number that is a whole one; anything else is 0.
type lenientInt int64

// UnmarshalJSON implements [json.Unmarshaler]. It never fails.
func (n *lenientInt) UnmarshalJSON(data []byte) error {
	var v int64
	if json.Unmarshal(data, &v) == nil && v > 0 {
		*n = lenientInt(v)
	}
	return nil
}

// parseModels reads a listing: an object with "data" or "models", or a bare
// list. ok is false when it is none of these.
func parseModels(body []byte) (models []listed, next string, ok bool) {
	var entries []json.RawMessage
	if json.Unmarshal(body, &entries) != nil || entries == nil {
		var top map[string]json.RawMessage
		if json.Unmarshal(body, &top) != nil {
			return nil, "", false
		}
		data, hasData := top["data"]
		others, hasOthers := top["models"]
		if !hasData && !hasOthers && textOf(top["object"]) != "list" {
			return nil, "", false
		}
		for _, list := range []json.RawMessage{data, others} {
			if len(entries) == 0 && isSet(list) && json.Unmarshal(list, &entries) != nil {
				return nil, "", false
			}
		}
		if string(top["has_more"]) == "true" {
			next = textOf(top["last_id"])
		}
	}
	for _, raw := range entries {
		if m, ok := modelOf(raw); ok {
			models = append(models, m)
		}
	}
	return models, next, true
}

// modelOf reads one entry; ok is false for what is not a model to chat with.
func modelOf(raw json.RawMessage) (m listed, ok bool) {
	var e modelEntry
	if id := textOf(raw); id != "" {
		e.ID = lenientText(id)
	} else if json.Unmarshal(raw, &e) != nil {
		return listed{}, false
	}
	id := e.ID
	for _, other := range []lenientText{e.Model, e.Name} {
		if id == "" {
			id = other
		}
	}
	m.ID = row.Text(string(id))
	if m.ID == "" || len(m.ID) > maxModelText || !chats(e, m.ID) {
		return listed{}, false
	}
	m.Label = clean(string(e.DisplayName), maxModelText)
	if m.Label == "" {
		m.Label = clean(string(e.Name), maxModelText)
	}
	if m.Label == m.ID {
		m.Label = ""
	}
	m.Description = clean(string(e.Description), maxModelText)
	for _, n := range []lenientInt{
		e.ContextLength, e.ContextWindow, e.MaxModelLen, e.MaxContextLength, e.MaxInputTokens, e.Meta.Context,
	} {
		if m.ContextWindow == 0 {
			m.ContextWindow = int64(n)
		}
	}
	switch {
	case slices.Contains(e.Architecture.Input, "image") || e.Type == "vlm":
		m.images, m.Images = certain, true
	case len(e.Architecture.Input) > 0 || e.Type == "llm":
		m.images = ruledOut
	}
	if slices.Contains(e.Parameters, "reasoning") || slices.Contains(e.Parameters, "reasoning_effort") {
		m.Efforts = []string{"low", "medium", "high"}
	}
	return m, true
}

// otherModels are words in the ids of models that do not chat.
var otherModels = []string{
	"embedding", "embeddings", "embed", "tts", "whisper", "moderation", "dall", "image", "transcribe", "realtime",
	"sora", "rerank", "reranker",
}

// chats reports whether a model is one to chat with. When in doubt it is: any
// id may be typed, but what is hidden is not found.
func chats(e modelEntry, id string) bool {
	if e.Type == "embeddings" || e.Type == "embedding" {
		return false
	}
	if len(e.Architecture.Output) > 0 {
		return slices.Contains(e.Architecture.Output, "text")
	}
	words := strings.FieldsFunc(strings.ToLower(id), func(r rune) bool { return strings.ContainsRune("-_/.: ", r) })
	return !slices.ContainsFunc(words, func(w string) bool { return slices.Contains(otherModels, w) })
}
