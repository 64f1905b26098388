package registry

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"garcon/store/internal/boltfile"
)

// copySuffix is what the copy of the last good file is called by.
const copySuffix = ".last-good"

// schemaSuffix begins what boltfile.SchemaCopy adds to a name.
const schemaSuffix = ".schema-"

// keepCopy copies a file that was just read whole without a fault, so that one
// damaged later can be gone back on. The copy is of the last start.
func keepCopy(f *boltfile.File) error { return f.Backup(f.Path() + copySuffix) }

// newestCopy returns the newest copy beside a file that is itself sound, ""
// when there is none.
func newestCopy(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "" // then there is no copy to name either
	}
	var copies []string
	for _, e := range entries {
		suffix, ok := strings.CutPrefix(e.Name(), filepath.Base(path))
		if ok && (suffix == copySuffix || strings.HasPrefix(suffix, schemaSuffix)) {
			copies = append(copies, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	slices.SortFunc(copies, func(a, b string) int { return modified(b).Compare(modified(a)) })
	for _, c := range copies {
		if sound(c) {
			return c
		}
	}
	return ""
}

// modified returns when a file was written, the zero time for none.
func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// sound reports whether a copy opens and reads without a fault. It works on a
// copy of the copy, because opening could migrate it.
func sound(path string) bool {
	probe := path + ".probe"
	if boltfile.CopyFile(path, probe) != nil {
		return false
	}
	defer os.Remove(probe)
	// What a migration keeps of the probe goes with it.
	defer func() {
		for schema := 1; os.Remove(boltfile.SchemaCopy(probe, schema)) == nil; schema++ {
		}
	}()
	f, err := boltfile.Open(probe, fileFormat(""), boltfile.Faults{})
	if err != nil {
		return false
	}
	_, err = readAll(f)
	return errors.Join(err, f.Close()) == nil
}
