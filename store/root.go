package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"garcon/store/ledger"
	"garcon/store/registry"
)

// Role is who opens a root.
type Role string

// The roles with durable state.
const (
	RoleController Role = "controller"
	RoleExecutor   Role = "executor"
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
	return fmt.Sprintf("another garcon %s runs with %s", e.Role, e.Path)
}

// Root is a config root with the lease of one role.
type Root struct{}

// OpenRoot takes the lease of the role on dir, which it creates with mode 0700.
func OpenRoot(dir string, role Role) (*Root, error) { return nil, errors.ErrUnsupported }

// Dir returns the role's directory: the root for a controller, its executor
// directory for an executor.
func (r *Root) Dir() string { return "" }

// RuntimeFile returns where the role's runtime descriptor goes.
func (r *Root) RuntimeFile() string { return "" }

// Close gives the lease back.
func (r *Root) Close() error { return nil }

// Options configure a [Workspace].
type Options struct {
	// Log takes what concerns no single call; nil discards.
	Log *slog.Logger
	// Clock gives times; nil means [time.Now].
	Clock func() time.Time
	// Version is written into files; empty means that of the build.
	Version string
}

// OpenWorkspace opens or creates the named workspace of a controller's root.
func (r *Root) OpenWorkspace(ctx context.Context, name string, opts Options) (*Workspace, error) {
	return nil, errors.ErrUnsupported
}

// Workspace is the open data of one workspace.
type Workspace struct{}

// Registry returns the chats, providers and settings.
func (w *Workspace) Registry() *registry.Store { return nil }

// Ledgers returns the transcripts.
func (w *Workspace) Ledgers() *ledger.Set { return nil }

// Attachments returns the files of messages.
func (w *Workspace) Attachments() *Attachments { return nil }

// Quarantined lists damaged ledgers.
func (w *Workspace) Quarantined() []ledger.Quarantine { return nil }

// Close closes everything the workspace holds.
func (w *Workspace) Close() error { return nil }

// Errors of attachments.
var (
	// ErrNotFound: there is no attachment of that digest.
	ErrNotFound = errors.New("no such attachment")
	// ErrTooLarge: the content is over the caller's limit.
	ErrTooLarge = errors.New("the attachment is too large")
	// ErrDigest: the text is not a digest.
	ErrDigest = errors.New("not an attachment digest")
)

// Attachments are files addressed by their content.
type Attachments struct{}

// Put stores what r gives, at most max bytes, and returns its digest and size.
func (a *Attachments) Put(ctx context.Context, r io.Reader, max int64) (digest string, size int64, err error) {
	return "", 0, errors.ErrUnsupported
}

// Open opens an attachment and returns its size in bytes.
func (a *Attachments) Open(digest string) (io.ReadSeekCloser, int64, error) {
	return nil, 0, errors.ErrUnsupported
}

// Has reports whether the attachment is there.
func (a *Attachments) Has(digest string) bool { return false }

// Remove removes an attachment; a missing one is no error.
func (a *Attachments) Remove(digest string) error { return errors.ErrUnsupported }

// Sweep removes attachments that keep refuses and that were last put before
// olderThan ago, and says how many bytes that freed.
func (a *Attachments) Sweep(ctx context.Context, keep func(digest string) bool, olderThan time.Duration) (freed int64, err error) {
	return 0, errors.ErrUnsupported
}
