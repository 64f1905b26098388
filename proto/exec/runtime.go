package exec

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Availability is whether a runtime takes calls.
type Availability string

// The availabilities of a runtime.
const (
	Ready        Availability = "ready"
	Reconnecting Availability = "reconnecting"
	Offline      Availability = "offline"
	Disposed     Availability = "disposed"
)

// LocalID is the id of the executor inside the controller's process.
const LocalID = "local"

// Runtime is one executor as the controller consumes it. All methods are safe
// for concurrent use; calls fail through their error and never block beyond
// their context or a deadline of their own.
type Runtime interface {
	// ID is [LocalID] or the executor's UUID.
	ID() string
	Availability() Availability
	// Watch calls f with every later change of the availability, one at a
	// time, until stop is called.
	Watch(f func(Availability)) (stop func())
	Info(ctx context.Context) (Info, error)
	// Integration returns the integration with the id, or [CodeUnknownAgent].
	Integration(ctx context.Context, id string) (*Integration, error)
	Project() Project
	// Close ends every run and every native process and waits for them until
	// ctx ends. It is idempotent.
	Close(ctx context.Context) error
}

// Info describes a runtime.
type Info struct {
	ExecutorID string `json:"executorId"`
	// InstanceID is one process lifetime.
	InstanceID   string     `json:"instanceId"`
	Version      string     `json:"version"`
	Hostname     string     `json:"hostname"`
	OS           string     `json:"os"`
	Arch         string     `json:"arch"`
	ProjectBase  string     `json:"projectBase"`
	Integrations []Manifest `json:"integrations"`
	// Swept lists native processes that an earlier instance left behind and
	// this one ended.
	Swept []SweptProcess `json:"swept,omitempty"`
}

// SweptProcess is a process that an earlier runtime left behind.
type SweptProcess struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// Project is the service that knows project directories.
type Project interface {
	// Inspect resolves path. It does not fail for a path that is missing or
	// outside the base: the result says so.
	Inspect(ctx context.Context, path string) (ProjectInfo, error)
	// ExpandMentions returns the files mentioned as @path in the prompt. It is
	// best effort: what is missing, binary, outside or too large is left out.
	ExpandMentions(ctx context.Context, path, prompt string) ([]Mention, error)
}

// ProjectInfo is what Inspect found.
type ProjectInfo struct {
	// Path is the real path, with links resolved.
	Path       string `json:"path"`
	Exists     bool   `json:"exists"`
	IsDir      bool   `json:"isDir"`
	InsideBase bool   `json:"insideBase"`
	Base       string `json:"base"`
}

// Mention is one file named in a prompt.
type Mention struct {
	// Path is as written in the prompt.
	Path string `json:"path"`
	Text string `json:"text"`
}

// Integration is one provider's adapter inside a runtime. A nil facet means
// that the provider does not support it; no facet has optional methods.
type Integration struct {
	Manifest    Manifest
	Catalog     Catalog
	Auth        Auth
	Execution   Execution
	Permissions Permissions
	Steering    Steering
	Compaction  Compaction
	Forking     Forking
	History     History
	Commands    Commands
	SingleQuery SingleQuery
	Endpoints   Endpoints
}

// The names of facets in [Manifest.Facets], in their order there.
const (
	FacetCatalog     = "catalog"
	FacetAuth        = "auth"
	FacetExecution   = "execution"
	FacetPermissions = "permissions"
	FacetSteering    = "steering"
	FacetCompaction  = "compaction"
	FacetForking     = "forking"
	FacetHistory     = "history"
	FacetCommands    = "commands"
	FacetSingleQuery = "single-query"
	FacetEndpoints   = "endpoints"
)

// Manifest describes an integration. It is data: what a client needs to know
// before it starts anything.
type Manifest struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	// Facets names the facets that are not nil.
	Facets []string `json:"facets"`
	// Conversation is "native" when the agent keeps the conversation, or
	// "controller" when every launch carries it.
	Conversation string `json:"conversation"`
	// NeedsEndpoint says that a run needs an API endpoint of the controller.
	NeedsEndpoint bool `json:"needsEndpoint,omitempty"`
	// Protocol is the endpoint protocol a direct integration speaks.
	Protocol    string       `json:"protocol,omitempty"`
	Modes       []Mode       `json:"modes,omitempty"`
	DefaultMode string       `json:"defaultMode,omitempty"`
	Efforts     []string     `json:"efforts,omitempty"`
	Attachments Attachments  `json:"attachments"`
	Settings    []SettingDef `json:"settings,omitempty"`
}

// The values of Manifest.Conversation.
const (
	ConversationNative     = "native"
	ConversationController = "controller"
)

// Mode is a permission mode of an agent.
type Mode struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	// Description says in words what runs unasked in this mode.
	Description string `json:"description,omitempty"`
	// Bypass marks a mode in which tools run unasked. Only a person chooses
	// such a mode, and a chat resumed by anyone else leaves it.
	Bypass bool `json:"bypass,omitempty"`
}

// Attachments says which files a prompt may carry.
type Attachments struct {
	// MediaTypes are exact types or prefixes such as "image/"; none means that
	// attachments are refused.
	MediaTypes []string `json:"mediaTypes,omitempty"`
	// MaxCount and MaxBytes bound one prompt; MaxBytes is for each file.
	MaxCount int   `json:"maxCount,omitempty"`
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// Accepts reports whether files of a media type are taken. Parameters of the
// type do not matter.
func (a Attachments) Accepts(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	return slices.ContainsFunc(a.MediaTypes, func(t string) bool {
		return t == mediaType || strings.HasSuffix(t, "/") && strings.HasPrefix(mediaType, t)
	})
}

// SettingDef describes one setting of an integration.
type SettingDef struct {
	Key         string   `json:"key"`
	Label       string   `json:"label"`
	Description string   `json:"description,omitempty"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// Limits of calls that have no deadline of their own.
const (
	// DefaultCallTimeout bounds a call whose method declares nothing else.
	DefaultCallTimeout = 120 * time.Second
	// MaxConversation bounds the conversation that a launch carries, in bytes
	// of text: what any current model's context holds.
	MaxConversation = 4 << 20
)
