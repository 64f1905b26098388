package boltfile

import (
	"errors"
	"fmt"
)

// Sentinels of the typed errors of this package.
var (
	ErrStorage = errors.New("storage failed")
	ErrSchema  = errors.New("written by a newer version")
	ErrDamaged = errors.New("the file is damaged")
	// ErrClosed: the file was closed on purpose.
	ErrClosed = errors.New("the file is closed")
)

// StorageError reports a read or write that the operating system refused.
type StorageError struct {
	// Op says what was attempted.
	Op   string
	Path string
	// Full is set when there is no space or quota left.
	Full bool
	Err  error
}

// Error implements error.
func (e *StorageError) Error() string {
	if e.Full {
		return fmt.Sprintf("%s %s: the disk is full: %v", e.Op, e.Path, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err)
}

// Is matches [ErrStorage].
func (e *StorageError) Is(target error) bool { return target == ErrStorage }

// Unwrap returns what the operating system said.
func (e *StorageError) Unwrap() error { return e.Err }

// SchemaError reports a file that a newer version wrote.
type SchemaError struct {
	Path string
	// Found is the file's schema number, Known the newest this program reads.
	Found, Known int
	// WrittenBy is the version that wrote the file.
	WrittenBy string
}

// Error implements error.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("%s has schema %d, written by garcon %s; this version reads up to %d: use that version or a newer one",
		e.Path, e.Found, e.WrittenBy, e.Known)
}

// Is matches [ErrSchema].
func (e *SchemaError) Is(target error) bool { return target == ErrSchema }

// DamageError reports a file whose content fails a check.
type DamageError struct {
	Path   string
	Reason string
	// Stack is where bbolt panicked, for the log; it may be empty.
	Stack string
}

// Error implements error.
func (e *DamageError) Error() string { return fmt.Sprintf("%s is damaged: %s", e.Path, e.Reason) }

// Is matches [ErrDamaged].
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }
