package api

import "garcon/proto/exec"

// Uploaded answers [OpAttachmentsPut]. The request body is the file; query:
// name; the media type is that of the request.
type Uploaded struct {
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
}

// AgentList answers [OpAgentsList]. Query: executor.
type AgentList struct {
	ExecutorID string  `json:"executorId"`
	Agents     []Agent `json:"agents"`
}

// Agent is an agent of an executor.
type Agent struct {
	exec.Manifest
	Auth *exec.AuthStatus `json:"auth,omitempty"`
	// Problem says why the agent's state could not be read.
	Problem string `json:"problem,omitempty"`
}

// ModelList answers [OpModelsList]. Query: executor, project, provider.
type ModelList struct {
	ExecutorID string       `json:"executorId"`
	Agent      string       `json:"agent"`
	Models     []exec.Model `json:"models"`
}

// CommandList answers [OpCommandsList]. Query: executor, project.
type CommandList struct {
	Agent    string         `json:"agent"`
	Commands []exec.Command `json:"commands"`
}

// Provider is a configured model API. Its key is never in it.
type Provider struct {
	ID       string `json:"id"`
	Label    string `json:"label"`
	Protocol string `json:"protocol"`
	BaseURL  string `json:"baseUrl"`
	// HasKey says that a key is stored.
	HasKey bool     `json:"hasKey"`
	Models []string `json:"models"`
	// Executors are the executors that may use the provider.
	Executors []string `json:"executors"`
	CreatedAt int64    `json:"createdAt"`
}

// ProviderList answers [OpProvidersList].
type ProviderList struct {
	Providers []Provider `json:"providers"`
}

// ProviderRequest adds or changes a provider. In a change absent members stay
// as they are, but a change of the base URL's host clears the key unless the
// request has a new one.
type ProviderRequest struct {
	Label    *string   `json:"label,omitempty"`
	Protocol *string   `json:"protocol,omitempty"`
	BaseURL  *string   `json:"baseUrl,omitempty"`
	Key      *string   `json:"key,omitempty"`
	Models   *[]string `json:"models,omitempty"`
}

// ProviderTest answers [OpProvidersTest].
type ProviderTest struct {
	OK     bool         `json:"ok"`
	Models []exec.Model `json:"models"`
	Error  *Error       `json:"error,omitempty"`
}

// Settings answers [OpSettingsShow] and is the request of [OpSettingsUpdate],
// in which absent members stay as they are.
type Settings struct {
	DefaultExecutor *string `json:"defaultExecutor,omitempty"`
	DefaultAgent    *string `json:"defaultAgent,omitempty"`
	// AutoTitle asks the chat's own agent for a title after the first turn.
	AutoTitle *bool `json:"autoTitle,omitempty"`
	// IdleAgentMinutes is how long an agent process without work is kept.
	IdleAgentMinutes *int `json:"idleAgentMinutes,omitempty"`
}

// CheckState is the result of one check.
type CheckState string

// The states of a check.
const (
	CheckOK      CheckState = "ok"
	CheckWarning CheckState = "warning"
	CheckProblem CheckState = "problem"
)

// Check is one line of a doctor's report.
type Check struct {
	Name  string     `json:"name"`
	State CheckState `json:"state"`
	Text  string     `json:"text"`
	Hint  string     `json:"hint,omitempty"`
}

// Doctor answers [OpDoctor].
type Doctor struct {
	Checks []Check `json:"checks"`
}
