package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"garcon/proto/exec"
	"garcon/provider"
)

// Limits of the catalog.
const (
	// catalogAge is how long a catalog is good: models change with the program
	// and commands with files of the project, neither often.
	catalogAge = 5 * time.Minute
	// maxCatalogs bounds the projects that are remembered.
	maxCatalogs = 64
)

// catalog knows models and slash commands. Both come from the answer to the
// first request to a process, so a running conversation brings them, and a probe
// does when there is none. It implements [exec.Catalog] and [exec.Commands].
type catalog struct {
	adapter *adapter
	flight  singleflight.Group

	mu    sync.Mutex
	known map[string]learned
}

type learned struct {
	at      time.Time
	listing listing
}

// listing is the answer to "initialize".
type listing struct {
	Models []struct {
		Value       string   `json:"value"`
		DisplayName string   `json:"displayName"`
		Description string   `json:"description"`
		Efforts     []string `json:"supportedEffortLevels"`
	} `json:"models"`
	Commands []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Arguments   string `json:"argumentHint"`
	} `json:"commands"`
}

func newCatalog(a *adapter) *catalog { return &catalog{adapter: a, known: map[string]learned{}} }

// learn remembers the answer of a process that was started in dir.
func (c *catalog) learn(dir string, answer json.RawMessage) listing {
	var l listing
	if decode(answer, &l) != nil || len(l.Models) == 0 {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxCatalogs {
		oldest := ""
		for dir, k := range c.known {
			if oldest == "" || k.at.Before(c.known[oldest].at) {
				oldest = dir
			}
		}
		delete(c.known, oldest)
	}
	c.known[dir] = learned{time.Now(), l}
	return l
}

// get returns the listing for a project. Several callers share one probe, which
// goes on when one of them gives up.
func (c *catalog) get(ctx context.Context, dir string) (listing, error) {
	c.mu.Lock()
	k, ok := c.known[dir]
	c.mu.Unlock()
	if ok && time.Since(k.at) < catalogAge {
		return k.listing, nil
	}
	if c.adapter.ctx.Err() != nil {
		return listing{}, exec.Errorf(exec.CodeUnavailable, "the runtime is shutting down")
	}
	answer := c.flight.DoChan(dir, func() (any, error) {
		c.adapter.wg.Add(1)
		defer c.adapter.wg.Done()
		raw, err := c.adapter.probe(c.adapter.ctx, dir)
		if err != nil {
			return nil, err
		}
		l := c.learn(dir, raw)
		if len(l.Models) == 0 {
			return nil, exec.Errorf(exec.CodeAgentProtocol, "Claude Code did not list its models")
		}
		return l, nil
	})
	select {
	case r := <-answer:
		if r.Err != nil {
			return listing{}, r.Err
		}
		return r.Val.(listing), nil
	case <-ctx.Done():
		return listing{}, exec.Errorf(exec.CodeCancelled, "the list was given up: %w", ctx.Err())
	}
}

// probe starts a process that keeps no session, asks it what it offers, and ends
// it. It makes no request to a model.
func (a *adapter) probe(ctx context.Context, dir string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, a.waits.start)
	defer cancel()
	release, err := a.startSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	proc, err := a.spawn(ctx, dir, []string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--no-session-persistence",
	})
	if err != nil {
		return nil, err
	}
	var ended sync.WaitGroup
	defer ended.Wait()
	answered := make(chan struct{})
	ended.Go(func() {
		select {
		case <-ctx.Done():
		case <-answered:
		}
		// With its input closed it goes by itself, but nobody waits for that.
		if err := proc.Stop(ctx, 0); err != nil {
			a.host.Log.Error("end claude", "err", err)
		}
	})
	defer close(answered)
	line, err := json.Marshal(controlRequest{Type: "control_request", RequestID: "probe", Request: initializeRequest{Subtype: "initialize"}})
	if err != nil {
		return nil, exec.Errorf(exec.CodeInternal, "encode a line for Claude Code: %w", err)
	}
	if _, err := proc.Stdin().Write(append(line, '\n')); err != nil {
		a.host.Log.Debug("probe of claude", "err", err)
	}
	lines := provider.NewLineReader(proc.Stdout(), 0)
	for {
		line, err := lines.Next()
		if _, tooLong := errors.AsType[*provider.LineTooLongError](err); tooLong {
			continue
		}
		if err != nil {
			break
		}
		var reply struct {
			Type     string `json:"type"`
			Response struct {
				Response json.RawMessage `json:"response"`
			} `json:"response"`
		}
		if decode(line, &reply) == nil && reply.Type == "control_response" && len(reply.Response.Response) > 0 {
			return reply.Response.Response, nil
		}
	}
	if ctx.Err() != nil {
		return nil, exec.Errorf(exec.CodeAgentTimeout, "Claude Code did not answer within %s", a.waits.start).WithDetail(proc.StderrTail())
	}
	return nil, startFailure(proc.Failure(), proc.StderrTail())
}

// Models implements [exec.Catalog].
func (c *catalog) Models(ctx context.Context, projectPath string, endpoint *exec.Endpoint) ([]exec.Model, error) {
	if endpoint != nil {
		return nil, exec.Errorf(exec.CodeUnsupported, "Claude Code uses the account of the executor and takes no endpoint")
	}
	l, err := c.get(ctx, cmp.Or(projectPath, c.adapter.empty))
	if err != nil {
		return nil, err
	}
	models := make([]exec.Model, 0, len(l.Models))
	for _, m := range l.Models {
		models = append(models, exec.Model{
			ID: m.Value, Label: first(m.DisplayName, m.Value), Description: m.Description,
			Efforts: slices.Clone(m.Efforts), Images: true, Default: m.Value == "default",
		})
	}
	return models, nil
}

// Commands implements [exec.Commands].
func (c *catalog) Commands(ctx context.Context, projectPath string) ([]exec.Command, error) {
	l, err := c.get(ctx, cmp.Or(projectPath, c.adapter.empty))
	if err != nil {
		return nil, err
	}
	commands := make([]exec.Command, 0, len(l.Commands))
	for _, cmd := range l.Commands {
		commands = append(commands, exec.Command{Name: cmd.Name, Description: cmd.Description, Arguments: cmd.Arguments})
	}
	return commands, nil
}
