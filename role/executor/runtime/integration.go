package runtime

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/provider"
)

// integration is one adapter as the contract shows it. It implements
// [exec.Execution], [exec.Permissions], [exec.Steering] and [exec.Compaction].
type integration struct {
	rt        *Runtime
	id        string
	adapter   provider.Adapter
	execution provider.Execution
	// value is what callers get; it is constant.
	value exec.Integration

	mu       sync.Mutex
	bindings map[string]*binding
	runs     map[string]*run
	requests map[string]*request
	// sessions holds the live operation of each native session.
	sessions map[string]*run
}

func newIntegration(rt *Runtime, a provider.Adapter) *integration {
	m, f := a.Manifest(), a.Facets()
	in := &integration{
		rt: rt, id: m.ID, adapter: a, execution: f.Execution,
		bindings: map[string]*binding{}, runs: map[string]*run{},
		requests: map[string]*request{}, sessions: map[string]*run{},
	}
	v := &in.value
	m.Facets = nil
	has := func(name string, there bool) bool {
		if there {
			m.Facets = append(m.Facets, name)
		}
		return there
	}
	if has(exec.FacetCatalog, f.Catalog != nil) {
		v.Catalog = catalog{in, f.Catalog}
	}
	if has(exec.FacetAuth, f.Auth != nil) {
		v.Auth = auth{in, f.Auth}
	}
	if has(exec.FacetExecution, f.Execution != nil) {
		v.Execution = in
	}
	if has(exec.FacetPermissions, f.Permissions) {
		v.Permissions = in
	}
	if has(exec.FacetSteering, f.Steering) {
		v.Steering = in
	}
	if has(exec.FacetCompaction, f.Compaction) {
		v.Compaction = in
	}
	if has(exec.FacetForking, f.Forking != nil) {
		v.Forking = forking{in, f.Forking}
	}
	if has(exec.FacetHistory, f.History != nil) {
		v.History = history{in, f.History}
	}
	if has(exec.FacetCommands, f.Commands != nil) {
		v.Commands = commands{in, f.Commands}
	}
	if has(exec.FacetSingleQuery, f.SingleQuery != nil) {
		v.SingleQuery = singleQuery{in, f.SingleQuery}
	}
	if has(exec.FacetEndpoints, f.Endpoints != nil) {
		v.Endpoints = endpoints{in, f.Endpoints}
	}
	v.Manifest = m
	return in
}

// ref makes a reference of this integration; an empty id gives the scope that
// references are checked against.
func (in *integration) ref(kind exec.RefKind, id string) exec.Ref {
	return exec.Ref{
		Kind: kind, ExecutorID: in.rt.info.ExecutorID, InstanceID: in.rt.info.InstanceID,
		IntegrationID: in.id, ID: id,
	}
}

// OpenBinding implements [exec.Execution].
func (in *integration) OpenBinding(ctx context.Context, spec exec.BindingSpec, sink exec.Sink) (exec.Ref, error) {
	if spec.ChatID == "" || sink == nil {
		return exec.Ref{}, exec.Errorf(exec.CodeInvalid, "a binding needs a chat and a sink")
	}
	_, leave, err := in.rt.enter(ctx, true)
	if err != nil {
		return exec.Ref{}, err
	}
	defer leave()
	b := &binding{in: in, id: uuid.NewString(), spec: spec, runs: map[*run]bool{}}
	b.life, b.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	b.queue = newQueue(sink)
	b.conversation, err = protect(in.rt.log, in.id+" open", func() (provider.Conversation, error) { return in.execution.Open(b) })
	if err != nil {
		b.queue.close()
		<-b.queue.done
		return exec.Ref{}, exec.AsError(err)
	}
	in.mu.Lock()
	in.bindings[b.id] = b
	in.mu.Unlock()
	return in.ref(exec.RefBinding, b.id), nil
}

