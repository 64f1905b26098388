package exec

import "garcon/proto/row"

// Sink takes the events of one binding. Publish is called from one goroutine
// at a time, in order; it blocks while the controller is behind, and after it
// has returned the event belongs to the sink. It does not fail: a sink that no
// longer wants events discards them.
type Sink interface {
	Publish(Event)
}

// SinkFunc adapts a function to [Sink].
type SinkFunc func(Event)

// Publish implements [Sink].
func (f SinkFunc) Publish(e Event) { f(e) }

// Event is one thing a binding says. Exactly one of the pointer members or
// Rows is set.
type Event struct {
	// Seq counts the events of a binding from 1. Live parts share the number
	// of the event before them: they are not numbered.
	Seq   uint64 `json:"seq"`
	RunID string `json:"runId,omitempty"`
	// Rows are to be committed together, in this order.
	Rows []row.Row `json:"rows,omitempty"`
	Live *row.Live `json:"live,omitempty"`
	// Launched says that the agent has taken the prompt.
	Launched *Launched `json:"launched,omitempty"`
	Session  *Session  `json:"session,omitempty"`
	Ask      *Ask      `json:"ask,omitempty"`
	// Withdrawn is the occurrence of a request the agent no longer makes.
	Withdrawn string    `json:"withdrawn,omitempty"`
	Jobs      *Jobs     `json:"jobs,omitempty"`
	Terminal  *Terminal `json:"terminal,omitempty"`
}

// Launched is the outcome of a launch that worked. One that did not is a
// [Terminal].
type Launched struct {
	Run    Ref    `json:"run"`
	TurnID string `json:"turnId"`
	// Unsolicited marks a run the agent began by itself; the runtime made its
	// run and turn ids.
	Unsolicited bool `json:"unsolicited,omitempty"`
	// Reason says why, in words.
	Reason string `json:"reason,omitempty"`
	// Model and Mode are what the agent said it runs with.
	Model string `json:"model,omitempty"`
	Mode  string `json:"mode,omitempty"`
}

// Session is a fact about the native session behind a binding.
type Session struct {
	// ID replaces what the chat knew.
	ID    string `json:"id,omitempty"`
	Title string `json:"title,omitempty"`
	Model string `json:"model,omitempty"`
	Mode  string `json:"mode,omitempty"`
}

// Ask is a request to the user. Row is a permission or a question row; the
// controller commits it and draws it.
type Ask struct {
	Request Ref     `json:"request"`
	Row     row.Row `json:"row"`
}

// Occurrence returns the occurrence id of the request.
func (a *Ask) Occurrence() string {
	switch b := a.Row.Body.(type) {
	case *row.Permission:
		return b.Occurrence
	case *row.Question:
		return b.Occurrence
	}
	return ""
}

// Jobs is the whole list of background work behind a binding; it replaces the
// list before it.
type Jobs struct {
	Jobs []Job `json:"jobs"`
}

// Job is one piece of background work of an agent.
type Job struct {
	ID    string `json:"id"`
	Kind  string `json:"kind,omitempty"`
	Title string `json:"title,omitempty"`
}

// Terminal ends a run.
type Terminal struct {
	// Phase is [row.RunCompleted], [row.RunFailed] or [row.RunInterrupted].
	Phase row.Phase  `json:"phase"`
	Error *Error     `json:"error,omitempty"`
	Usage *row.Usage `json:"usage,omitempty"`
}
