package api

import "garcon/proto/row"

// RuntimeProof answers [OpRuntime]. Query: challenge, 32 random bytes in
// hexadecimal.
type RuntimeProof struct {
	Schema     int    `json:"schema"`
	Role       string `json:"role"`
	InstanceID string `json:"instanceId"`
	URL        string `json:"url"`
	// Proof is the HMAC in hexadecimal, see store/runtimefile.
	Proof string `json:"proof"`
}

// Context answers [OpContext].
type Context struct {
	ServerInstanceID  string  `json:"serverInstanceId"`
	DefaultExecutorID string  `json:"defaultExecutorId"`
	WorkspaceName     *string `json:"workspaceName"`
	Version           string  `json:"version"`
}

// Chat is a chat's list row with its state.
type Chat struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Tags        []string `json:"tags"`
	Pinned      bool     `json:"pinned"`
	Archived    bool     `json:"archived"`
	ExecutorID  string   `json:"executorId"`
	Agent       string   `json:"agent"`
	Model       string   `json:"model,omitempty"`
	Mode        string   `json:"mode,omitempty"`
	Effort      string   `json:"effort,omitempty"`
	ProviderID  string   `json:"providerId,omitempty"`
	ProjectPath string   `json:"projectPath"`
	OwnerEpoch  int64    `json:"ownerEpoch"`
	ParentID    string   `json:"parentId,omitempty"`
	Origin      string   `json:"origin,omitempty"`
	// CreatedAt and LastActivity are in Unix milliseconds.
	CreatedAt    int64  `json:"createdAt"`
	LastActivity int64  `json:"lastActivity"`
	Unread       bool   `json:"unread"`
	Preview      string `json:"preview,omitempty"`
	State        State  `json:"state"`
}

// Phase is what a chat is doing, as far as this process knows.
type Phase string

// The phases of a chat.
const (
	PhaseIdle         Phase = "idle"
	PhaseAccepted     Phase = "accepted"
	PhasePreparing    Phase = "preparing"
	PhaseRunning      Phase = "running"
	PhaseWaiting      Phase = "waiting"
	PhaseReconnecting Phase = "reconnecting"
)

// State is the short form of [Control] in a list.
type State struct {
	Phase       Phase  `json:"phase"`
	TurnID      string `json:"turnId,omitempty"`
	RunID       string `json:"runId,omitempty"`
	Queued      int    `json:"queued,omitempty"`
	QueuePaused bool   `json:"queuePaused,omitempty"`
	Pending     int    `json:"pending,omitempty"`
	// Unavailable says why the chat cannot be used, such as a ledger that is
	// quarantined.
	Unavailable string `json:"unavailable,omitempty"`
}

// ChatList answers [OpChatsList]. Query: archived=true adds archived chats,
// only=archived lists just them, tag, project, agent filter.
type ChatList struct {
	Chats []Chat `json:"chats"`
}

// AttachmentRef names an uploaded file in a submission.
type AttachmentRef struct {
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
}

