package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// maxOutgoing is how many lines may wait for the CLI to read them.
const maxOutgoing = 64

// spec is what a process is started with.
type spec struct {
	dir string
	// native is what the launch called the session: the id to resume, or a
	// fork that is still to be made.
	native nativeRef
	// session is the id of a new session.
	session string
	model   string
	mode    string
	effort  string
}

// made is the id of the session that a process for sp makes, "" when it resumes
// one.
func (sp spec) made() string {
	switch {
	case sp.native.fork != nil:
		return sp.native.fork.id
	case sp.native.session == "":
		return sp.session
	}
	return ""
}

// process is one running CLI. Its reader, one goroutine, sees every line in
// order and is the only one that publishes rows.
type process struct {
	conv   *conversation
	proc   *provider.Process
	out    chan outgoing
	scribe *scribe

	// gone is closed by the reader after everything else of the process,
	// written by the writer when it writes no more.
	gone    chan struct{}
	written chan struct{}

	// lifecycle says that the CLI reports the life of submissions.
	lifecycle atomic.Bool
	// busy says that something works in the background.
	busy atomic.Bool

	// For the reader alone.
	current *run         // the run the scribe writes to
	state   string       // of session_state_changed
	cause   string       // why the CLI may begin a turn by itself
	told    exec.Session // what was published

	// mu guards the members below. It is never held while publishing or
	// together with the conversation's.
	mu      sync.Mutex
	spec    spec
	session string // the session the process is in, as far as it was published
	replies map[string]chan<- controlReply
	cancels map[string]string // messages to be taken back, by request
	asks    map[string]*ask
	refused map[string]bool
	exit    *exec.Error // how it ended, once gone is closed
	stopped bool        // we ended it
}

type outgoing struct {
	line []byte
	done chan<- error
}

// The lines we write.

type controlRequest struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	Request   any    `json:"request"`
}

type controlResponse struct {
	Type     string       `json:"type"`
	Response responseBody `json:"response"`
}

type responseBody struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Response  any    `json:"response,omitempty"`
	Error     string `json:"error,omitempty"`
}

// controlReply is the CLI's answer to a request.
type controlReply struct {
	Response json.RawMessage
	Error    string
}

func newProcess(c *conversation, proc *provider.Process, sp spec) *process {
	p := &process{
		conv: c, proc: proc, spec: sp, out: make(chan outgoing, maxOutgoing), gone: make(chan struct{}), written: make(chan struct{}),
		replies: map[string]chan<- controlReply{}, cancels: map[string]string{}, asks: map[string]*ask{}, refused: map[string]bool{},
		state: stateIdle, scribe: newScribe(sp.dir, c.binding),
	}
	p.scribe.refused = p.isRefused
	return p
}

// writeLoop writes lines in order until the process is gone. A write blocks
// while the CLI does not read; the end of the process unblocks it. Whoever waits
// for a line is told how it went.
func (p *process) writeLoop() {
	defer close(p.written)
	for {
		select {
		case m := <-p.out:
			_, err := p.proc.Stdin().Write(m.line)
			m.done <- err
		case <-p.gone:
			return
		}
	}
}

// send writes one line and returns when it was written. Its errors say whether
// the CLI can have seen it: a line that was not written to its end has no effect.
func (p *process) send(ctx context.Context, v any) error {
	done, err := p.enqueue(ctx, v)
	if err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-p.written:
		select {
		case err = <-done:
		default:
			err = os.ErrClosed
		}
	case <-ctx.Done():
		return notRead(ctx).WithDispatched(exec.MaybeDispatched)
	}
	if err != nil {
		return exec.Errorf(exec.CodeAgentCrashed, "Claude Code does not read any more: %w", err)
	}
	return nil
}

// enqueue hands a line to the writer and returns where it tells how it went.
func (p *process) enqueue(ctx context.Context, v any) (<-chan error, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return nil, exec.Errorf(exec.CodeInternal, "encode a line for Claude Code: %w", err)
	}
	done := make(chan error, 1)
	select {
	case p.out <- outgoing{append(line, '\n'), done}:
		return done, nil
	case <-p.gone:
		return nil, p.failure().WithDispatched(exec.NotDispatched)
	case <-ctx.Done():
		return nil, notRead(ctx)
	}
}

// notRead explains a write that was given up.
func notRead(ctx context.Context) *exec.Error {
	code := exec.CodeAgentTimeout
	if errors.Is(ctx.Err(), context.Canceled) {
		code = exec.CodeCancelled
	}
	return exec.Errorf(code, "Claude Code did not read what it was sent: %w", ctx.Err())
}

// post hands a line to the writer without waiting for anything: the reader must
// not wait for the CLI, which may itself be waiting for the reader.
func (p *process) post(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		p.conv.log.Error("encode a line for claude", "err", err)
		return
	}
	select {
	case p.out <- outgoing{append(line, '\n'), make(chan error, 1)}:
	default:
		p.conv.log.Warn("claude does not read what it is sent")
	}
}

// request sends a control request and returns where the reply will come. The
// channel stays empty when the process ends first.
func (p *process) request(ctx context.Context, body any) (<-chan controlReply, error) {
	id := uuid.NewString()
	reply := p.expectReply(id)
	if err := p.send(ctx, controlRequest{Type: "control_request", RequestID: id, Request: body}); err != nil {
		p.mu.Lock()
		delete(p.replies, id)
		p.mu.Unlock()
		return nil, err
	}
	return reply, nil
}

