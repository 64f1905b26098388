package runtimefile

import "errors"

// ErrMissing: there is no file. Every other failure of [Read] is an
// [*InvalidError] or that of the operating system.
var ErrMissing = errors.New("no garcon is running here")

// Problem is why a descriptor is refused.
type Problem string

// The problems of a descriptor.
const (
	ProblemMalformed   Problem = "malformed"
	ProblemSchema      Problem = "schema"
	ProblemPermissions Problem = "permissions"
	ProblemOwner       Problem = "owner"
	ProblemSymlink     Problem = "symlink"
	ProblemHardLink    Problem = "hard-link"
	ProblemNotRegular  Problem = "not-regular"
	ProblemURL         Problem = "url"
)

// InvalidError reports a descriptor that is there and is refused.
type InvalidError struct {
	Path    string
	Problem Problem
	// Reason is a sentence without the path.
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string {
	return "the runtime file " + e.Path + " is refused: " + e.Reason
}
