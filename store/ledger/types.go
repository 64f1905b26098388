package ledger

import "garcon/proto/row"

// Batch is what one append commits, whole or not at all.
type Batch struct {
	// Rows are stored in this order. The ledger assigns ordinals and, when it
	// is zero, the time; it cleans the bodies in place and owns them from then
	// on.
	Rows []row.Row
	// ClientID makes the append idempotent: the same id with the same
	// Fingerprint stores nothing and reports the first outcome; with another
	// it fails with [ErrConflict]. Empty means no such protection.
	ClientID string
	// Fingerprint identifies the content behind ClientID.
	Fingerprint string
	// Watermark records how far a binding's events are stored.
	Watermark *Watermark
	// Urgent commits without waiting for the grid. Batches with a user row, a
	// request to the user or the end of a run are urgent by themselves.
	Urgent bool
	// Session replaces the native session the chat's runs belong to.
	Session *row.Session
}

// Watermark is how far the events of a binding are stored.
type Watermark struct {
	Binding string `json:"binding"`
	Seq     uint64 `json:"seq"`
}

// Stored is a committed row with its encoded form. Both are shared by all
// readers and must not be changed.
type Stored struct {
	Row row.Row
	// JSON is the row's object.
	JSON []byte
}

// Committed is the outcome of an append.
type Committed struct {
	// First and Last are the ordinals of the batch's main-transcript rows, -1
	// when it has none, or when a replayed batch belongs to a replaced view.
	First, Last int64
	// Rows are the batch's rows in order, children's included. A replayed
	// batch has none: its rows are in the ledger.
	Rows []Stored
	// Replayed says that an earlier append with this client id stored the rows.
	Replayed bool
}

// Head describes a ledger as of its last commit. The slices and maps are the
// caller's.
type Head struct {
	View string
	// ContentStart is the ordinal of the first row that did not come with the
	// chat's creation, such as by a fork.
	ContentStart int64
	// Last is the ordinal of the newest row, -1 when there is none.
	Last int64
	// Rows and Messages count the main transcript.
	Rows, Messages int64
	// Bytes is the size of the encoded rows of all transcripts.
	Bytes int64
	// Watermarks holds the newest [maxWatermarks] bindings.
	Watermarks []Watermark
	// Session is nil until a batch sets it.
	Session *row.Session
	// UnfinishedRuns have a started row and no terminal, oldest first.
	UnfinishedRuns []OpenRun
	// OpenAsks are requests to the user without a resolution in a run without
	// a terminal, oldest first.
	OpenAsks []OpenAsk
}

// OpenRun is a run without a terminal.
type OpenRun struct {
	RunID  string `json:"runId"`
	TurnID string `json:"turnId,omitempty"`
	// Ordinal is that of the started row.
	Ordinal int64 `json:"ordinal"`
}

// OpenAsk is a permission or a question nobody has answered.
type OpenAsk struct {
	Occurrence string `json:"occurrence"`
	// Kind is [row.KindPermission] or [row.KindQuestion].
	Kind    row.Kind `json:"kind"`
	RunID   string   `json:"runId,omitempty"`
	TurnID  string   `json:"turnId,omitempty"`
	Child   string   `json:"child,omitempty"`
	Ordinal int64    `json:"ordinal"`
}

// Child describes the transcript of a subagent.
type Child struct {
	ID string
	// Last is the ordinal of the newest row.
	Last           int64
	Rows, Messages int64
}

// PageQuery asks for rows backwards from a position.
type PageQuery struct {
	// View must be the current one; empty accepts any.
	View string
	// Through is the newest ordinal the caller knows: rows after it are not
	// returned. It is -1 for an empty ledger.
	Through int64
	// Before excludes its ordinal and everything after; -1 means none.
	Before int64
	// MaxMessages bounds the user and assistant rows; everything between them
	// is included.
	MaxMessages int
	// Child selects a subagent's transcript.
	Child string
}

// Page is a contiguous run of rows.
type Page struct {
	Rows []Stored
	// HasMore says that rows precede First.
	HasMore bool
	// First and Last are ordinals, -1 when the page is empty.
	First, Last int64
	View        string
	Through     int64
}

// CreateMeta is what a new ledger starts with.
type CreateMeta struct {
	View         string
	ContentStart int64
}
