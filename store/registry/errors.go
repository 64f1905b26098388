package registry

import (
	"errors"

	"garcon/store/internal/boltfile"
)

// Errors of this package. Match them with [errors.Is].
var (
	// ErrNotFound: there is nothing of that id.
	ErrNotFound = errors.New("not found in the workspace")
	// ErrConflict: the id is or was in use, or the request id was used for
	// something else.
	ErrConflict = errors.New("conflicts with what the workspace holds")
	// ErrInvalid: the value is not storable. The message says why.
	ErrInvalid = errors.New("invalid")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the workspace is closed")
	// ErrStorage matches every [*StorageError].
	ErrStorage = boltfile.ErrStorage
	// ErrSchema matches every [*SchemaError].
	ErrSchema = boltfile.ErrSchema
	// ErrDamaged matches every [*DamagedError].
	ErrDamaged = boltfile.ErrDamaged
)

// StorageError reports a write that the operating system refused; Full is set
// when there is no space left. The next change tries again.
type StorageError = boltfile.StorageError

// SchemaError reports a file that a newer version wrote.
type SchemaError = boltfile.SchemaError

// DamagedError reports a workspace file that fails a check. It is left as it is.
type DamagedError struct {
	Path   string
	Reason string
	// Copy is the newest copy known to be good, empty when there is none.
	Copy string
}

// Error implements error.
func (e *DamagedError) Error() string {
	s := "the workspace file " + e.Path + " is damaged: " + e.Reason + ". It was left as it is"
	if e.Copy == "" {
		return s + "; there is no earlier copy beside it."
	}
	return s + "; an earlier copy is " + e.Copy + ": to go back to it, move the damaged file away and rename the copy."
}

// Is matches [ErrDamaged].
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }
