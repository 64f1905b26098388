package row

// User is a message a person, a program or another agent authored.
type User struct {
	Text        string       `json:"text"`
	Attachments []Attachment `json:"attachments,omitempty"`
	// Presentation asks clients to draw the message differently.
	Presentation *Presentation `json:"presentation,omitempty"`
	// ClientID is the client message id of the submission, unique per chat.
	ClientID string `json:"clientId,omitempty"`
	// Origin says where the message came from.
	Origin Origin `json:"origin,omitempty"`
	// Steered marks a message that was delivered into a run already going.
	Steered bool `json:"steered,omitempty"`
}

// Origin is the kind of author of a user row.
type Origin string

// The origins of user rows.
const (
	OriginBrowser  Origin = "browser"
	OriginCLI      Origin = "cli"
	OriginSchedule Origin = "schedule"
	OriginAgent    Origin = "agent"
	OriginExecutor Origin = "executor"
)

// Attachment describes a file that came with a user message. The bytes are in
// the workspace, addressed by Digest.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Digest is "sha256-" and 64 hexadecimal digits.
	Digest string `json:"digest"`
}

// Presentation is how a user message wants to be drawn.
type Presentation struct {
	Title       string `json:"title,omitempty"`
	Style       string `json:"style,omitempty"`
	Color       string `json:"color,omitempty"`
	Collapsible bool   `json:"collapsible,omitempty"`
}

// Assistant is a block of the agent's answer, in Markdown.
type Assistant struct {
	Text string `json:"text"`
	// Final marks the last assistant text of a completed turn: its answer.
	Final bool `json:"final,omitempty"`
	// Partial marks text that was cut off by an interruption or a failure.
	Partial bool `json:"partial,omitempty"`
}

// Reasoning is a block of the agent's thinking, as far as it shows it.
type Reasoning struct {
	Text    string `json:"text"`
	Partial bool   `json:"partial,omitempty"`
}

// Phase is where a run stands.
type Phase string

// The phases a run row can record. A run has one started row and at most one
// of the others.
const (
	RunStarted     Phase = "started"
	RunCompleted   Phase = "completed"
	RunFailed      Phase = "failed"
	RunInterrupted Phase = "interrupted"
)

// Run marks the start or the end of a run.
type Run struct {
	Phase Phase `json:"phase"`
	// Agent and Model are what the run was launched with.
	Agent string `json:"agent,omitempty"`
	Model string `json:"model,omitempty"`
	// Mode is the permission mode the run was launched with.
	Mode string `json:"mode,omitempty"`
	// Code and Detail say why a run failed or was interrupted. Detail is a
	// sentence for people and holds no secret.
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Hint says what to do next.
	Hint  string `json:"hint,omitempty"`
	Usage *Usage `json:"usage,omitempty"`
	// DurationMs is from launch to terminal, in milliseconds.
	DurationMs int64 `json:"durationMs,omitempty"`
	// Unsolicited marks a run that the agent began by itself, such as when one
	// of its background tasks ended.
	Unsolicited bool `json:"unsolicited,omitempty"`
}

// Usage counts tokens of a run. Cost is set only when the provider states it.
type Usage struct {
	InputTokens      int64 `json:"inputTokens,omitempty"`
	OutputTokens     int64 `json:"outputTokens,omitempty"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitempty"`
	// ContextTokens is how much of the context window the conversation took at
	// the end of the run, ContextWindow its size; zero when unknown.
	ContextTokens int64 `json:"contextTokens,omitempty"`
	ContextWindow int64 `json:"contextWindow,omitempty"`
	// CostUSD is in US dollars.
	CostUSD float64 `json:"costUsd,omitempty"`
}

// Compaction marks where the agent replaced its context by a summary.
type Compaction struct {
	// Trigger is "manual" or "auto".
	Trigger      string `json:"trigger"`
	Summary      string `json:"summary,omitempty"`
	TokensBefore int64  `json:"tokensBefore,omitempty"`
	TokensAfter  int64  `json:"tokensAfter,omitempty"`
}

