package claude

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"garcon/proto/exec"
)

// nativeRef is what a launch may name as its session: nothing, a session, or a
// fork that is still to be made.
type nativeRef struct {
	session string
	fork    *forkRef
}

// forkRef is a fork that the CLI makes with its first message: nothing of it is
// on disk before that. Its id is chosen in advance, so that a launch that failed
// half way can tell whether it was made.
type forkRef struct {
	source string
	// at is the last entry that the fork has, which pins the fork even when
	// the source goes on.
	at string
	id string
}

const forkPrefix = "fork:"

// String is the opaque id of the fork.
func (f forkRef) String() string { return forkPrefix + f.source + ":" + f.at + ":" + f.id }

// parseNative reads the name of a session.
func parseNative(s string) (nativeRef, error) {
	rest, isFork := strings.CutPrefix(s, forkPrefix)
	if !isFork {
		if s != "" && !isUUID(s) {
			return nativeRef{}, exec.Errorf(exec.CodeSessionMissing, "%q is not a session of Claude Code", s)
		}
		return nativeRef{session: s}, nil
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 || !isUUID(parts[0]) || parts[1] != "" && !isUUID(parts[1]) || !isUUID(parts[2]) {
		return nativeRef{}, exec.Errorf(exec.CodeSessionMissing, "%q is not a fork of a Claude Code session", s)
	}
	return nativeRef{fork: &forkRef{source: parts[0], at: parts[1], id: parts[2]}}, nil
}

// isUUID accepts the plain form only: the CLI takes no other.
func isUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// planSession fills in which session sp is about.
func (a *adapter) planSession(sp *spec, native string) error {
	ref, err := parseNative(native)
	if err != nil {
		return err
	}
	switch {
	case ref.fork != nil && a.transcripts().has(ref.fork.id):
		// An earlier launch has made it.
		ref = nativeRef{session: ref.fork.id}
	case ref.fork == nil && ref.session == "":
		sp.session = uuid.NewString()
	}
	sp.native = ref
	return nil
}

// forking implements [exec.Forking].
type forking struct{ *adapter }

// Fork implements [exec.Forking]. The fork is made by the launch that uses it.
func (f forking) Fork(ctx context.Context, req exec.Fork) (string, error) {
	ref, err := parseNative(req.NativeSession)
	if err != nil {
		return "", err
	}
	at := entryID(req.AtNativeID)
	if ref.fork != nil {
		if f.transcripts().has(ref.fork.id) {
			ref = nativeRef{session: ref.fork.id}
		} else {
			// A fork of a fork that was not used is one of its source.
			ref, at = nativeRef{session: ref.fork.source}, first(at, ref.fork.at)
		}
	}
	f.flushed(ctx, req.ProjectPath, ref.session)
	path, err := f.transcripts().find(req.ProjectPath, ref.session)
	if err != nil {
		return "", err
	}
	index, err := readIndex(ctx, path)
	if err != nil {
		return "", err
	}
	if at == "" {
		at = index.tip()
		if at == "" {
			return "", exec.Errorf(exec.CodeSessionMissing, "the session has nothing to fork yet")
		}
	} else if !index.has(at) {
		return "", exec.Errorf(exec.CodeSessionMissing, "the session has no entry %s", at)
	}
	return forkRef{source: ref.session, at: at, id: uuid.NewString()}.String(), nil
}

// Discard implements [exec.Forking]. A fork that no run has used is nothing but
// its name.
func (f forking) Discard(_ context.Context, _, native string) error {
	_, err := parseNative(native)
	return err
}
