package registry

import (
	"encoding/json"

	"garcon/proto/exec"
)

// Where a title came from, in rising precedence.
const (
	TitleFromPrompt = "prompt"
	TitleFromAgent  = "agent"
	TitleFromUser   = "user"
)

// Chat is the metadata of one chat. Times are in Unix milliseconds.
type Chat struct {
	// ID is 16 decimal digits, time-ordered; see [Store.NewChatID].
	ID    string `json:"id"`
	Title string `json:"title,omitempty"`
	// TitleSource is one of the TitleFrom constants.
	TitleSource string   `json:"titleSource,omitempty"`
	Folder      string   `json:"folder,omitempty"`
	Position    *float64 `json:"position,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Pinned      bool     `json:"pinned,omitempty"`
	Archived    bool     `json:"archived,omitempty"`
	ExecutorID  string   `json:"executorId"`
	Agent       string   `json:"agent"`
	Model       string   `json:"model,omitempty"`
	Mode        string   `json:"mode,omitempty"`
	Effort      string   `json:"effort,omitempty"`
	EndpointID  string   `json:"endpointId,omitempty"`
	ProjectPath string   `json:"projectPath"`
	// ModeByHuman says that a person chose Mode.
	ModeByHuman bool `json:"modeByHuman,omitempty"`
	// OwnerEpoch counts handoffs.
	OwnerEpoch    int64             `json:"ownerEpoch,omitempty"`
	View          string            `json:"view,omitempty"`
	NativeSession string            `json:"nativeSession,omitempty"`
	ParentID      string            `json:"parentId,omitempty"`
	ForkedFrom    string            `json:"forkedFrom,omitempty"`
	Origin        string            `json:"origin,omitempty"`
	Settings      map[string]string `json:"settings,omitempty"`
	CreatedAt     int64             `json:"createdAt"`
	LastActivity  int64             `json:"lastActivity"`
	Unread        bool              `json:"unread,omitempty"`
	Preview       string            `json:"preview,omitempty"`
	// Revision counts the changes of this chat from 1; the store sets it.
	Revision int64 `json:"revision"`
}

// Submission makes the creation of a chat idempotent.
type Submission struct {
	// RequestID is the client request id; empty means no protection.
	RequestID string
	// Fingerprint identifies the content of the request.
	Fingerprint string
}

// Provider is an API provider of the controller. Its key is write-only here:
// see [Store.ProviderKey].
type Provider struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Protocol string `json:"protocol"`
	BaseURL  string `json:"baseUrl"`
	// Key is never encoded with the provider and is empty in what the store
	// returns. Putting a provider without a key keeps the stored one, unless
	// the scheme, host or port of BaseURL changes: that clears it.
	Key exec.Credential `json:"-"`
	// HasKey says whether a key is stored.
	HasKey bool `json:"hasKey"`
	// Executors are the ids of those that may use the provider.
	Executors []string `json:"executors,omitempty"`
	Models    []string `json:"models,omitempty"`
	CreatedAt int64    `json:"createdAt"`
}

// Selection is what was last used for a project on an executor.
type Selection struct {
	ExecutorID string `json:"executorId"`
	Agent      string `json:"agent"`
	Model      string `json:"model,omitempty"`
	Mode       string `json:"mode,omitempty"`
	Effort     string `json:"effort,omitempty"`
	EndpointID string `json:"endpointId,omitempty"`
}

// Change tells a watcher about one chat. Exactly one member is set.
type Change struct {
	Chat    *Chat
	Removed string
}

// Record is one entry of a [Collection].
type Record struct {
	ID   string
	Data json.RawMessage
}
