package provider

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// Adapter is one provider. Facets that the provider does not support are nil
// in the value that Facets returns.
type Adapter interface {
	// Manifest describes the adapter; Manifest.Facets is filled in by the
	// runtime.
	Manifest() exec.Manifest
	Facets() Facets
	// Close ends what the adapter itself runs, such as a shared server. Every
	// conversation has been closed before. It is idempotent.
	Close(ctx context.Context) error
}

// Facets are the capabilities of an adapter.
type Facets struct {
	// Execution is required.
	Execution   Execution
	Catalog     exec.Catalog
	Auth        exec.Auth
	Forking     exec.Forking
	History     exec.History
	Commands    exec.Commands
	SingleQuery exec.SingleQuery
	Endpoints   exec.Endpoints
	// Permissions, Steering and Compaction say that runs ask, can be steered
	// and that sessions can be compacted; the methods are on [Active] and
	// [Conversation].
	Permissions bool
	Steering    bool
	Compaction  bool
}

// Host is what a runtime lends to its adapters.
type Host struct {
	// Log never gets a secret or a prompt.
	Log *slog.Logger
	// Processes starts native processes.
	Processes *Processes
	// Credentials resolves the key of an endpoint; nil without a controller.
	Credentials exec.Credentials
	// StateDir is a private directory (0700) that the adapter owns.
	StateDir string
	// Env is the environment of the runtime itself, for looking up programs
	// and passing on what agents need. It is not to be changed.
	Env []string
}

// For returns the host of one adapter: its state directory is a private one
// below that of h, made if need be, and its log names it.
func (h Host) For(id string) (Host, error) {
	h.StateDir = filepath.Join(h.StateDir, id)
	if err := os.MkdirAll(h.StateDir, 0o700); err != nil {
		return Host{}, fmt.Errorf("state of %s: %w", id, err)
	}
	h.Log = h.Log.With("agent", id)
	return h, nil
}

// Execution opens conversations.
type Execution interface {
	// Open returns the object that serves one chat. It starts no process.
	Open(b Binding) (Conversation, error)
}

// Binding is what a conversation knows of the lease it serves. The publishing
// methods block while the controller is behind and do nothing after the binding
// was closed.
type Binding interface {
	Spec() exec.BindingSpec
	// Begin makes a run that the agent began by itself; its launch is
	// published at once. reason is for people.
	Begin(reason string, active Active) Run
	// Jobs publishes the whole list of background work.
	Jobs([]exec.Job)
	// Session publishes a fact about the native session.
	Session(exec.Session)
	// Rows publishes rows that belong to no run, such as those of a background
	// subagent.
	Rows(...row.Row)
}

// Conversation serves one chat: the native process or session behind it. The
// runtime calls Launch and Compact for one run at a time, and Close once.
type Conversation interface {
	// Launch hands the prompt to the agent. It returns when the agent has
	// taken it, or with an [*exec.Error]; then run.Finish was not called and
	// will not be. A conversation in the middle of a run it began by itself
	// fails with [exec.CodeSessionBusy] before it does anything. ctx ends when
	// the user gives up the launch or the binding closes.
	Launch(ctx context.Context, l exec.Launch, run Run) (Active, error)
	// Compact is Launch for a compaction; adapters without it return
	// [exec.CodeUnsupported].
	Compact(ctx context.Context, l exec.Launch, run Run) (Active, error)
	// Close ends the conversation's processes, asking politely until ctx ends,
	// and returns when they and its goroutines are gone.
	Close(ctx context.Context) error
}

// Active is a run that the agent has taken.
type Active interface {
	// Abort asks the agent to stop the run and returns when the request has
	// been made. The terminal follows through [Run.Finish], within the
	// adapter's own grace.
	Abort(ctx context.Context) error
	// Steer returns when the agent has taken the text in; see
	// [exec.Steering].
	Steer(ctx context.Context, s exec.Steer) error
}

// Run is the publisher of one run. Methods block while the controller is
// behind, are safe for concurrent use, and do nothing after Finish or after the
// binding was closed.
type Run interface {
	ID() string
	TurnID() string
	// Rows publishes rows; the ids of turn and run are filled in.
	Rows(...row.Row)
	// Live publishes an update of a streaming part.
	Live(row.Live)
	Session(exec.Session)
	// Ask offers a permission or question row to the user. respond is called
	// at most once at a time, from another goroutine, with the answer; it
	// returns nil when the agent has taken it, and an [*exec.Error] whose
	// outcome says whether it may be offered again. Ask does not wait for the
	// answer.
	Ask(r row.Row, respond Respond)
	// Withdraw takes back a request the agent no longer makes.
	Withdraw(occurrence string)
	// Finish ends the run. Only the first call counts. Open requests are
	// withdrawn.
	Finish(exec.Terminal)
}

// Respond delivers an answer to the agent.
type Respond func(ctx context.Context, a exec.Answer) error
