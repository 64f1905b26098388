package exec

import (
	"context"
	"io"

	"garcon/proto/row"
)

// Catalog lists what a run can be launched with.
type Catalog interface {
	// Models lists models for the project directory, in the provider's order.
	// endpoint is needed when the manifest says so and nil otherwise.
	Models(ctx context.Context, projectPath string, endpoint *Endpoint) ([]Model, error)
}

// Endpoints checks API endpoints, for integrations that need one.
type Endpoints interface {
	// Check asks the endpoint as it is now, past any cache: nil says that it
	// speaks the protocol and takes the credential, as far as that can be told
	// without a paid request.
	Check(ctx context.Context, endpoint *Endpoint) error
}

// Model is one model an agent offers.
type Model struct {
	// ID is what a launch names.
	ID          string `json:"id"`
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`
	// ContextWindow is in tokens, zero when unknown.
	ContextWindow int64    `json:"contextWindow,omitempty"`
	Efforts       []string `json:"efforts,omitempty"`
	Images        bool     `json:"images,omitempty"`
	Default       bool     `json:"default,omitempty"`
}

// Auth says how the agent is installed and signed in, as seen offline.
type Auth interface {
	Status(ctx context.Context) (AuthStatus, error)
}

// AuthStatus is the state of an agent program on the executor.
type AuthStatus struct {
	Installed bool   `json:"installed"`
	Path      string `json:"path,omitempty"`
	Version   string `json:"version,omitempty"`
	// Supported is false when the version is one the adapter refuses.
	Supported bool `json:"supported"`
	// SignedIn is "yes", "no" or "unknown".
	SignedIn string `json:"signedIn"`
	// Method says how, in words, without a secret.
	Method string `json:"method,omitempty"`
	// Install and SignIn are commands a person can run in a terminal.
	Install string `json:"install,omitempty"`
	SignIn  string `json:"signIn,omitempty"`
	// Problem is a sentence when something is wrong.
	Problem string `json:"problem,omitempty"`
}

// Execution opens bindings and launches runs on them.
type Execution interface {
	// OpenBinding makes the lease through which this integration publishes for
	// one chat. The sink must be ready before the call.
	OpenBinding(ctx context.Context, spec BindingSpec, sink Sink) (Ref, error)
	// CloseBinding ends the native processes of the binding. A run still going
	// ends with it, without a terminal. It waits for the sink to be quiet.
	CloseBinding(ctx context.Context, binding Ref) error
	// Start launches the first run of a new native session, Resume a run in
	// the session that Launch.NativeSession names. A returned reference says
	// that the launch was taken; the binding says how it went.
	Start(ctx context.Context, l Launch) (Ref, error)
	Resume(ctx context.Context, l Launch) (Ref, error)
	// Abort asks the run to end. It returns when the request has been made;
	// the terminal comes on the binding.
	Abort(ctx context.Context, run Ref) error
}

// BindingSpec says for whom a binding publishes.
type BindingSpec struct {
	ChatID     string `json:"chatId"`
	View       string `json:"view"`
	OwnerEpoch int64  `json:"ownerEpoch"`
	// ProjectPath is the chat's directory on the executor.
	ProjectPath string `json:"projectPath"`
}

// Launch is everything a run needs.
type Launch struct {
	Binding Ref    `json:"binding"`
	ChatID  string `json:"chatId"`
	TurnID  string `json:"turnId"`
	RunID   string `json:"runId"`
	// NativeSession is the session to resume, empty for Start.
	NativeSession string `json:"nativeSession,omitempty"`
	ProjectPath   string `json:"projectPath"`
	// Model, Mode and Effort are ids from the catalog and the manifest; empty
	// means the agent's own default.
	Model  string `json:"model,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Effort string `json:"effort,omitempty"`
	Prompt Prompt `json:"prompt"`
	// Conversation is set for integrations whose manifest says "controller":
	// what was said before the prompt, oldest first.
	Conversation []Message         `json:"conversation,omitempty"`
	Endpoint     *Endpoint         `json:"endpoint,omitempty"`
	Settings     map[string]string `json:"settings,omitempty"`
}

// Prompt is the input of a turn.
type Prompt struct {
	Text        string           `json:"text"`
	Attachments []AttachmentData `json:"attachments,omitempty"`
}

// AttachmentData is an attachment with its bytes, which are not to be changed.
type AttachmentData struct {
	row.Attachment
	Data []byte `json:"-"`
}

// Message is one message of a carried conversation.
type Message struct {
	// Role is "user" or "assistant".
	Role        string           `json:"role"`
	Text        string           `json:"text"`
	Attachments []AttachmentData `json:"attachments,omitempty"`
}

