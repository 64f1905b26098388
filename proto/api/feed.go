package api

import (
	"encoding/json"

	"garcon/proto/row"
)

// The browser's live connection: one WebSocket at [MuxPath] with the
// subprotocol [MuxProtocol]. Text frames carry one [ClientFrame] (upwards) or
// one [ServerFrame] (downwards). A logical stream is opened by the client under
// a number it has not used before on this socket, gives items in order and ends
// once, with end or error. Numbers grow. A stream that the client cancels ends
// with end, and nothing of it follows. Requests that change something never
// travel here.
const (
	MuxPath     = Base + "/mux"
	MuxProtocol = "garcon.mux.v1"
	// MaxFrame bounds one frame, in bytes. A larger item travels as parts.
	MaxFrame = 64 << 10
	// MaxStreams bounds the open streams of one socket: panes and lists of one
	// page, many times over.
	MaxStreams = 64
	// CloseSignedOut is the close code of a socket whose session was revoked
	// or has expired. It ends redialing.
	CloseSignedOut = 4401
	// CloseProtocol is the close code for a frame that breaks the protocol.
	CloseProtocol = 4400
	// CloseSlow is the close code for a client that reads too slowly.
	CloseSlow = 4408
	// MaxRowBody is the encoded size above which a row is sent as its head;
	// [OpChatsBody] gives the whole.
	MaxRowBody = 32 << 10
)

// The types of client frames.
const (
	FrameOpen   = "open"
	FrameCancel = "cancel"
)

// ClientFrame is what a browser sends.
type ClientFrame struct {
	Type   string `json:"type"`
	Stream uint32 `json:"stream"`
	// Name is the stream to open; Args is its document.
	Name StreamName      `json:"name,omitempty"`
	Args json.RawMessage `json:"args,omitempty"`
}

// The types of server frames.
const (
	FrameItem  = "item"
	FramePart  = "part"
	FrameEnd   = "end"
	FrameError = "error"
)

// ServerFrame is what the server sends.
type ServerFrame struct {
	Type   string `json:"type"`
	Stream uint32 `json:"stream"`
	// Value is the item of an item frame.
	Value json.RawMessage `json:"value,omitempty"`
	// Text is a piece of the JSON of an item that does not fit one frame. The
	// pieces come in order, nothing of the stream between them; Last marks the
	// end. The item counts when it is complete.
	Text string `json:"text,omitempty"`
	Last bool   `json:"last,omitempty"`
	// Error is set in an error frame. The stream is over.
	Error *Error `json:"error,omitempty"`
}

// StreamName names a logical stream.
type StreamName string

// The streams.
const (
	// StreamEvents defines a connection generation: its first item is
	// [EventReady], and no other stream is opened before it.
	StreamEvents    StreamName = "$events"
	StreamChats     StreamName = "chats.list"
	StreamFolders   StreamName = "folders.follow"
	StreamControl   StreamName = "control.follow"
	StreamChat      StreamName = "chat.follow"
	StreamExecutors StreamName = "executors.follow"
)

// The types of items.
const (
	ItemSnapshot = "snapshot"
	ItemUpsert   = "upsert"
	ItemRemove   = "remove"

	EventReady     = "ready"
	EventEmit      = "emit"
	EventWaterfall = "waterfall"
	EventCancel    = "cancel"
)

// EventItem is an item of [StreamEvents].
type EventItem struct {
	Type string `json:"type"`
	// ClientID, Host and ServerInstanceID are those of a ready item.
	ClientID         string `json:"clientId,omitempty"`
	Host             *Host  `json:"host,omitempty"`
	ServerInstanceID string `json:"serverInstanceId,omitempty"`
	// Event is the notification of an emit item.
	Event *Notification `json:"event,omitempty"`
	// EventID names a waterfall, and what a cancel item takes back.
	EventID string   `json:"eventId,omitempty"`
	ChatID  string   `json:"chatId,omitempty"`
	Request *Pending `json:"request,omitempty"`
	// Reason says why a waterfall is taken back.
	Reason string `json:"reason,omitempty"`
}

// Host describes the server to a browser.
type Host struct {
	Version   string `json:"version"`
	Workspace string `json:"workspace"`
	// NoAuth says that the controller runs without login.
	NoAuth bool `json:"noAuth,omitempty"`
	Demo   bool `json:"demo,omitempty"`
	// HeartbeatMs is how often the server sends a ping.
	HeartbeatMs int64 `json:"heartbeatMs"`
}

