//go:build unix

package runtimefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openOwn opens the file at path if nobody but this user could have written or
// read it. What is checked is what was opened, so nothing can be swapped in
// between.
func openOwn(path string) (*os.File, error) {
	refuse := func(p Problem, format string, args ...any) error {
		return &InvalidError{Path: path, Problem: p, Reason: fmt.Sprintf(format, args...)}
	}
	// Without O_NONBLOCK a named pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrMissing
	case errors.Is(err, syscall.ELOOP):
		return nil, refuse(ProblemSymlink, "it is a symbolic link")
	case errors.Is(err, syscall.ENXIO):
		return nil, refuse(ProblemNotRegular, "it is not a regular file")
	case errors.Is(err, fs.ErrPermission):
		// Somebody else's private file; say so if it can be told.
		if info, statErr := os.Lstat(path); statErr == nil {
			if refusal := checkInfo(info, refuse); refusal != nil {
				return nil, refusal
			}
		}
		return nil, fmt.Errorf("open runtime file: %w", err)
	case err != nil:
		return nil, fmt.Errorf("open runtime file: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = checkInfo(info, refuse)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkInfo(info fs.FileInfo, refuse func(Problem, string, ...any) error) error {
	if !info.Mode().IsRegular() {
		return refuse(ProblemNotRegular, "it is not a regular file")
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return refuse(ProblemOwner, "its owner is not known")
	case int(st.Uid) != os.Geteuid():
		return refuse(ProblemOwner, "it belongs to user %d and you are user %d", st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return refuse(ProblemPermissions, "others can read or write it (mode %04o); it must be 0600", info.Mode().Perm())
	case st.Nlink > 1:
		return refuse(ProblemHardLink, "it has another name on the disk as well (a hard link)")
	}
	return nil
}
