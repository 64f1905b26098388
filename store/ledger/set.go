package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Options configure a [Set].
type Options struct {
	// Log takes what concerns no single call; nil discards.
	Log *slog.Logger
	// Clock gives row times; nil means [time.Now].
	Clock func() time.Time
	// Version is written into files, so that an older program can name the one
	// that wrote them.
	Version string
}

// Set is the ledgers of one workspace. All methods are safe for concurrent use.
type Set struct{}

// OpenSet opens the ledgers in dir, which it creates.
func OpenSet(dir string, opts Options) (*Set, error) { return nil, errors.ErrUnsupported }

// Open returns the chat's ledger, shared with everyone else who has it open.
// The caller must release it.
func (s *Set) Open(ctx context.Context, chatID string) (*Ledger, error) {
	return nil, errors.ErrUnsupported
}

// Create returns a new, empty ledger. Its file is written with the first append
// (in the same commit), or at the latest when the last user releases it.
func (s *Set) Create(ctx context.Context, chatID string, meta CreateMeta) (*Ledger, error) {
	return nil, errors.ErrUnsupported
}

// Exists reports whether the chat has a ledger.
func (s *Set) Exists(chatID string) bool { return false }

// Delete removes everything kept for the chat, set aside files included, and
// ends whoever uses its ledger with [ErrClosed].
func (s *Set) Delete(ctx context.Context, chatID string) error { return errors.ErrUnsupported }

// Quarantined lists the files that were set aside, oldest first.
func (s *Set) Quarantined() []Quarantine { return nil }

// Close commits what is queued and closes every ledger.
func (s *Set) Close() error { return nil }