// Owner is who drives a chat.
type Owner struct {
	Executor string `json:"executor"`
	Agent    string `json:"agent"`
	Model    string `json:"model,omitempty"`
}

// Handoff closes the history of one owner and opens that of another.
type Handoff struct {
	From Owner `json:"from"`
	To   Owner `json:"to"`
}

// Subagent says that the agent has a child with a transcript of its own, and
// how it stands. A later row with the same ChildID replaces an earlier one.
type Subagent struct {
	// ChildID is unique within the chat; rows of the child carry it as
	// [Head.Child].
	ChildID string `json:"childId"`
	// CallID is the tool call that started the child.
	CallID string `json:"callId,omitempty"`
	// Mode is "foreground" or "background".
	Mode   string     `json:"mode"`
	Type   string     `json:"type,omitempty"`
	Title  string     `json:"title,omitempty"`
	Status ToolStatus `json:"status"`
	// Summary is the child's report, when it has ended.
	Summary string `json:"summary,omitempty"`
}

// Notice is a durable remark of the controller, of an adapter or of a CLI.
type Notice struct {
	Code  string `json:"code"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Error is a durable report of something that went wrong.
type Error struct {
	Code  string `json:"code"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Session records which native session the chat's runs belong to. It is for
// support only: never rendered, searched or exported.
type Session struct {
	Agent string `json:"agent"`
	ID    string `json:"id"`
}

// Kind implements [Body].
func (*User) Kind() Kind { return KindUser }

// Kind implements [Body].
func (*Assistant) Kind() Kind { return KindAssistant }

// Kind implements [Body].
func (*Reasoning) Kind() Kind { return KindReasoning }

// Kind implements [Body].
func (*Run) Kind() Kind { return KindRun }

// Kind implements [Body].
func (*Compaction) Kind() Kind { return KindCompaction }

// Kind implements [Body].
func (*Handoff) Kind() Kind { return KindHandoff }

// Kind implements [Body].
func (*Subagent) Kind() Kind { return KindSubagent }

// Kind implements [Body].
func (*Notice) Kind() Kind { return KindNotice }

// Kind implements [Body].
func (*Error) Kind() Kind { return KindError }

// Kind implements [Body].
func (*Session) Kind() Kind { return KindSession }

func (u *User) clean(budget int) {
	c := cleaner{budget}
	for i := range u.Attachments {
		c.text(&u.Attachments[i].Name)
		c.text(&u.Attachments[i].MediaType)
	}
	c.text(&u.ClientID)
	if p := u.Presentation; p != nil {
		c.text(&p.Title)
		c.text(&p.Style)
		c.text(&p.Color)
	}
	c.text(&u.Text)
}

func (a *Assistant) clean(budget int) {
	c := cleaner{budget}
	c.text(&a.Text)
}

func (r *Reasoning) clean(budget int) {
	c := cleaner{budget}
	c.text(&r.Text)
}

func (r *Run) clean(budget int) {
	c := cleaner{budget}
	c.text(&r.Agent)
	c.text(&r.Model)
	c.text(&r.Code)
	c.text(&r.Hint)
	c.text(&r.Detail)
}

func (b *Compaction) clean(budget int) {
	c := cleaner{budget}
	c.text(&b.Summary)
}

func (h *Handoff) clean(budget int) {
	c := cleaner{budget}
	for _, o := range []*Owner{&h.From, &h.To} {
		c.text(&o.Executor)
		c.text(&o.Agent)
		c.text(&o.Model)
	}
}

func (s *Subagent) clean(budget int) {
	c := cleaner{budget}
	c.text(&s.ChildID)
	c.text(&s.CallID)
	c.text(&s.Type)
	c.text(&s.Title)
	c.text(&s.Summary)
}

func (n *Notice) clean(budget int) {
	c := cleaner{budget}
	c.text(&n.Code)
	c.text(&n.Title)
	c.text(&n.Text)
}

func (e *Error) clean(budget int) {
	c := cleaner{budget}
	c.text(&e.Code)
	c.text(&e.Title)
	c.text(&e.Text)
}

func (s *Session) clean(budget int) {
	c := cleaner{budget}
	c.text(&s.ID)
}
