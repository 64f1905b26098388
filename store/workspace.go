package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"time"

	"garcon/store/ledger"
	"garcon/store/registry"
)

// Options configure a [Workspace].
type Options struct {
	// Log takes what concerns no single call; nil discards.
	Log *slog.Logger
	// Clock gives times; nil means [time.Now].
	Clock func() time.Time
	// Version is written into files.
	Version string
}

// Workspace is the open data of one workspace. It is safe for concurrent use.
type Workspace struct {
	registry    *registry.Store
	ledgers     *ledger.Set
	attachments *Attachments
}

// workspaceName is what a workspace may be called: a plain directory name.
var workspaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// OpenWorkspace opens or creates the named workspace of a controller's root. A
// damaged ledger does not keep it from opening, a damaged registry does.
func (r *Root) OpenWorkspace(ctx context.Context, name string, opts Options) (*Workspace, error) {
	if !workspaceName.MatchString(name) {
		return nil, fmt.Errorf("%q cannot be the name of a workspace: use letters, digits, dots and dashes", name)
	}
	if r.role != RoleController {
		return nil, fmt.Errorf("open workspace %s: an %s has no workspaces", name, r.role)
	}
	all := filepath.Join(r.dir, "workspaces")
	dir := filepath.Join(all, name)
	chats, attachments := filepath.Join(dir, "chats"), filepath.Join(dir, "attachments")
	for _, path := range []string{dir, chats, attachments} {
		inside, err := r.insideExecutor(path)
		if err != nil {
			return nil, fmt.Errorf("look at workspace %s: %w", name, err)
		}
		if inside {
			return nil, fmt.Errorf("%s is inside the executor's directory; a controller and an executor never share files", path)
		}
	}
	for _, path := range []string{all, dir, chats, attachments} {
		if err := privateDir(path); err != nil {
			return nil, err
		}
	}
	var err error
	w := &Workspace{}
	if w.registry, err = registry.Open(ctx, filepath.Join(dir, "workspace.db"), registry.Options{Log: opts.Log, Clock: opts.Clock, Version: opts.Version}); err != nil {
		return nil, err
	}
	if w.ledgers, err = ledger.OpenSet(chats, ledger.Options{Log: opts.Log, Clock: opts.Clock, Version: opts.Version}); err != nil {
		return nil, errors.Join(err, w.registry.Close())
	}
	if w.attachments, err = openAttachments(attachments); err != nil {
		return nil, errors.Join(err, w.ledgers.Close(), w.registry.Close())
	}
	return w, nil
}

// Registry returns the chats, providers and settings.
func (w *Workspace) Registry() *registry.Store { return w.registry }

// Ledgers returns the transcripts.
func (w *Workspace) Ledgers() *ledger.Set { return w.ledgers }

// Attachments returns the files of messages.
func (w *Workspace) Attachments() *Attachments { return w.attachments }

// Quarantined lists damaged ledgers.
func (w *Workspace) Quarantined() []ledger.Quarantine { return w.ledgers.Quarantined() }

// Close closes everything the workspace holds.
func (w *Workspace) Close() error {
	return errors.Join(w.ledgers.Close(), w.registry.Close())
}
