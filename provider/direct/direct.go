package direct

import (
	"context"
	"log/slog"

	"garcon/proto/exec"
	"garcon/provider"
)

// Protocol is one of the protocols the package speaks, and the id of its
// integration.
type Protocol string

// The protocols.
const (
	OpenAIChat      Protocol = "openai-chat"
	OpenAIResponses Protocol = "openai-responses"
	Anthropic       Protocol = "anthropic"
)

// Protocols lists all of them.
func Protocols() []Protocol { return []Protocol{OpenAIChat, OpenAIResponses, Anthropic} }

// protocolInfo is what differs between the protocols beside their codecs.
type protocolInfo struct {
	codec   codec
	label   string
	efforts []string
	// maxImage bounds one picture, in bytes: what the original servers take.
	maxImage int64
}

func infoOf(p Protocol) (protocolInfo, bool) {
	switch p {
	case OpenAIChat:
		return protocolInfo{
			chatCodec{},
			"Chat Completions API",
			[]string{"minimal", "low", "medium", "high"},
			20 << 20,
		}, true
	case OpenAIResponses:
		return protocolInfo{
			responsesCodec{},
			"Responses API",
			[]string{"minimal", "low", "medium", "high"},
			20 << 20,
		}, true
	case Anthropic:
		return protocolInfo{
			anthropicCodec{},
			"Anthropic Messages API",
			[]string{"low", "medium", "high", "xhigh", "max"},
			5 << 20,
		}, true
	}
	return protocolInfo{}, false
}

// maxImages bounds the pictures of one prompt. Servers differ; fewer is what
// people send.
const maxImages = 20

// The settings of a chat.
const (
	settingInstructions = "instructions"
	settingMaxTokens    = "maxOutputTokens"
)

// adapter implements [provider.Adapter] for one protocol.
type adapter struct {
	protocol Protocol
	info     protocolInfo
	host     provider.Host
	client   *client
	models   *modelCache
}

// New returns the integration of a protocol, which must be one of
// [Protocols]; any other is a mistake in the program and panics.
func New(h provider.Host, p Protocol) provider.Adapter {
	return newAdapter(h, p, nil)
}

func newAdapter(h provider.Host, p Protocol, dial dialer) *adapter {
	info, ok := infoOf(p)
	if !ok {
		panic("direct: no protocol " + string(p))
	}
	if h.Log == nil {
		h.Log = slog.New(slog.DiscardHandler)
	}
	c := &client{codec: info.codec, transport: newTransport(dial), log: h.Log, memory: &memory{}}
	return &adapter{protocol: p, info: info, host: h, client: c, models: &modelCache{}}
}

// Manifest implements [provider.Adapter].
func (a *adapter) Manifest() exec.Manifest {
	return exec.Manifest{
		ID:            string(a.protocol),
		Label:         a.info.label,
		Conversation:  exec.ConversationController,
		NeedsEndpoint: true,
		Protocol:      string(a.protocol),
		Efforts:       a.info.efforts,
		Attachments:   exec.Attachments{MediaTypes: imageTypes, MaxCount: maxImages, MaxBytes: a.info.maxImage},
		Settings: []exec.SettingDef{
			{
				Key: settingInstructions, Label: "Instructions",
				Description: "Sent to the model before the conversation, as its system prompt.",
			},
			{
				Key: settingMaxTokens, Label: "Longest answer",
				Description: "The most tokens an answer may have; empty leaves it to the model.",
			},
		},
	}
}

// Facets implements [provider.Adapter].
func (a *adapter) Facets() provider.Facets {
	return provider.Facets{Execution: a, Catalog: a, SingleQuery: a, Endpoints: a, Compaction: true}
}

// Close implements [provider.Adapter].
func (a *adapter) Close(context.Context) error {
	a.client.transport.CloseIdleConnections()
	return nil
}

// Open implements [provider.Execution].
func (a *adapter) Open(provider.Binding) (provider.Conversation, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &chat{adapter: a, ctx: ctx, cancel: cancel, told: map[string]bool{}}, nil
}

// credential asks the controller for the key of an endpoint.
func (a *adapter) credential(ctx context.Context, ep *exec.Endpoint, runID string) (exec.Credential, *exec.Error) {
	if ep == nil {
		return exec.Credential{}, exec.Errorf(exec.CodeInvalid, "No API endpoint was given.").
			WithHint("Choose an endpoint for the chat.")
	}
	if ep.Protocol != "" && ep.Protocol != string(a.protocol) {
		return exec.Credential{}, exec.Errorf(exec.CodeInvalid, "The endpoint %s speaks %s, not %s.",
			endpointName(*ep), ep.Protocol, a.protocol).WithHint("Choose an endpoint of this protocol.")
	}
	if a.host.Credentials == nil {
		return exec.Credential{}, exec.Errorf(exec.CodeUnavailable, "There is no controller to ask for the API key.").
			WithHint("Connect the executor to its controller.")
	}
	c, err := a.host.Credentials.Resolve(ctx, ep.ID, runID)
	if err != nil {
		return exec.Credential{}, exec.AsError(err).WithDispatched(exec.NotDispatched)
	}
	return c, nil
}
