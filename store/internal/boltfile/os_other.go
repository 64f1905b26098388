//go:build !unix

package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// noFollow has no equivalent here.
const noFollow = 0

// unlock is not needed here: a lock ends with its handle.
func unlock(*os.File) {}

// errorDiskFull is ERROR_DISK_FULL of Windows.
const errorDiskFull = syscall.Errno(112)

// isFull reports whether err says that no space is left.
func isFull(err error) bool { return errors.Is(err, errorDiskFull) }

// diskFull cannot tell here.
func diskFull(string) bool { return false }

// SyncDir does nothing: a directory cannot be synced here, and the file system
// journals its names.
func SyncDir(string) error { return nil }