// postRequest is request without waiting for the writer.
func (p *process) postRequest(body any) <-chan controlReply {
	id := uuid.NewString()
	reply := p.expectReply(id)
	p.post(controlRequest{Type: "control_request", RequestID: id, Request: body})
	return reply
}

// takeBack asks for the removal of a queued message. The reader notes whether
// that was in time.
func (p *process) takeBack(message string) {
	id := uuid.NewString()
	p.mu.Lock()
	p.cancels[id] = message
	p.mu.Unlock()
	p.post(controlRequest{
		Type: "control_request", RequestID: id, Request: cancelRequest{Subtype: "cancel_async_message", UUID: message},
	})
}

func (p *process) expectReply(id string) <-chan controlReply {
	reply := make(chan controlReply, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies[id] = reply
	return reply
}

// call sends a control request and waits for its reply.
func (p *process) call(ctx context.Context, timeout time.Duration, body any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reply, err := p.request(ctx, body)
	if err != nil {
		return nil, err
	}
	select {
	case r := <-reply:
		if r.Error != "" {
			return nil, exec.Errorf(exec.CodeInvalid, "Claude Code refused: %s", r.Error).WithDispatched(exec.WasDispatched)
		}
		return r.Response, nil
	case <-p.gone:
		return nil, p.failure()
	case <-ctx.Done():
		if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
			return nil, exec.Errorf(exec.CodeAgentTimeout, "Claude Code did not answer within %s", timeout).
				WithDispatched(exec.MaybeDispatched).WithDetail(p.proc.StderrTail())
		}
		return nil, exec.Errorf(exec.CodeCancelled, "given up: %w", ctx.Err()).WithDispatched(exec.MaybeDispatched)
	}
}

// failure says how the process ended. It is for after gone was closed.
func (p *process) failure() *exec.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exit == nil {
		return exec.Errorf(exec.CodeAgentCrashed, "Claude Code ended")
	}
	return p.exit
}

// read is the life of the process as seen from its output.
func (p *process) read() {
	lines := provider.NewLineReader(p.proc.Stdout(), 0)
	for {
		line, err := lines.Next()
		if err == nil {
			p.line(line)
			continue
		}
		if tooLong, ok := errors.AsType[*provider.LineTooLongError](err); ok {
			p.follow()
			p.scribe.garbage(tooLong)
			continue
		}
		if !errors.Is(err, io.EOF) {
			p.conv.log.Warn("output of claude", "err", err)
		}
		break
	}
	p.ended()
}

// ended does what is left when the process is no more.
func (p *process) ended() {
	e := exitError(p.proc)
	p.mu.Lock()
	p.exit = e
	asks := p.asks
	p.asks = map[string]*ask{}
	p.mu.Unlock()
	for _, a := range asks {
		close(a.withdrawn)
	}
	p.follow()
	if r := p.current; r != nil {
		r.processEnded(e)
	}
	p.scribe.endProcess()
	p.conv.processGone(p)
	close(p.gone)
}

// exitError explains how a process ended. Some statuses are signals that the
// CLI handled.
func exitError(proc *provider.Process) *exec.Error {
	e := proc.Failure()
	if exit := proc.Exit(); exit.Signal == 0 && (exit.Code == 130 || exit.Code == 137 || exit.Code == 143) {
		killed := exec.Errorf(exec.CodeAgentKilled, "Claude Code was ended from outside (exit status %d)", exit.Code)
		return killed.WithDispatched(e.Dispatched).WithDetail(e.Detail).WithHint("%s", e.Hint)
	}
	return e
}

// shutdown ends the process: politely while it is idle, by force when it does
// not go. It returns when nothing of it is left.
func (p *process) shutdown(ctx context.Context) {
	p.markStopped()
	if err := p.proc.Stdin().Close(); err != nil {
		p.conv.log.Debug("close input of claude", "err", err)
	}
	grace := p.conv.adapter.waits.exit
	if p.busy.Load() {
		grace = p.conv.adapter.waits.busy
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.proc.Done():
	case <-timer.C:
		p.kill(ctx)
	case <-ctx.Done():
		p.kill(ctx)
	}
	<-p.gone
}

// markStopped keeps launches from using the process.
func (p *process) markStopped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// kill ends the process with signals.
func (p *process) kill(ctx context.Context) {
	p.markStopped()
	if err := p.proc.Stop(ctx, p.conv.adapter.waits.term); err != nil {
		p.conv.log.Error("end claude", "err", err)
	}
}

func (p *process) noteRefusal(callID string, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refused {
		p.refused[callID] = true
	} else {
		delete(p.refused, callID)
	}
}

// isRefused reports, once, whether the user refused a call.
func (p *process) isRefused(callID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	refused := p.refused[callID]
	delete(p.refused, callID)
	return refused
}

// openAsks is how many requests wait for the user.
func (p *process) openAsks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asks)
}

// unsupported answers a request that we do not understand, so that the CLI
// does not wait.
func (p *process) unsupported(id, subtype string) {
	p.post(controlResponse{Type: "control_response", Response: responseBody{
		Subtype: "error", RequestID: id, Error: "not supported by this host: " + row.Prefix(subtype, maxTitle),
	}})
}