// StartRequest starts a chat.
type StartRequest struct {
	// RequestID is fresh for each submission, at most 128 bytes.
	RequestID  string `json:"requestId"`
	ExecutorID string `json:"executorId,omitempty"`
	Agent      string `json:"agent,omitempty"`
	Model      string `json:"model,omitempty"`
	Mode       string `json:"mode,omitempty"`
	Effort     string `json:"effort,omitempty"`
	// ProviderID chooses the API provider of a direct agent.
	ProviderID  string            `json:"providerId,omitempty"`
	ProjectPath string            `json:"projectPath"`
	Title       string            `json:"title,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	ParentID    string            `json:"parentId,omitempty"`
	Settings    map[string]string `json:"settings,omitempty"`
	Prompt      string            `json:"prompt"`
	Attachments []AttachmentRef   `json:"attachments,omitempty"`
}

// BusyPolicy is what a submission to a busy chat does.
type BusyPolicy string

// The policies for a busy chat.
const (
	BusyReject    BusyPolicy = "reject"
	BusyQueue     BusyPolicy = "queue"
	BusySteer     BusyPolicy = "steer"
	BusyInterrupt BusyPolicy = "interrupt"
)

// SubmitRequest sends a message to a chat.
type SubmitRequest struct {
	RequestID   string          `json:"requestId"`
	Prompt      string          `json:"prompt"`
	Attachments []AttachmentRef `json:"attachments,omitempty"`
	// Busy is what to do when a turn is going; empty is [BusyQueue].
	Busy BusyPolicy `json:"busy,omitempty"`
	// Model, Mode and Effort change the chat's selection from this turn on.
	Model              string `json:"model,omitempty"`
	Mode               string `json:"mode,omitempty"`
	Effort             string `json:"effort,omitempty"`
	ExpectedOwnerEpoch *int64 `json:"expectedOwnerEpoch,omitempty"`
}

// Disposition is what became of an accepted submission.
type Disposition string

// The dispositions.
const (
	Started Disposition = "started"
	Queued  Disposition = "queued"
	Steered Disposition = "steered"
)

// Accepted answers [OpChatsStart] and [OpChatsSubmit].
type Accepted struct {
	ChatID string `json:"chatId"`
	// TurnID is the turn to wait for. For a steered message it is the active
	// turn.
	TurnID      string      `json:"turnId"`
	Disposition Disposition `json:"disposition"`
	EntryID     string      `json:"entryId,omitempty"`
	// Replayed says that the request id had been accepted before.
	Replayed bool `json:"replayed,omitempty"`
}

// CompactRequest compacts a chat's context.
type CompactRequest struct {
	RequestID    string `json:"requestId"`
	Instructions string `json:"instructions,omitempty"`
}

// StopRequest stops a chat's active turn. TurnID, when given, must be that of
// the active turn.
type StopRequest struct {
	TurnID string `json:"turnId,omitempty"`
}

// Stopped answers [OpChatsStop].
type Stopped struct {
	// Stopped is false when nothing was running.
	Stopped bool   `json:"stopped"`
	TurnID  string `json:"turnId,omitempty"`
	// QueuePaused says that messages are waiting in a queue that is now paused.
	QueuePaused bool `json:"queuePaused,omitempty"`
}

// UpdateRequest changes what the list shows of a chat, and what its next turn
// runs with. Absent members stay as they are.
type UpdateRequest struct {
	Title    *string   `json:"title,omitempty"`
	Tags     *[]string `json:"tags,omitempty"`
	Pinned   *bool     `json:"pinned,omitempty"`
	Archived *bool     `json:"archived,omitempty"`
	Unread   *bool     `json:"unread,omitempty"`
	Model    *string   `json:"model,omitempty"`
	Mode     *string   `json:"mode,omitempty"`
	Effort   *string   `json:"effort,omitempty"`
}

// Deleted answers [OpChatsDelete].
type Deleted struct {
	ChatID string `json:"chatId"`
}

// TurnState is where a turn stands.
type TurnState string

// The states of a turn.
const (
	TurnQueued TurnState = "queued"
	TurnActive TurnState = "active"
	TurnEnded  TurnState = "ended"
)

// TurnOutcome is how a turn ended.
type TurnOutcome string

// The outcomes of a turn.
const (
	TurnCompleted   TurnOutcome = "completed"
	TurnFailed      TurnOutcome = "failed"
	TurnInterrupted TurnOutcome = "interrupted"
	// TurnRemoved: it was taken from the queue, or its chat was deleted.
	TurnRemoved TurnOutcome = "removed"
)

// Receipt answers [OpTurnsReceipt]. Query: wait, in milliseconds, at most
// [MaxWait]; the answer comes when the turn ends or the wait is over.
type Receipt struct {
	ChatID  string      `json:"chatId"`
	TurnID  string      `json:"turnId"`
	State   TurnState   `json:"state"`
	Outcome TurnOutcome `json:"outcome,omitempty"`
	// FinalText is the agent's last text of a completed turn; FinalTextSize is
	// its whole size in bytes when it was cut.
	FinalText     string     `json:"finalText,omitempty"`
	FinalTextSize int64      `json:"finalTextSize,omitempty"`
	Usage         *row.Usage `json:"usage,omitempty"`
	Error         *Error     `json:"error,omitempty"`
	StartedAt     int64      `json:"startedAt,omitempty"`
	EndedAt       int64      `json:"endedAt,omitempty"`
	// Phase and Pending say what an active turn is doing.
	Phase   Phase `json:"phase,omitempty"`
	Pending int   `json:"pending,omitempty"`
}
