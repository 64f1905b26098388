package ledger

import (
	"context"
	"errors"

	"garcon/proto/row"
)

// Ledger is one chat's transcript. All methods are safe for concurrent use.
type Ledger struct{}

// ChatID returns the chat the ledger belongs to.
func (l *Ledger) ChatID() string { return "" }

// Release gives the ledger back. Each Open and Create needs one.
func (l *Ledger) Release() {}

// Append stores the batch and returns after the commit that holds it. When ctx
// ends first the outcome is unknown: the batch may still be committed.
func (l *Ledger) Append(ctx context.Context, b Batch) (Committed, error) {
	return Committed{}, errors.ErrUnsupported
}

// AppendAsync queues the batch, blocking while the queue is full, and calls
// done after its commit. Calls of done come one at a time, in order, from the
// writer goroutine, and must be cheap; they must not wait for the ledger. On a
// ledger that is closed, or for an invalid batch, done is called before
// AppendAsync returns.
func (l *Ledger) AppendAsync(b Batch, done func(Committed, error)) {}

// Follow starts reading a transcript at the ordinal from, which is at most one
// after the newest.
func (l *Ledger) Follow(from int64, child string) (*Follower, error) {
	return nil, errors.ErrUnsupported
}

// Page returns one page.
func (l *Ledger) Page(ctx context.Context, q PageQuery) (Page, error) {
	return Page{}, errors.ErrUnsupported
}

// Row returns one row.
func (l *Ledger) Row(ctx context.Context, child string, ordinal int64) (Stored, error) {
	return Stored{}, errors.ErrUnsupported
}

// Head returns the state as of the last commit. It reads no file.
func (l *Ledger) Head() Head { return Head{} }

// Watermark returns how far the binding's events are stored.
func (l *Ledger) Watermark(binding string) (uint64, bool) { return 0, false }

// Children lists the subagents' transcripts, by id.
func (l *Ledger) Children(ctx context.Context) ([]Child, error) { return nil, errors.ErrUnsupported }

// Replace imports rows into a staged file and swaps it in atomically under a
// new view id. next gives the rows in order and [io.EOF] after the last. On any
// failure the current view is untouched. Rows appended since the call make it
// fail with [ErrChanged]. Client message ids, watermarks and the native session
// are kept; followers end with [ErrViewReplaced].
func (l *Ledger) Replace(ctx context.Context, view string, next func(context.Context) ([]row.Row, error)) (Head, error) {
	return Head{}, errors.ErrUnsupported
}

// Follower gives the rows of one transcript in order, without gaps or doubles,
// first from disk and then as they are committed. It is for one goroutine;
// Close may be called from any.
type Follower struct{}

// Next blocks until there are rows and returns them.
func (f *Follower) Next(ctx context.Context) ([]Stored, error) { return nil, errors.ErrUnsupported }

// Close ends the follower and a Next in progress.
func (f *Follower) Close() {}
