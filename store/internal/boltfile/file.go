package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// lockTimeout bounds the wait for bbolt's own lock on a file. The lease on the
// root keeps other garcon processes away, so a lock that is held belongs to a
// stray tool and waiting longer would not help.
const lockTimeout = 2 * time.Second

// Faults lets tests fail a commit as a disk would.
type Faults struct {
	// Before runs instead of the commit when it returns an error.
	Before func() error
	// After runs after the commit; its error makes a commit that took look
	// failed, as when the last fsync fails.
	After func() error
}

// File is an open bbolt file. View is safe for concurrent use; Update is for
// one goroutine at a time.
//
// mu is held for reading by every transaction and for writing while db is
// replaced. Nothing is called out to while it is held but the functions given
// to View and Update, which must not call the File.
type File struct {
	path   string
	format Format
	faults Faults

	mu sync.RWMutex
	// db is nil after a failed reopening.
	db *bolt.DB
	// raw is the descriptor db uses.
	raw *os.File
	// suspect says that a commit failed: what the kernel has cached of the file
	// may differ from the disk, so it is opened again before the next commit.
	suspect bool
	// broken is a [*DamageError], [ErrClosed], or nil.
	broken error
}

// Open opens an existing file after checking it, and migrates it when its
// schema is older. A missing file is an [os.ErrNotExist]. See [DamageError],
// [SchemaError] and [StorageError] for the rest.
func Open(path string, format Format, faults Faults) (*File, error) {
	f := &File{path: path, format: format, faults: faults}
	if err := f.open(); err != nil {
		return nil, err
	}
	if err := f.migrate(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Create makes a file with what fill stores in it. The file appears under its
// name when it is complete, with a single wait for the disk. An existing file
// is replaced only when replace is set.
func Create(path string, format Format, faults Faults, replace bool, fill func(*bolt.Tx) error) (*File, error) {
	s, err := Stage(path, format, faults)
	if err != nil {
		return nil, err
	}
	if err := s.Update(fill); err != nil {
		s.Discard()
		return nil, err
	}
	return s.Publish(replace)
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// View runs fn in a read transaction. fn must copy what it keeps and must not
// wait for anything: bbolt's writer waits for it when the file grows.
func (f *File) View(fn func(*bolt.Tx) error) error {
	for {
		f.mu.RLock()
		if f.broken != nil {
			defer f.mu.RUnlock()
			return f.broken
		}
		if f.db != nil {
			break
		}
		f.mu.RUnlock()
		if err := f.reopen(); err != nil {
			return err
		}
	}
	db := f.db
	err, panicked := guard(func() error { return db.View(fn) })
	f.mu.RUnlock()
	return f.settle(err, panicked)
}

// Update runs fn in a write transaction and commits it. An error of fn is
// returned as it is; one of the commit is a [*StorageError], and what fn did is
// then undone, except that it can turn up again when it had reached the disk
// after all: see [File.Suspect].
func (f *File) Update(fn func(*bolt.Tx) error) error {
	f.mu.RLock()
	again := f.suspect || f.db == nil
	f.mu.RUnlock()
	if again {
		if err := f.reopen(); err != nil {
			return err
		}
	}
	f.mu.RLock()
	if f.broken != nil {
		defer f.mu.RUnlock()
		return f.broken
	}
	db := f.db
	var refused error
	err, panicked := guard(func() error {
		err := db.Update(func(tx *bolt.Tx) error {
			if refused = fn(tx); refused == nil && f.faults.Before != nil {
				return f.faults.Before()
			}
			return refused
		})
		if err == nil && f.faults.After != nil {
			err = f.faults.After()
		}
		return err
	})
	f.mu.RUnlock()
	if err == nil || refused != nil || panicked {
		return f.settle(err, panicked)
	}
	f.mu.Lock()
	f.suspect = true
	f.mu.Unlock()
	return storageError("write", f.path, err)
}

// Suspect reports whether the last commit failed. The next Update opens the
// file again first, and may then find that the failed commit took; its caller
// must check before it builds on what it remembers.
func (f *File) Suspect() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.suspect
}

// Reopen opens the file again after a failed commit.
func (f *File) Reopen() error { return f.reopen() }

// Close waits for the transactions in progress and closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil
	}
	f.broken = ErrClosed
	if f.db == nil {
		return nil
	}
	return f.db.Close()
}

// Backup writes a copy of the file as of its last commit to dst, which appears
// whole or not at all.
func (f *File) Backup(dst string) error {
	return WriteAside(dst, func(w io.Writer) error {
		return f.View(func(tx *bolt.Tx) error {
			_, err := tx.WriteTo(w)
			return err
		})
	})
}

// settle gives damage its path and stops the use of the file.
func (f *File) settle(err error, panicked bool) error {
	damage, ok := errors.AsType[*DamageError](err)
	if !ok {
		return err
	}
	damage.Path = f.path
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	f.broken = damage
	if !panicked {
		f.db.Close()
		return damage
	}
	abandon(f.raw)
	return damage
}

// abandon lets go of the descriptor of a bbolt that panicked. It may hold its
// locks, so that closing it would wait for ever. The mapping stays for the rest
// of the process, once for each damaged file, and keeps the kernel's lock
// unless that is given up first.
func abandon(raw *os.File) {
	unlock(raw)
	raw.Close()
}

