package cli

import (
	"context"
	"errors"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// The exit codes.
const (
	// ExitOK: the command did what it was asked to do.
	ExitOK = 0
	// ExitFailed: the turn failed, or the doctor found a problem.
	ExitFailed = 1
	// ExitUsage: the command line or what it names is invalid.
	ExitUsage = 2
	// ExitUnavailable: the server cannot be reached, is busy, or cannot do it
	// now. Also: nobody knows whether it was done.
	ExitUnavailable = 3
	// ExitStopped: the turn was stopped or its chat deleted.
	ExitStopped = 4
	// ExitInterrupted: the user interrupted this command.
	ExitInterrupted = 130
)

// Failure is an error with the exit code it leads to and the next step.
type Failure struct {
	Exit int
	// Code is the server's code, if the server refused.
	Code    api.Code
	Message string
	// Hint says what to do next; it may be empty.
	Hint  string
	cause error
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns what caused f.
func (f *Failure) Unwrap() error { return f.cause }

// ExitCode returns the exit code; it implements kong's interface.
func (f *Failure) ExitCode() int { return f.Exit }

// usage returns a failure for a command that cannot be meant.
func usage(message, hint string) *Failure {
	return &Failure{Exit: ExitUsage, Message: message, Hint: hint}
}

// unavailable returns a failure for what cannot be done now.
func unavailable(message, hint string, cause error) *Failure {
	return &Failure{Exit: ExitUnavailable, Message: message, Hint: hint, cause: cause}
}

// ExitCode returns the exit code of an error; nil is [ExitOK].
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if coder, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return coder.ExitCode()
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	return ExitUnavailable
}

// refused turns a failure the server answered with into one of this program.
func refused(e *api.Error) *Failure {
	f := &Failure{Exit: exitOf(e.Code), Code: e.Code, Message: e.Message, Hint: e.Hint, cause: e}
	if deleted, ok := e.Details[api.DetailDeleted].(bool); ok && deleted {
		f.Exit = ExitStopped
	}
	return f
}

// exitOf returns the exit code of a server's refusal. What the caller named
// wrongly is [ExitUsage]; all that may be different later, and all that is
// unknown to this version, is [ExitUnavailable].
func exitOf(c api.Code) int {
	switch c {
	case api.CodeInvalid, api.CodeNotFound, api.CodeChatNotFound, api.CodeTurnNotFound, api.CodeConflict,
		api.CodeTooLarge, api.CodeMediaType,
		api.Code(exec.CodeUnsupported), api.Code(exec.CodeUnknownAgent), api.Code(exec.CodeUnknownModel),
		api.Code(exec.CodeProjectPath):
		return ExitUsage
	}
	return ExitUnavailable
}

// hasCode reports whether err is a refusal with the code.
func hasCode(err error, c api.Code) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && f.Code == c
}
