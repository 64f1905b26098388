package exec

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code names a kind of failure. Codes are stable: clients match on them.
type Code string

// The failures of the executor contract.
const (
	CodeInvalid         Code = "INVALID_REQUEST"
	CodeInternal        Code = "INTERNAL"
	CodeUnavailable     Code = "EXECUTOR_UNAVAILABLE"
	CodeUnsupported     Code = "OPERATION_UNSUPPORTED"
	CodeStaleResource   Code = "STALE_RESOURCE"
	CodeOutcomeUnknown  Code = "OUTCOME_UNKNOWN"
	CodeSessionBusy     Code = "NATIVE_SESSION_BUSY"
	CodeAlreadyResolved Code = "ALREADY_RESOLVED"
	CodeNotSteerable    Code = "NOT_STEERABLE"
	CodeCancelled       Code = "CANCELLED"
	CodeUnknownAgent    Code = "UNKNOWN_AGENT"
	CodeUnknownModel    Code = "UNKNOWN_MODEL"
	CodeProjectPath     Code = "PROJECT_PATH_INVALID"
	CodeSessionMissing  Code = "NATIVE_SESSION_NOT_FOUND"
	CodeNoHistory       Code = "NO_NATIVE_HISTORY"
	CodeForkNotNative   Code = "FORK_NOT_NATIVE"

	CodeAgentMissing    Code = "AGENT_NOT_INSTALLED"
	CodeAgentVersion    Code = "AGENT_VERSION_UNSUPPORTED"
	CodeNotSignedIn     Code = "AGENT_NOT_SIGNED_IN"
	CodeUnreachable     Code = "ENDPOINT_UNREACHABLE"
	CodeRefused         Code = "CREDENTIALS_REFUSED"
	CodeRateLimited     Code = "RATE_LIMITED"
	CodeQuota           Code = "QUOTA_EXHAUSTED"
	CodeOverloaded      Code = "MODEL_OVERLOADED"
	CodeContextOverflow Code = "CONTEXT_OVERFLOW"
	CodeTooLarge        Code = "REQUEST_TOO_LARGE"
	CodeModelError      Code = "MODEL_ERROR"
	CodeTruncated       Code = "ANSWER_TRUNCATED"
	CodeContentRefused  Code = "CONTENT_REFUSED"
	CodeAgentCrashed    Code = "AGENT_CRASHED"
	CodeAgentKilled     Code = "AGENT_KILLED"
	CodeAgentProtocol   Code = "AGENT_PROTOCOL"
	CodeAgentTimeout    Code = "AGENT_TIMEOUT"
)

// Dispatched says whether a failed call can have had an effect.
type Dispatched string

// The outcomes of a failed call.
const (
	// NotDispatched: nothing happened; the call may be made again.
	NotDispatched Dispatched = "no"
	// WasDispatched: the other side took the call and answered with this error.
	WasDispatched Dispatched = "yes"
	// MaybeDispatched: nobody knows. Never retried automatically.
	MaybeDispatched Dispatched = "unknown"
)

// Error is the failure of a call or of a run.
type Error struct {
	Code Code `json:"code"`
	// Message is a sentence for people, without a secret.
	Message string `json:"message"`
	// Hint says what to do next; it may be empty.
	Hint       string     `json:"hint,omitempty"`
	Dispatched Dispatched `json:"dispatched"`
	// RetryAfterMs is how long the other side asked to wait, in milliseconds.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	// Detail is more for the curious, such as the end of an agent's stderr. It
	// holds no secret and is bounded by [MaxErrorDetail].
	Detail string `json:"detail,omitempty"`

	cause error
}

// MaxErrorDetail bounds [Error.Detail] in bytes: a screenful of stderr.
const MaxErrorDetail = 8 << 10

// Errorf returns an error that had no effect. A %w argument is kept for
// [errors.Is].
func Errorf(code Code, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: wrapped.Error(), Dispatched: NotDispatched, cause: errors.Unwrap(wrapped)}
}

// WithHint returns a copy of e with a hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithDetail returns a copy of e with a detail, cut to its end.
func (e *Error) WithDetail(detail string) *Error {
	c := *e
	if len(detail) > MaxErrorDetail {
		detail = detail[len(detail)-MaxErrorDetail:]
	}
	c.Detail = detail
	return &c
}

// WithRetryAfter returns a copy of e that says how long to wait.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfterMs = d.Milliseconds()
	return &c
}

// WithDispatched returns a copy of e with another outcome.
func (e *Error) WithDispatched(d Dispatched) *Error {
	c := *e
	c.Dispatched = d
	return &c
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns what caused e.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same code, so that
// errors.Is(err, exec.Errorf(exec.CodeStaleResource, "")) works; prefer
// [CodeOf].
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first [*Error] in err's chain, "" when there
// is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// AsError returns err as an [*Error]. A cancelled context becomes
// [CodeCancelled], anything untyped [CodeInternal] with an unknown outcome.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: CodeCancelled, Message: err.Error(), Dispatched: MaybeDispatched, cause: err}
	}
	return &Error{Code: CodeInternal, Message: err.Error(), Dispatched: MaybeDispatched, cause: err}
}
