package row

// Live is an update of a part that is still streaming. It is never stored.
type Live struct {
	RunID  string `json:"runId"`
	PartID string `json:"partId"`
	Child  string `json:"child,omitempty"`
	// Kind is [KindAssistant], [KindReasoning], [KindTool] (the input as it
	// grows) or [KindToolResult] (the output as it grows).
	Kind Kind `json:"kind"`
	// Title names the part when its text alone does not, such as the tool.
	Title string `json:"title,omitempty"`
	// Offset is how many bytes of the part came before Text; 0 replaces what
	// is shown.
	Offset int    `json:"offset"`
	Text   string `json:"text"`
}
