package registry

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"garcon/store/internal/boltfile"
)

// copySuffix is what the copy of the last good file is called by.
const copySuffix = ".last-good"

// keepCopy copies a file that was just read whole without a fault, so that one
// damaged later can be gone back on. The copy is of the last start.
func keepCopy(path string) error {
	return boltfile.CopyFile(path, path+copySuffix)
}

// newestCopy returns the newest copy beside a file that is itself sound, ""
// when there is none.
func newestCopy(path string) string {
	copies, err := filepath.Glob(path + ".schema-*")
	if err != nil {
		copies = nil // the pattern is constant but for the path
	}
	copies = append(copies, path+copySuffix)
	slices.SortFunc(copies, func(a, b string) int { return modified(b) - modified(a) })
	for _, c := range copies {
		if sound(c) {
			return c
		}
	}
	return ""
}

// modified returns when a file was written, in seconds; 0 for none.
func modified(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return int(info.ModTime().Unix())
}

// sound reports whether a copy opens and reads without a fault. It works on a
// copy of the copy, because opening could migrate it.
func sound(path string) bool {
	probe := path + ".probe"
	if boltfile.CopyFile(path, probe) != nil {
		return false
	}
	defer os.Remove(probe)
	f, err := boltfile.Open(probe, fileFormat(""), boltfile.Faults{})
	if err != nil {
		return false
	}
	_, err = readAll(f)
	return errors.Join(err, f.Close()) == nil
}