// binding returns an open binding.
func (in *integration) binding(ref exec.Ref) (*binding, error) {
	if err := ref.Check(in.ref(exec.RefBinding, "")); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.bindings[ref.ID]
	if b == nil {
		return nil, errBindingClosed()
	}
	return b, nil
}

func errBindingClosed() *exec.Error {
	return exec.Errorf(exec.CodeStaleResource, "the chat no longer uses this connection to the agent").
		WithHint("Start the operation again.")
}

// CloseBinding implements [exec.Execution].
func (in *integration) CloseBinding(ctx context.Context, ref exec.Ref) error {
	ctx, leave, err := in.rt.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	b, err := in.binding(ref)
	if err != nil {
		return err
	}
	// The reference is stale from here on, also while the rest is going on.
	in.mu.Lock()
	taken := in.bindings[b.id] == b
	delete(in.bindings, b.id)
	in.mu.Unlock()
	if !taken {
		return errBindingClosed()
	}
	if err := b.close(ctx); err != nil {
		return exec.AsError(err)
	}
	return nil
}

// takeBindings removes and returns all bindings, for the end of the runtime.
func (in *integration) takeBindings() []*binding {
	in.mu.Lock()
	defer in.mu.Unlock()
	list := make([]*binding, 0, len(in.bindings))
	for id, b := range in.bindings {
		list = append(list, b)
		delete(in.bindings, id)
	}
	return list
}

// run returns a run that has no terminal yet.
func (in *integration) run(ref exec.Ref) (*run, error) {
	if err := ref.Check(in.ref(exec.RefRun, "")); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.runs[ref.ID], nil
}

// Abort implements [exec.Execution].
func (in *integration) Abort(ctx context.Context, ref exec.Ref) error {
	ctx, leave, err := in.rt.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	r, err := in.run(ref)
	if err != nil {
		return err
	}
	if r == nil {
		return exec.Errorf(exec.CodeStaleResource, "the run is already over")
	}
	return r.abort(ctx)
}

// Steer implements [exec.Steering].
func (in *integration) Steer(ctx context.Context, s exec.Steer) error {
	ctx, leave, err := in.rt.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	r, err := in.run(s.Run)
	if err != nil {
		return err
	}
	if r == nil {
		return errNotSteerable()
	}
	if err := in.checkAttachments(s.Prompt); err != nil {
		return err
	}
	return r.steer(ctx, s)
}

func errNotSteerable() *exec.Error {
	return exec.Errorf(exec.CodeNotSteerable, "the run is already over").WithHint("Send it as a new message.")
}

// add makes a run known by its id and as the live operation of a session. It
// fails, changing nothing, when either is taken.
func (in *integration) add(r *run, session string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.runs[r.id] != nil {
		return exec.Errorf(exec.CodeInvalid, "there is already a run %s", r.id)
	}
	if session != "" {
		if in.sessions[session] != nil {
			return errBusy()
		}
		in.sessions[session] = r
		r.sessions = append(r.sessions, session)
	}
	in.runs[r.id] = r
	return nil
}

func errBusy() *exec.Error {
	return exec.Errorf(exec.CodeSessionBusy, "the agent's session is in use by another run").
		WithHint("Wait until that run is over, or stop it.")
}

// claim makes a run the live operation of one more session: the one it turned
// out to have.
func (in *integration) claim(r *run, session string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch in.sessions[session] {
	case r:
	case nil:
		if in.runs[r.id] == r {
			in.sessions[session] = r
			r.sessions = append(r.sessions, session)
		}
	default:
		// Refusing is no longer possible: the agent already works in it.
		in.rt.log.Error("two runs work in one native session", "agent", in.id, "run", r.id)
	}
}

// remove forgets a run with its sessions.
func (in *integration) remove(r *run) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.runs[r.id] == r {
		delete(in.runs, r.id)
	}
	for _, s := range r.sessions {
		if in.sessions[s] == r {
			delete(in.sessions, s)
		}
	}
	r.sessions = nil
}

// busy reports whether a run works in the session.
func (in *integration) busy(session string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.sessions[session] != nil
}