// Endpoint names an API endpoint of the controller. The credential is not in
// it: the runtime resolves it through [Credentials] for the length of a run.
type Endpoint struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Protocol string `json:"protocol"`
	BaseURL  string `json:"baseUrl"`
}

// Credentials is what a runtime may ask of the controller for a run.
type Credentials interface {
	// Resolve returns the credential of an endpoint. The caller holds it for
	// the run and never stores or logs it.
	Resolve(ctx context.Context, endpointID, runID string) (Credential, error)
}

// Credential is a secret for one endpoint. It prints and encodes as redacted.
type Credential struct{ secret string }

// NewCredential wraps a secret.
func NewCredential(secret string) Credential { return Credential{secret} }

// Reveal returns the secret, for the one place that puts it on the wire.
func (c Credential) Reveal() string { return c.secret }

// String implements fmt.Stringer and hides the secret.
func (Credential) String() string { return "[redacted]" }

// GoString hides the secret from %#v.
func (Credential) GoString() string { return "[redacted]" }

// MarshalJSON hides the secret.
func (Credential) MarshalJSON() ([]byte, error) { return []byte(`"[redacted]"`), nil }

// Permissions answers requests to the user.
type Permissions interface {
	// Answer delivers an answer to the live request. The first call takes the
	// request: any other fails with [CodeAlreadyResolved]. A failure that was
	// definitely not delivered gives the request back.
	Answer(ctx context.Context, request Ref, a Answer) error
}

// Answer is what the user decided.
type Answer struct {
	// OptionID is that of the chosen permission option.
	OptionID string `json:"optionId,omitempty"`
	// Message goes to the agent with a refusal.
	Message string `json:"message,omitempty"`
	// Answers holds labels or free text by question id.
	Answers map[string][]string `json:"answers,omitempty"`
	// Decline refuses to answer a question.
	Decline bool `json:"decline,omitempty"`
}

// Steering delivers text into an active run.
type Steering interface {
	// Steer returns nil when the agent has taken the text in. It fails with
	// [CodeNotSteerable] and no effect when the run is over.
	Steer(ctx context.Context, s Steer) error
}

// Steer is text for an active run.
type Steer struct {
	Run Ref `json:"run"`
	// ID is fresh for every steer and correlates its delivery.
	ID     string `json:"id"`
	Prompt Prompt `json:"prompt"`
}

// Compaction asks the agent to compact a native session. The launch's prompt
// text holds optional instructions; rows and the terminal come on the binding
// as for any run.
type Compaction interface {
	Compact(ctx context.Context, l Launch) (Ref, error)
}

// Forking makes native forks.
type Forking interface {
	// Fork returns the id of a native session that continues the source after
	// the entry with the native id, or after its last entry when that is
	// empty. A fork that is made lazily by the agent is returned as an opaque
	// id that Resume understands.
	Fork(ctx context.Context, f Fork) (string, error)
	// Discard removes a fork that no run has used.
	Discard(ctx context.Context, projectPath, nativeSession string) error
}

// Fork says what to fork.
type Fork struct {
	ProjectPath   string `json:"projectPath"`
	NativeSession string `json:"nativeSession"`
	AtNativeID    string `json:"atNativeId,omitempty"`
}

// History reads native sessions.
type History interface {
	// Sessions lists the native sessions of a project, newest first, at most
	// max.
	Sessions(ctx context.Context, projectPath string, max int) ([]NativeSession, error)
	// Open reads a native session as normalized rows.
	Open(ctx context.Context, projectPath, nativeSession string) (HistoryReader, error)
	// Revision returns an opaque value that changes when the native session
	// does.
	Revision(ctx context.Context, projectPath, nativeSession string) (string, error)
}

// HistoryReader gives the rows of a native session. Close is required.
type HistoryReader interface {
	// Next returns the next rows in order, [io.EOF] after the last.
	Next(ctx context.Context) ([]row.Row, error)
	io.Closer
}

// NativeSession is one session of an agent's own store.
type NativeSession struct {
	ID          string `json:"id"`
	Title       string `json:"title,omitempty"`
	ProjectPath string `json:"projectPath"`
	// Updated is in Unix milliseconds.
	Updated int64 `json:"updated"`
	Size    int64 `json:"size,omitempty"`
}

// Commands lists the slash commands an agent offers in a project.
type Commands interface {
	Commands(ctx context.Context, projectPath string) ([]Command, error)
}

// Command is one slash command.
type Command struct {
	// Name has no slash.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Arguments   string `json:"arguments,omitempty"`
}

// SingleQuery answers one prompt outside any chat, without tools.
type SingleQuery interface {
	Query(ctx context.Context, q Query) (string, error)
}

// Query is one prompt with one answer. The context carries its deadline.
type Query struct {
	Prompt   string    `json:"prompt"`
	System   string    `json:"system,omitempty"`
	Model    string    `json:"model,omitempty"`
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}
