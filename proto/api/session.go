package api

import "garcon/proto/row"

// Who is signed in. A browser signs in with the secret of a one-time link,
// which `garcon login` prints as "…/#login=SECRET", or with the password, and
// from then on has a cookie. A request that the cookie authenticates and that
// changes something carries [HeaderOrigin] "browser", [HeaderInstance] and, but
// for an upload, the type application/json, with or without a body.
const (
	// OpSession is GET /session. It needs no credential.
	OpSession OperationID = "session.show"
	// OpLogin is POST /login. It answers with a [Session] and the cookie, or
	// 401 UNAUTHORIZED; after too many failures 429 TOO_MANY_REQUESTS with
	// "retryAfterMs" in its details. It needs no credential and no instance.
	OpLogin OperationID = "session.login"
	// OpLogout is POST /logout. It ends the session of the cookie, whether or
	// not there is one, and answers with a [Session].
	OpLogout OperationID = "session.logout"
	// OpLoginLink is POST /login/links. Only programs that hold the
	// controller's own credential may use it.
	OpLoginLink OperationID = "session.link"
	// OpSessionsList is GET /sessions.
	OpSessionsList OperationID = "sessions.list"
	// OpSessionsRevoke is DELETE /sessions/{session}; it answers with a
	// [BrowserSessionList].
	OpSessionsRevoke OperationID = "sessions.revoke"
	// OpPassword is PUT /password; it answers with a [Session].
	OpPassword OperationID = "password.set"
	// OpEventsAnswer is POST /events/{event}/answer.
	OpEventsAnswer OperationID = "events.answer"
)

// MaxPassword and MinPassword bound a password, in bytes.
const (
	MinPassword = 10
	MaxPassword = 1024
)

// Session answers [OpSession], [OpLogin], [OpLogout] and [OpPassword].
type Session struct {
	SignedIn bool `json:"signedIn"`
	// PasswordSet says that signing in with a password is possible.
	PasswordSet bool `json:"passwordSet"`
	// NoAuth says that the controller runs without login.
	NoAuth bool `json:"noAuth"`
	// SessionID is the id of the caller's session, absent without one.
	SessionID string `json:"sessionId,omitempty"`
}

// LoginRequest signs a browser in. Exactly one member is given.
type LoginRequest struct {
	// Secret is that of a one-time link.
	Secret   string `json:"secret,omitempty"`
	Password string `json:"password,omitempty"`
}

// LoginLink answers [OpLoginLink].
type LoginLink struct {
	// URL holds the secret in its fragment, which no request carries.
	URL string `json:"url"`
	// ExpiresAt is in Unix milliseconds.
	ExpiresAt int64 `json:"expiresAt"`
}

// BrowserSession is a browser that is signed in. Times are in Unix
// milliseconds.
type BrowserSession struct {
	ID string `json:"id"`
	// Label says what kind of browser it is, such as "Firefox on Linux".
	Label string `json:"label"`
	// Address is where it signed in from.
	Address   string `json:"address,omitempty"`
	CreatedAt int64  `json:"createdAt"`
	// LastSeen is right to within an hour.
	LastSeen  int64 `json:"lastSeen"`
	ExpiresAt int64 `json:"expiresAt"`
	// Current marks the session of the caller.
	Current bool `json:"current,omitempty"`
	// Connected says that the browser has a live connection now.
	Connected bool `json:"connected,omitempty"`
}

// BrowserSessionList answers [OpSessionsList], the most recently used first.
type BrowserSessionList struct {
	Sessions []BrowserSession `json:"sessions"`
}

// PasswordRequest sets the password; an empty Next removes it. Where one is
// set a browser gives it as Current. Every other session ends.
type PasswordRequest struct {
	Current string `json:"current,omitempty"`
	Next    string `json:"next"`
}

// The kinds of answers to a waterfall.
const (
	AnswerResult    = "result"
	AnswerRejection = "rejection"
	AnswerNext      = "next"
)

// EventAnswerRequest answers a waterfall. A result chooses: OptionID or
// Decision for a permission, Answers for a question. A rejection denies or
// declines. Next says "not mine" and leaves the request to the others.
type EventAnswerRequest struct {
	// ClientID is that of the generation that was offered the event.
	ClientID string              `json:"clientId"`
	Kind     string              `json:"kind"`
	OptionID string              `json:"optionId,omitempty"`
	Decision row.Decision        `json:"decision,omitempty"`
	Answers  map[string][]string `json:"answers,omitempty"`
	Message  string              `json:"message,omitempty"`
}

// EventAnswered answers [OpEventsAnswer].
type EventAnswered struct {
	// Outcome is "delivered", or "next" for an answer of that kind.
	Outcome string `json:"outcome"`
	// Waiting is how many other clients have yet to say something, after next.
	Waiting int `json:"waiting,omitempty"`
}

// The reasons of a cancel item of [StreamEvents].
const (
	// CancelResolved: somebody answered.
	CancelResolved = "RESOLVED"
	// CancelAborted: the agent no longer asks, or its run has ended.
	CancelAborted = "ASK_ABORTED"
	// CancelUnknown: an answer was sent and may not have arrived.
	CancelUnknown = "OUTCOME_UNKNOWN"
	// CancelOfferedAgain: an answer did not arrive; the request comes anew
	// under another event id.
	CancelOfferedAgain = "OFFERED_AGAIN"
)
