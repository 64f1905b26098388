//go:build unix

package boltfile

import (
	"errors"
	"os"
	"syscall"
)

// noFollow keeps a link in a file's place from leading somewhere else.
const noFollow = syscall.O_NOFOLLOW

// unlock gives up the kernel's lock on a file that may stay mapped.
func unlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// isFull reports whether err says that no space or quota is left.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// diskFullBytes is how little space counts as none: bbolt asks for at least one
// doubling of the smallest file.
const diskFullBytes = 64 << 10

// diskFull looks whether the file system that holds path is full.
func diskFull(path string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(path, &st) == nil && st.Bavail*uint64(st.Bsize) < diskFullBytes
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