// reopen opens the file unless that has been done meanwhile.
func (f *File) reopen() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	if f.db != nil && !f.suspect {
		return nil
	}
	if f.db != nil {
		err, panicked := guard(f.db.Close)
		if panicked || err != nil {
			abandon(f.raw)
		}
		f.db = nil
	}
	err := f.open()
	if errors.Is(err, ErrDamaged) {
		f.broken = err
	}
	f.suspect = err != nil
	return err
}

// open checks the file and opens it; the caller holds mu or is alone.
func (f *File) open() error {
	db, raw, err := openBolt(f.path, func() (*os.File, error) {
		// Without O_CREATE: bbolt would make a new file in place of a missing
		// one. noFollow keeps a link from leading out of the workspace.
		raw, err := os.OpenFile(f.path, os.O_RDWR|noFollow, 0)
		if err != nil {
			return nil, err
		}
		if err := check(raw, f.format.Ordered); err != nil {
			raw.Close()
			return nil, err
		}
		return raw, nil
	})
	if err != nil {
		if damage, ok := errors.AsType[*DamageError](err); ok {
			damage.Path = f.path
			return damage
		}
		if errors.Is(err, os.ErrNotExist) {
			return err
		}
		return storageError("open", f.path, err)
	}
	f.db, f.raw = db, raw
	return nil
}

// openBolt gives bbolt the descriptor that openFile returns.
func openBolt(path string, openFile func() (*os.File, error)) (*bolt.DB, *os.File, error) {
	var raw *os.File
	var db *bolt.DB
	err, panicked := guard(func() (err error) {
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout: lockTimeout,
			// The free list is kept on disk. Without it bbolt walks the whole
			// file at every open and after every failed write: 140 ms for a
			// million rows against 0.3 ms, in a goroutine of its own where a
			// panic over a damaged page ends the process.
			NoFreelistSync: false,
			FreelistType:   bolt.FreelistMapType,
			NoStatistics:   true,
			OpenFile: func(string, int, os.FileMode) (*os.File, error) {
				f, err := openFile()
				raw = f
				return f, err
			},
		})
		return err
	})
	if err != nil {
		if panicked && raw != nil {
			abandon(raw)
		}
		if errors.Is(err, bolterrors.ErrTimeout) {
			err = fmt.Errorf("another program holds it open")
		}
		for _, invalid := range []error{bolterrors.ErrInvalid, bolterrors.ErrChecksum, bolterrors.ErrVersionMismatch} {
			if errors.Is(err, invalid) {
				err = &DamageError{Reason: err.Error()}
			}
		}
		return nil, nil, err
	}
	return db, raw, nil
}

// Staged is a file that is being filled aside.
type Staged struct {
	path, final string
	format      Format
	faults      Faults
	db          *bolt.DB
	raw         *os.File
}

// stagedMark is in the name of every staged file.
const stagedMark = ".staged-"

// IsStaged reports whether a name is that of a staged file: what a crash leaves
// behind and the owner of the directory removes when it opens it.
func IsStaged(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, stagedMark)
}

// Stage begins a file that will become path.
func Stage(path string, format Format, faults Faults) (*Staged, error) {
	s := &Staged{final: path, format: format, faults: faults}
	db, raw, err := openBolt(path, func() (*os.File, error) {
		f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+stagedMark+"*")
		if err != nil {
			return nil, err
		}
		s.path = f.Name()
		if _, err := f.Write(emptyImage(os.Getpagesize())); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	})
	if err == nil {
		db.NoSync, db.NoGrowSync = true, true
		s.db, s.raw = db, raw
		err = s.Update(func(tx *bolt.Tx) error { return format.stamp(tx) })
	}
	if err != nil {
		s.Discard()
		return nil, storageError("create", path, err)
	}
	return s, nil
}

// Update adds to the staged file, without waiting for the disk.
func (s *Staged) Update(fn func(*bolt.Tx) error) error {
	var refused error
	err, _ := guard(func() error {
		return s.db.Update(func(tx *bolt.Tx) error {
			if refused = fn(tx); refused == nil && s.faults.Before != nil {
				return s.faults.Before()
			}
			return refused
		})
	})
	if err != nil && refused == nil {
		return storageError("write", s.final, err)
	}
	return err
}

// Publish makes the file durable and gives it its name. On failure it is gone,
// and a file it would have replaced is untouched.
func (s *Staged) Publish(replace bool) (*File, error) {
	err := s.raw.Sync()
	if err == nil && !replace {
		if _, statErr := os.Lstat(s.final); statErr == nil {
			err = os.ErrExist
		}
	}
	if err == nil {
		err = os.Rename(s.path, s.final)
	}
	if err == nil {
		s.path = s.final
		// The rename has happened and, for a replacement, cannot be taken back.
		// When it is not durable a crash brings the former file back, which is
		// as complete as this one.
		if err = SyncDir(filepath.Dir(s.final)); replace {
			err = nil
		}
	}
	if err != nil {
		s.Discard()
		if errors.Is(err, os.ErrExist) {
			return nil, err
		}
		return nil, storageError("create", s.final, err)
	}
	s.db.NoSync, s.db.NoGrowSync = false, false
	return &File{path: s.final, format: s.format, faults: s.faults, db: s.db, raw: s.raw}, nil
}

// Discard removes the staged file.
func (s *Staged) Discard() {
	if s.db != nil {
		s.db.Close()
	}
	if s.path != "" {
		os.Remove(s.path)
	}
}
