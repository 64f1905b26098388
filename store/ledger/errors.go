package ledger

import (
	"errors"
	"fmt"
	"time"

	"garcon/store/internal/boltfile"
)

// Errors of this package. Match them with [errors.Is].
var (
	// ErrNotFound: there is no ledger, transcript or row of that name.
	ErrNotFound = errors.New("not found in the ledger")
	// ErrExists: the chat already has a ledger.
	ErrExists = errors.New("the chat already has a ledger")
	// ErrConflict: the client message id was used before, for something else.
	ErrConflict = errors.New("the client message id was used for another message")
	// ErrInvalid: the request cannot be carried out whatever the state of the
	// ledger. The message says why.
	ErrInvalid = errors.New("invalid request to the ledger")
	// ErrViewReplaced: the transcript the caller refers to was replaced.
	ErrViewReplaced = errors.New("the transcript was reloaded")
	// ErrChanged: rows arrived while a replacement was being staged. The
	// current view is untouched.
	ErrChanged = errors.New("the chat changed while its transcript was being reloaded")
	// ErrClosed: the ledger was closed or its chat deleted.
	ErrClosed = errors.New("the ledger is closed")
	// ErrStorage matches every [*StorageError].
	ErrStorage = boltfile.ErrStorage
	// ErrQuarantined matches every [*QuarantineError].
	ErrQuarantined = errors.New("the chat's ledger is damaged and was set aside")
	// ErrSchema matches every [*SchemaError].
	ErrSchema = boltfile.ErrSchema
)

// StorageError reports a read or write that the operating system refused. Full
// is set when there is no space left. What was committed before stays; the
// next append tries again.
type StorageError = boltfile.StorageError

// SchemaError reports a file that a newer version wrote. The file is untouched.
type SchemaError = boltfile.SchemaError

// QuarantineError reports a damaged ledger. The file was renamed to Path and is
// kept there.
type QuarantineError struct {
	ChatID string
	// Path is where the damaged file is now.
	Path   string
	Reason string
}

// Error implements error.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("the ledger of chat %s is damaged (%s); the file was kept as %s", e.ChatID, e.Reason, e.Path)
}

// Is matches [ErrQuarantined].
func (e *QuarantineError) Is(target error) bool { return target == ErrQuarantined }

// Quarantine describes one damaged file that was set aside.
type Quarantine struct {
	ChatID string
	Path   string
	Reason string
	Time   time.Time
}
