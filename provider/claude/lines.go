package claude

import (
	"context"
	"encoding/json"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// stateIdle is the state of a session that waits for us.
const stateIdle = "idle"

// line handles one line of output. It is called by the reader.
func (p *process) line(data []byte) {
	if len(data) == 0 {
		return
	}
	e, err := parseLine(data)
	p.follow()
	if err != nil {
		p.scribe.garbage(err)
		return
	}
	switch e.Type {
	case "control_response":
		p.controlReplied(e)
	case "control_request":
		p.controlRequested(e)
	case "control_cancel_request":
		p.controlWithdrawn(e)
	case "command_lifecycle":
		p.lifecycleChanged(e)
	default:
		p.message(e)
	}
	if p.scribe.entry != "" {
		p.conv.adapter.tails.note(e.SessionID, p.scribe.entry)
		p.scribe.entry = ""
	}
	p.busy.Store(len(p.scribe.kids.jobs) > 0)
	if p.current != nil {
		p.current.settle()
	}
}

// follow directs the scribe to the run that a launch has put in place.
func (p *process) follow() {
	r, abandoned := p.conv.runOf(p)
	switch {
	case abandoned && p.current == r && r != nil:
		p.scribe.begin(nowhere{})
		p.current = nil
	case r != nil && !abandoned && r != p.current:
		p.current, p.cause = r, ""
		p.scribe.begin(r.out)
		p.scribe.turn.compacting = r.compacts
	}
}

// nowhere is where the rows of a launch go that was given up.
type nowhere struct{}

func (nowhere) Rows(...row.Row) {}
func (nowhere) Live(row.Live)   {}

// message handles a line of the conversation.
func (p *process) message(e envelope) {
	if p.current == nil && startsTurn(e) {
		p.beginOwn()
	}
	switch e.Type {
	case "system":
		p.systemChanged(e)
	case "user":
		p.replayed(e)
	case "result":
		p.turnEnded(e)
		return
	}
	if r := p.current; r != nil && startsTurn(e) {
		r.turnBegan()
		if e.Type != "stream_event" {
			p.tellSession(e.SessionID, false)
		}
	}
	p.scribe.line(e)
}

// startsTurn reports whether a line says that the agent works on the main
// conversation.
func startsTurn(e envelope) bool {
	switch e.Type {
	case "system":
		return e.Subtype == "init"
	case "assistant", "stream_event":
		return e.Parent == ""
	}
	return false
}

// beginOwn makes a run for what the agent does by itself.
func (p *process) beginOwn() {
	r := newRun(p.conv, p)
	r.own = true
	if !p.conv.adopt(r) {
		return
	}
	reason := p.cause
	if reason == "" {
		reason = "Claude Code went on by itself."
	}
	p.cause = ""
	r.out = p.conv.binding.Begin(reason, r)
	p.current = r
	p.scribe.begin(r.out)
}

func (p *process) systemChanged(e envelope) {
	var l systemLine
	if decode(e.data, &l) != nil {
		return
	}
	switch e.Subtype {
	case "session_state_changed":
		p.state = l.State
		if l.State == stateIdle && p.current != nil {
			// A turn that was refused has no result.
			p.current.turnOpen = false
		}
		if l.State == "running" && !p.lifecycle.Load() && p.current != nil {
			// An older CLI says no more than this about what it was sent.
			p.current.accepted("")
		}
	case "init":
		if p.current != nil && !p.lifecycle.Load() {
			p.current.accepted("")
		}
		p.tell(exec.Session{Model: l.Model, Mode: l.PermissionMode})
	case "status":
		if l.PermissionMode != "" {
			p.mu.Lock()
			p.spec.mode = l.PermissionMode
			p.mu.Unlock()
			p.tell(exec.Session{Mode: l.PermissionMode})
		}
	case "session_title_changed":
		p.tell(exec.Session{Title: l.Title})
	case "task_notification":
		// The end of work in the background is what the CLI goes on about.
		if p.scribe.hasJob(l.TaskID) {
			p.cause = first(l.Summary, p.cause)
		}
	}
}

// replayed notes that a message of ours was taken into the conversation.
func (p *process) replayed(e envelope) {
	if e.Parent != "" || p.current == nil {
		return
	}
	var l struct {
		IsReplay bool `json:"isReplay"`
	}
	if decode(e.data, &l) != nil || !l.IsReplay {
		return
	}
	p.current.consumed(e.UUID)
}

func (p *process) turnEnded(e envelope) {
	if p.current == nil {
		p.scribe.skipTurn(e)
		return
	}
	p.tellSession(e.SessionID, true)
	r, failure := p.scribe.endTurn(e)
	p.current.turnEnded(&r, failure)
}

// tellSession publishes the id of the session once the CLI keeps it: before
// that there is nothing to resume. It is kept at the latest at the end of a turn.
func (p *process) tellSession(id string, turnEnded bool) {
	p.mu.Lock()
	news := id != "" && p.session != id
	p.mu.Unlock()
	if !news || !turnEnded && !p.conv.adapter.transcripts().hasIn(p.scribe.dir, id) {
		return
	}
	p.mu.Lock()
	p.session = id
	p.mu.Unlock()
	p.conv.publishSession(p.current, exec.Session{ID: id})
}

// tell publishes what is new of s.
func (p *process) tell(s exec.Session) {
	if s.Model == p.told.Model {
		s.Model = ""
	}
	if s.Mode == p.told.Mode {
		s.Mode = ""
	}
	if s == (exec.Session{}) {
		return
	}
	p.told.Model, p.told.Mode = first(s.Model, p.told.Model), first(s.Mode, p.told.Mode)
	p.conv.publishSession(p.current, s)
}

type lifecycleLine struct {
	UUID         string `json:"command_uuid"`
	State        string `json:"state"`
	WakeupSource string `json:"wakeup_source"`
}

// lifecycleChanged notes what became of a submission.
func (p *process) lifecycleChanged(e envelope) {
	var l lifecycleLine
	if decode(e.data, &l) != nil {
		return
	}
	p.lifecycle.Store(true)
	if l.WakeupSource != "" && p.current == nil {
		p.cause = "A scheduled wake-up of Claude Code."
	}
	if p.current != nil {
		p.current.lifecycle(l.UUID, l.State)
	}
}

// controlReplied hands a reply to who waits for it. The CLI also repeats our own
// replies; that is how an answer of the user is confirmed.
func (p *process) controlReplied(e envelope) {
	var l struct {
		Response struct {
			Subtype   string          `json:"subtype"`
			RequestID string          `json:"request_id"`
			Response  json.RawMessage `json:"response"`
			Error     string          `json:"error"`
		} `json:"response"`
	}
	if decode(e.data, &l) != nil {
		return
	}
	id := l.Response.RequestID
	p.mu.Lock()
	reply, waiting := p.replies[id]
	delete(p.replies, id)
	a := p.asks[id]
	delete(p.asks, id)
	message, cancelling := p.cancels[id]
	delete(p.cancels, id)
	p.mu.Unlock()
	if cancelling && p.current != nil {
		var r struct {
			Cancelled bool `json:"cancelled"`
		}
		if decode(l.Response.Response, &r) == nil && r.Cancelled {
			p.current.lifecycle(message, "cancelled")
		}
	}
	if waiting {
		r := controlReply{Response: l.Response.Response}
		if l.Response.Subtype == "error" {
			r.Error = l.Response.Error
			if r.Error == "" {
				r.Error = "unknown error"
			}
		}
		reply <- r
	}
	if a != nil {
		close(a.confirmed)
	}
}

// controlRequested handles a request of the CLI.
func (p *process) controlRequested(e envelope) {
	var l struct {
		RequestID string          `json:"request_id"`
		Request   json.RawMessage `json:"request"`
	}
	var sub struct {
		Subtype string `json:"subtype"`
	}
	if decode(e.data, &l) != nil || decode(l.Request, &sub) != nil || l.RequestID == "" {
		return
	}
	var req toolRequest
	if sub.Subtype != "can_use_tool" || decode(l.Request, &req) != nil {
		p.unsupported(l.RequestID, sub.Subtype)
		return
	}
	if p.current == nil {
		if p.cause == "" {
			p.cause = "A background task of Claude Code asks for permission."
		}
		p.beginOwn()
	}
	r := p.current
	if r == nil {
		// The conversation is closing.
		p.unsupported(l.RequestID, sub.Subtype)
		return
	}
	p.scribe.settle()
	a := p.scribe.newAsk(l.RequestID, req)
	p.mu.Lock()
	p.asks[a.id] = a
	p.mu.Unlock()
	r.out.Ask(a.row, p.respond(r, a))
}

// controlWithdrawn takes back a request of the CLI.
func (p *process) controlWithdrawn(e envelope) {
	var l struct {
		RequestID string `json:"request_id"`
	}
	if decode(e.data, &l) != nil {
		return
	}
	p.mu.Lock()
	a := p.asks[l.RequestID]
	delete(p.asks, l.RequestID)
	p.mu.Unlock()
	if a == nil {
		return
	}
	close(a.withdrawn)
	if p.current != nil {
		p.current.out.Withdraw(a.id)
	}
}

// interruptRequest asks for the end of the turn and of all that waits.
type interruptRequest struct {
	Subtype      string `json:"subtype"`
	CancelQueued bool   `json:"cancel_queued"`
}

// cancelRequest takes a queued message back.
type cancelRequest struct {
	Subtype string `json:"subtype"`
	UUID    string `json:"message_uuid"`
}

func newInterrupt() interruptRequest {
	return interruptRequest{Subtype: "interrupt", CancelQueued: true}
}

// setting is a change to a running process.
type setting struct {
	Subtype  string             `json:"subtype"`
	Model    string             `json:"model,omitempty"`
	Mode     string             `json:"mode,omitempty"`
	Settings map[string]*string `json:"settings,omitempty"`
}

// apply changes model, mode and effort of an idle process to those of sp, after
// making sure that it lives: what is written to one that has died since its last
// run would be lost without a trace. An error means that the process is not to
// be used any more.
func (p *process) apply(ctx context.Context, sp spec) error {
	p.mu.Lock()
	now := p.spec
	p.mu.Unlock()
	changes := []setting{{Subtype: "mcp_status"}}
	// Without a model or a mode, the session keeps what it has, as it does when
	// it is resumed.
	if sp.model != "" && sp.model != now.model {
		changes = append(changes, setting{Subtype: "set_model", Model: sp.model})
	}
	if sp.mode != "" && sp.mode != now.mode {
		changes = append(changes, setting{Subtype: "set_permission_mode", Mode: sp.mode})
	}
	if sp.effort != now.effort {
		effort := &sp.effort
		if sp.effort == "" {
			effort = nil
		}
		changes = append(changes, setting{Subtype: "apply_flag_settings", Settings: map[string]*string{"effortLevel": effort}})
	}
	for _, change := range changes {
		if _, err := p.call(ctx, p.conv.adapter.waits.control, change); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.spec.model, p.spec.mode, p.spec.effort = first(sp.model, now.model), first(sp.mode, now.mode), sp.effort
	p.mu.Unlock()
	return nil
}