// Notification is something that happened. It is not replayed.
type Notification struct {
	// Kind is "run-finished", "run-failed" or "asked".
	Kind   string `json:"kind"`
	ChatID string `json:"chatId"`
	TurnID string `json:"turnId,omitempty"`
	Title  string `json:"title,omitempty"`
	Text   string `json:"text,omitempty"`
	// DurationMs is how long the run took.
	DurationMs int64 `json:"durationMs,omitempty"`
}

// ChatsItem is an item of [StreamChats].
type ChatsItem struct {
	Type   string `json:"type"`
	Chats  []Chat `json:"chats,omitempty"`
	Chat   *Chat  `json:"chat,omitempty"`
	ChatID string `json:"chatId,omitempty"`
}

// ControlItem is an item of [StreamControl]. The snapshot holds the chats that
// are not idle and empty; an upsert replaces the state of one chat.
type ControlItem struct {
	Type    string    `json:"type"`
	Chats   []Control `json:"chats,omitempty"`
	Control *Control  `json:"control,omitempty"`
	ChatID  string    `json:"chatId,omitempty"`
}

// Folder is an ordered group of chats in the sidebar.
type Folder struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Collapsed bool   `json:"collapsed,omitempty"`
	// ChatIDs are the folder's chats in order.
	ChatIDs []string `json:"chatIds"`
}

// FoldersItem is an item of [StreamFolders]. Order is the complete order of
// folder ids and authoritative whenever it is there.
type FoldersItem struct {
	Type    string   `json:"type"`
	Folders []Folder `json:"folders,omitempty"`
	Folder  *Folder  `json:"folder,omitempty"`
	ID      string   `json:"id,omitempty"`
	Order   []string `json:"order,omitempty"`
	// Archived is the whole set of archived chats, in the snapshot and in an
	// item of its own; absent in such an item it is empty.
	Archived []string `json:"archived,omitempty"`
}

// ItemOrder is the type of a folders item that carries only the order.
const ItemOrder = "order"

// FollowArgs are the arguments of [StreamChat].
type FollowArgs struct {
	ChatID string `json:"chatId"`
	// Child selects a subagent's transcript.
	Child       string `json:"child,omitempty"`
	MaxMessages int    `json:"maxMessages"`
}

// FollowItem is an item of [StreamChat]. The first is a snapshot; then rows
// follow without gaps, and live parts as they grow. An item with rows ends the
// live parts that the rows name by part id. A later snapshot replaces
// everything: it comes when the client was too far behind to be sent all that
// happened, and when the transcript was reloaded (View differs).
//
// An update of a live part has the offset at which the text sent so far ends
// (in bytes of UTF-8), or 0 when it holds the whole text again.
type FollowItem struct {
	Type string `json:"type"`
	View string `json:"view,omitempty"`
	// Header is the chat's list row, in the snapshot and when it changed.
	Header *Chat `json:"header,omitempty"`
	// Cursor is the ordinal of the newest row sent, -1 for none.
	Cursor  int64             `json:"cursor"`
	Rows    []json.RawMessage `json:"rows,omitempty"`
	HasMore bool              `json:"hasMore,omitempty"`
	// Live holds updates of parts; in the snapshot, all parts whole.
	Live []row.Live `json:"live,omitempty"`
	// Ended are the ids of parts that went without becoming a row.
	Ended []string `json:"ended,omitempty"`
}

// The types of follow items beside the snapshot.
const (
	ItemRows   = "rows"
	ItemLive   = "live"
	ItemHeader = "header"
)

// RowHead stands for a row whose encoding is larger than [MaxRowBody]: the row
// with its large texts cut, and these members beside it.
type RowHead struct {
	// FullBytes is the size of the whole row's encoding.
	FullBytes int64 `json:"fullBytes"`
	// Digest is "sha256-" and the hexadecimal hash of the whole encoding.
	Digest string `json:"digest"`
}

// ExecutorsItem is an item of [StreamExecutors].
type ExecutorsItem struct {
	Type       string     `json:"type"`
	Executors  []Executor `json:"executors,omitempty"`
	Executor   *Executor  `json:"executor,omitempty"`
	ExecutorID string     `json:"executorId,omitempty"`
}

// Executor is an executor as a browser sees it.
type Executor struct {
	ID           string `json:"id"`
	Label        string `json:"label"`
	Availability string `json:"availability"`
	Version      string `json:"version,omitempty"`
	Hostname     string `json:"hostname,omitempty"`
	ProjectBase  string `json:"projectBase,omitempty"`
	LastError    string `json:"lastError,omitempty"`
}
