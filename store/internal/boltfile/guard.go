package boltfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"syscall"
)

// guard runs f with memory faults turned into panics and panics turned into a
// [*DamageError]: bbolt reads a mapped file, so damage shows as either.
// panicked says whether bbolt may have been left holding its locks.
func guard(f func() error) (err error, panicked bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			panicked = true
			err = &DamageError{Reason: fmt.Sprint(p), Stack: string(debug.Stack())}
		}
	}()
	return f(), false
}

// AsStorageError wraps an error of the operating system in a [*StorageError].
func AsStorageError(op, path string, err error) error { return storageError(op, path, err) }

// storageError wraps what the operating system refused.
func storageError(op, path string, err error) error {
	if already, ok := errors.AsType[*StorageError](err); ok {
		return already
	}
	full := isFull(err)
	if _, ok := errors.AsType[syscall.Errno](err); !ok {
		// bbolt reports a failed resize as text only.
		full = diskFull(filepath.Dir(path))
	}
	return &StorageError{Op: op, Path: path, Full: full, Err: err}
}
