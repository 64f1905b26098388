package api

import (
	"net/http"

	"garcon/proto/exec"
)

// Code names a kind of failure of the HTTP interface. The codes of
// [exec.Code] appear in the same place.
type Code string

// Failures of the controller itself.
const (
	CodeInvalid           Code = "INVALID_REQUEST"
	CodeUnauthorized      Code = "UNAUTHORIZED"
	CodeForbidden         Code = "FORBIDDEN"
	CodeHostRefused       Code = "HOST_REFUSED"
	CodeOriginRefused     Code = "ORIGIN_REFUSED"
	CodeNotFound          Code = "NOT_FOUND"
	CodeChatNotFound      Code = "CHAT_NOT_FOUND"
	CodeTurnNotFound      Code = "TURN_NOT_FOUND"
	CodeConflict          Code = "REQUEST_ID_CONFLICT"
	CodeChatBusy          Code = "CHAT_BUSY"
	CodeChatIdle          Code = "CHAT_IDLE"
	CodeChatOwnerChanged  Code = "CHAT_OWNER_CHANGED"
	CodeChatUnavailable   Code = "CHAT_UNAVAILABLE"
	CodeQueueFull         Code = "QUEUE_FULL"
	CodeQueueEntryGone    Code = "QUEUE_ENTRY_GONE"
	CodeRequestGone       Code = "REQUEST_GONE"
	CodeAlreadyResolved   Code = "ALREADY_RESOLVED"
	CodeControllerChanged Code = "CLI_CONTROLLER_CHANGED"
	CodeShuttingDown      Code = "SHUTTING_DOWN"
	CodeTooLarge          Code = "REQUEST_TOO_LARGE"
	CodeMediaType         Code = "UNSUPPORTED_MEDIA_TYPE"
	CodeTooMany           Code = "TOO_MANY_REQUESTS"
	CodeStorageFull       Code = "STORAGE_FULL"
	CodeStorage           Code = "STORAGE_FAILED"
	CodeDamaged           Code = "LEDGER_QUARANTINED"
	CodeInternal          Code = "INTERNAL"
)

// Error is the body of a failure.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Hint says what to do next.
	Hint string `json:"hint,omitempty"`
	// Details is for programs; its members depend on the code.
	Details map[string]any `json:"details,omitempty"`
	// Status is the HTTP status; it is not part of the document.
	Status int `json:"-"`
}

// DetailDeleted is a member of the details of [CodeChatNotFound]: true when the
// chat was there once.
const DetailDeleted = "deleted"

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Envelope is the document of a failure.
type Envelope struct {
	Error *Error `json:"error"`
}

// statuses are the HTTP statuses of the codes; any other is 500.
var statuses = map[Code]int{
	CodeInvalid: http.StatusBadRequest, CodeUnauthorized: http.StatusUnauthorized,
	CodeForbidden: http.StatusForbidden, CodeHostRefused: http.StatusForbidden, CodeOriginRefused: http.StatusForbidden,
	CodeNotFound: http.StatusNotFound, CodeChatNotFound: http.StatusNotFound, CodeTurnNotFound: http.StatusNotFound,
	CodeConflict: http.StatusConflict, CodeChatBusy: http.StatusConflict, CodeChatIdle: http.StatusConflict,
	CodeChatOwnerChanged: http.StatusConflict, CodeChatUnavailable: http.StatusServiceUnavailable,
	CodeQueueFull: http.StatusConflict, CodeQueueEntryGone: http.StatusGone,
	CodeRequestGone: http.StatusGone, CodeAlreadyResolved: http.StatusConflict,
	CodeControllerChanged: http.StatusConflict, CodeShuttingDown: http.StatusServiceUnavailable,
	CodeTooLarge: http.StatusRequestEntityTooLarge, CodeMediaType: http.StatusUnsupportedMediaType,
	CodeTooMany: http.StatusTooManyRequests, CodeStorageFull: http.StatusInsufficientStorage,
	CodeStorage: http.StatusInternalServerError, CodeDamaged: http.StatusConflict,
	CodeInternal: http.StatusInternalServerError,

	Code(exec.CodeUnavailable): http.StatusServiceUnavailable, Code(exec.CodeUnsupported): http.StatusUnprocessableEntity,
	Code(exec.CodeStaleResource): http.StatusGone, Code(exec.CodeOutcomeUnknown): http.StatusServiceUnavailable,
	Code(exec.CodeSessionBusy): http.StatusConflict, Code(exec.CodeNotSteerable): http.StatusConflict,
	Code(exec.CodeUnknownAgent): http.StatusUnprocessableEntity, Code(exec.CodeUnknownModel): http.StatusUnprocessableEntity,
	Code(exec.CodeProjectPath): http.StatusUnprocessableEntity, Code(exec.CodeAgentMissing): http.StatusUnprocessableEntity,
	Code(exec.CodeNotSignedIn): http.StatusUnprocessableEntity, Code(exec.CodeUnreachable): http.StatusBadGateway,
	Code(exec.CodeRefused): http.StatusBadGateway, Code(exec.CodeAgentTimeout): http.StatusGatewayTimeout,
}

// StatusOf returns the HTTP status of a code.
func StatusOf(c Code) int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// NewError returns a failure with the status of its code.
func NewError(c Code, message, hint string) *Error {
	return &Error{Code: c, Message: message, Hint: hint, Status: StatusOf(c)}
}

// FromExec turns a failure of the executor contract into one of this
// interface.
func FromExec(e *exec.Error) *Error {
	out := NewError(Code(e.Code), e.Message, e.Hint)
	out.Details = map[string]any{"dispatched": string(e.Dispatched)}
	if e.Detail != "" {
		out.Details["detail"] = e.Detail
	}
	if e.RetryAfterMs > 0 {
		out.Details["retryAfterMs"] = e.RetryAfterMs
	}
	return out
}
