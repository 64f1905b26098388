package claude

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"garcon/proto/exec"
	"garcon/provider"
)

// ID is the id of the integration.
const ID = "claude"

// maxStarting bounds the processes that start at the same time: a dozen
// together need over 15 s each, three need as long as one.
const maxStarting = 3

// adapter implements [provider.Adapter].
type adapter struct {
	host    provider.Host
	program string
	// empty is a private directory for what needs none of a project.
	empty    string
	starting chan struct{}
	checked  checked
	catalog  *catalog
	tails    tails
	waits    waits

	// ctx ends with the adapter; wg waits for probes.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Options change how the adapter finds the program.
type Options struct {
	// Program is a path or a name to look for in PATH. When it is empty, the
	// variable GARCON_CLAUDE_PATH of the host's environment is used, and
	// "claude" without that.
	Program string
}

// New returns the adapter. It starts nothing.
func New(h provider.Host, o Options) (provider.Adapter, error) {
	a := &adapter{
		host: h, program: first(o.Program, provider.Getenv(h.Env, envProgram), defaultProgram),
		empty: filepath.Join(h.StateDir, "empty"), starting: make(chan struct{}, maxStarting), waits: defaultWaits(),
	}
	if err := os.MkdirAll(a.empty, 0o700); err != nil {
		return nil, exec.Errorf(exec.CodeInternal, "prepare the state of the claude adapter: %w", err)
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.catalog = newCatalog(a)
	return a, nil
}

// Facets implements [provider.Adapter].
func (a *adapter) Facets() provider.Facets {
	return provider.Facets{
		Execution: a, Catalog: a.catalog, Auth: auth{a}, Forking: forking{a}, History: history{a},
		Commands: a.catalog, SingleQuery: query{a},
		Permissions: true, Steering: true, Compaction: true,
	}
}

// Open implements [provider.Execution].
func (a *adapter) Open(b provider.Binding) (provider.Conversation, error) {
	return newConversation(a, b), nil
}

// Close implements [provider.Adapter].
func (a *adapter) Close(context.Context) error {
	a.cancel()
	a.wg.Wait()
	return nil
}

// startSlot waits for leave to start a process. release must be called once it
// has started.
func (a *adapter) startSlot(ctx context.Context) (release func(), err error) {
	select {
	case a.starting <- struct{}{}:
		return func() { <-a.starting }, nil
	case <-ctx.Done():
		return nil, exec.Errorf(exec.CodeCancelled, "the start of Claude Code was given up: %w", ctx.Err())
	}
}

// spawn starts the program in dir.
func (a *adapter) spawn(ctx context.Context, dir string, args []string) (*provider.Process, error) {
	found, err := a.find(ctx)
	if err != nil {
		return nil, err
	}
	return a.host.Processes.Start(ctx, provider.Command{
		Name: label, Path: found.path, Args: args, Dir: dir, Env: environ(a.host.Env),
	})
}
