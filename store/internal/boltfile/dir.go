package boltfile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// CopyFile copies src to dst, which appears whole or not at all and is durable
// when CopyFile returns.
func CopyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	return WriteAside(dst, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// WriteAside writes a file aside with mode 0600 and renames it to dst when it is
// complete and on disk.
func WriteAside(dst string, write func(io.Writer) error) error {
	out, err := os.CreateTemp(filepath.Dir(dst), "."+filepath.Base(dst)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	err = write(out)
	if err == nil {
		err = out.Sync()
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", dst, err)
	}
	if err := os.Rename(out.Name(), dst); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dst))
}
