package api

import (
	"encoding/json"

	"garcon/proto/row"
)

// Control is the transient state of a chat: true for this process only.
type Control struct {
	ChatID string `json:"chatId"`
	// Revision grows with every change within a server instance.
	Revision  uint64    `json:"revision"`
	Phase     Phase     `json:"phase"`
	TurnID    string    `json:"turnId,omitempty"`
	RunID     string    `json:"runId,omitempty"`
	StartedAt int64     `json:"startedAt,omitempty"`
	Queue     Queue     `json:"queue"`
	Pending   []Pending `json:"pending"`
	Jobs      []Job     `json:"jobs"`
}

// Queue holds messages that wait for the active turn to end.
type Queue struct {
	Entries []QueueEntry `json:"entries"`
	Paused  bool         `json:"paused"`
	// Reason says why the queue is paused.
	Reason string `json:"reason,omitempty"`
}

// QueueEntry is one waiting message.
type QueueEntry struct {
	ID          string          `json:"id"`
	TurnID      string          `json:"turnId"`
	Prompt      string          `json:"prompt"`
	Attachments []AttachmentRef `json:"attachments,omitempty"`
	// Revision grows with every edit; an edit names the one it saw.
	Revision int64 `json:"revision"`
	QueuedAt int64 `json:"queuedAt"`
}

// Pending is a request to the user.
type Pending struct {
	Occurrence string `json:"occurrence"`
	RunID      string `json:"runId"`
	// ControlID is fresh each time the request is offered; an answer names the
	// offer it saw.
	ControlID string   `json:"controlId"`
	Kind      row.Kind `json:"kind"`
	// Answering says that somebody's answer is on its way to the agent.
	Answering bool `json:"answering,omitempty"`
	// AnsweringBy names who that is.
	AnsweringBy string `json:"answeringBy,omitempty"`
	Since       int64  `json:"since"`
	// Row is the permission or question row.
	Row json.RawMessage `json:"row"`
}

// Job is one piece of background work of the agent.
type Job struct {
	ID    string `json:"id"`
	Kind  string `json:"kind,omitempty"`
	Title string `json:"title,omitempty"`
}

// DecideRequest answers a permission request. Either OptionID or Decision is
// given; a decision stands for the first option that carries it.
type DecideRequest struct {
	RunID     string       `json:"runId"`
	ControlID string       `json:"controlId"`
	OptionID  string       `json:"optionId,omitempty"`
	Decision  row.Decision `json:"decision,omitempty"`
	// Message goes to the agent with a refusal.
	Message string `json:"message,omitempty"`
}

// AnswerRequest answers a question.
type AnswerRequest struct {
	RunID     string              `json:"runId"`
	ControlID string              `json:"controlId"`
	Answers   map[string][]string `json:"answers,omitempty"`
	Decline   bool                `json:"decline,omitempty"`
	Message   string              `json:"message,omitempty"`
}

// Resolved answers [OpDecide] and [OpAnswer].
type Resolved struct {
	Occurrence string `json:"occurrence"`
	// Outcome is "delivered", or "unknown" when the agent may or may not have
	// got the answer.
	Outcome string `json:"outcome"`
}

// QueueUpdateRequest changes a waiting message.
type QueueUpdateRequest struct {
	Revision    int64            `json:"revision"`
	Prompt      *string          `json:"prompt,omitempty"`
	Attachments *[]AttachmentRef `json:"attachments,omitempty"`
}

// QueueOrderRequest reorders the queue. EntryIDs holds every entry once.
type QueueOrderRequest struct {
	EntryIDs []string `json:"entryIds"`
}

// QueueSendRequest sends a waiting message at once.
type QueueSendRequest struct {
	// How is [BusySteer] or [BusyInterrupt].
	How BusyPolicy `json:"how"`
}

// Page answers [OpChatsPage]. Query: through and before (ordinals), max
// (messages, at most [MaxPageMessages]), child (a subagent's transcript).
// Without through the page ends at the newest row. A browser gets rows above
// [MaxRowBody] as their heads, see [RowHead].
type Page struct {
	ChatID string `json:"chatId"`
	View   string `json:"view"`
	// Through is the ordinal the page was taken at, -1 for an empty transcript.
	Through int64             `json:"through"`
	Rows    []json.RawMessage `json:"rows"`
	HasMore bool              `json:"hasMore"`
}

// Changes answers [OpChatsChanges]. Query: after (ordinal of the last row
// seen, -1 for none), control (revision seen, 0 for none), live (revision of
// live parts seen), wait (milliseconds). It answers as soon as there is
// something new.
type Changes struct {
	View string            `json:"view"`
	Rows []json.RawMessage `json:"rows"`
	// After is the value for the next request.
	After int64 `json:"after"`
	// Control is set when it changed.
	Control *Control `json:"control,omitempty"`
	// Live is set when it changed: the parts that are streaming now, whole.
	Live         []row.Live `json:"live,omitempty"`
	LiveRevision uint64     `json:"liveRevision"`
	// Deleted says that the chat is gone.
	Deleted bool `json:"deleted,omitempty"`
}
