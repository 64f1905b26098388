package boltfile

import (
	"errors"
	"fmt"
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
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	if _, ok := errors.AsType[syscall.Errno](err); !ok {
		// bbolt reports a failed resize as text only.
		full = diskFull(path)
	}
	return &StorageError{Op: op, Path: path, Full: full, Err: err}
}

// diskFullBytes is how little space counts as none: bbolt asks for at least one
// doubling of the smallest file.
const diskFullBytes = 64 << 10

func diskFull(path string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(path, &st) == nil && st.Bavail*uint64(st.Bsize) < diskFullBytes
}
