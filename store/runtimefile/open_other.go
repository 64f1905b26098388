//go:build !unix

package runtimefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// openOwn opens the file at path. Who may read it is up to the access list of
// the user's profile, which is private by default.
func openOwn(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("open runtime file: %w", err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, &InvalidError{Path: path, Problem: ProblemSymlink, Reason: "it is a symbolic link"}
	}
	if !info.Mode().IsRegular() {
		return nil, &InvalidError{Path: path, Problem: ProblemNotRegular, Reason: "it is not a regular file"}
	}
	return os.Open(path)
}
