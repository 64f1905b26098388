package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"garcon/store/runtimefile"
)

// Role is who opens a root.
type Role string

// The roles with durable state.
const (
	RoleController Role = runtimefile.RoleController
	RoleExecutor   Role = runtimefile.RoleExecutor
)

// LeaseHeldError reports that another process holds the role's lease.
type LeaseHeldError struct {
	Role Role
	// PID and URL are those of the holder, zero when it has not said.
	PID int
	URL string
	// Path is the lock file.
	Path string
}

// Error implements error.
func (e *LeaseHeldError) Error() string {
	who := fmt.Sprintf("another garcon %s", e.Role)
	if e.PID != 0 {
		who += fmt.Sprintf(" (pid %d, %s)", e.PID, e.URL)
	}
	return who + " runs with " + filepath.Dir(e.Path) + "; stop it, or use another --config-dir"
}

// Root is a config root with the lease of one role. It is safe for concurrent
// use.
type Root struct {
	dir  string
	role Role
	lock *flock.Flock
}

// OpenRoot takes the lease of the role on dir, which it creates with mode 0700.
// The lease is a kernel lock on a file that is never removed: its content means
// nothing, and it ends with the process however that ends. A root that somebody
// else could write to is refused. With the lease taken, the runtime descriptor
// of an earlier process is removed.
func OpenRoot(dir string, role Role) (*Root, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	own := filepath.Dir(runtimefile.Path(dir, string(role)))
	if own != dir {
		if err := privateDir(own); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(own, string(role)+".lock")
	lock := flock.New(path, flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("take the lease %s: %w", path, err)
	}
	if !held {
		e := &LeaseHeldError{Role: role, Path: path}
		// The holder may be starting or ending; then only the lease is known.
		if d, err := runtimefile.Read(runtimefile.Path(dir, string(role))); err == nil {
			e.PID, e.URL = d.PID, d.URL
		}
		return nil, e
	}
	r := &Root{dir: own, role: role, lock: lock}
	// Whoever finds the descriptor of an earlier process would talk to a port
	// that may be somebody else's by now.
	if err := os.Remove(r.RuntimeFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("remove the runtime file of an earlier process: %w", err), r.Close())
	}
	return r, nil
}

// privateDir makes dir if it is not there and refuses one that others could
// write to.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the config directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("the config directory %s is not a directory", dir)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others can write to the config directory %s (mode %04o); run `chmod go-w` on it", dir, mode)
	}
	if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("the config directory %s belongs to user %d and you are user %d; use another --config-dir", dir, uid, os.Geteuid())
	}
	return nil
}

// Dir returns the role's directory: the root for a controller, its executor
// directory for an executor.
func (r *Root) Dir() string { return r.dir }

// RuntimeFile returns where the role's runtime descriptor goes.
func (r *Root) RuntimeFile() string { return filepath.Join(r.dir, runtimefile.Name) }

// Close gives the lease back.
func (r *Root) Close() error { return r.lock.Unlock() }

// insideExecutor reports whether path is below the executor's directory of the
// root, by whatever name.
func (r *Root) insideExecutor(path string) (bool, error) {
	executor, err := os.Stat(filepath.Join(r.dir, "executor"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The path itself may not exist yet; its parents do from some point on.
	for real := path; ; {
		if resolved, err := filepath.EvalSymlinks(real); err == nil {
			for dir := resolved; ; dir = filepath.Dir(dir) {
				info, err := os.Stat(dir)
				if err != nil {
					return false, err
				}
				if os.SameFile(info, executor) {
					return true, nil
				}
				if dir == filepath.Dir(dir) {
					return false, nil
				}
			}
		}
		if real == filepath.Dir(real) {
			return false, nil
		}
		real = filepath.Dir(real)
	}
}
