package row

import "slices"

// Permission asks the user whether the agent may use a tool.
type Permission struct {
	// Occurrence is unique within the chat.
	Occurrence string    `json:"occurrence"`
	CallID     string    `json:"callId,omitempty"`
	Tool       ToolName  `json:"tool"`
	Name       string    `json:"name,omitempty"`
	Title      string    `json:"title,omitempty"`
	Input      ToolInput `json:"input"`
	// Reason is why the agent must ask, in its own words.
	Reason  string             `json:"reason,omitempty"`
	Options []PermissionOption `json:"options"`
}

// Decision is what an option of a permission request does.
type Decision string

// The decisions a permission option can stand for.
const (
	// AllowOnce lets this one call run.
	AllowOnce Decision = "allow-once"
	// AllowSession lets this call run and what the option's label describes,
	// for as long as the native session lives.
	AllowSession Decision = "allow-session"
	// Deny refuses the call; the agent is told, with the user's message, and
	// goes on.
	Deny Decision = "deny"
	// DenyStop refuses the call and ends the turn.
	DenyStop Decision = "deny-stop"
)

// PermissionOption is one answer the agent accepts.
type PermissionOption struct {
	ID       string   `json:"id"`
	Decision Decision `json:"decision"`
	// Label says in words what the option does and how far it reaches.
	Label string `json:"label"`
}

// PermissionResolved records how a permission request ended.
type PermissionResolved struct {
	Occurrence string `json:"occurrence"`
	// Decision is empty when the request was withdrawn, expired or lost; then
	// Outcome says which.
	Decision Decision `json:"decision,omitempty"`
	OptionID string   `json:"optionId,omitempty"`
	Outcome  Outcome  `json:"outcome"`
	// By names the principal that decided, never a secret.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

// Outcome is how a request to the user ended.
type Outcome string

// The outcomes of permission requests and questions.
const (
	// Answered means that the agent confirmed the answer.
	Answered Outcome = "answered"
	// Withdrawn means that the agent no longer asks.
	Withdrawn Outcome = "withdrawn"
	// Ended means that the run ended first.
	Ended Outcome = "ended"
)

// Question asks the user something.
type Question struct {
	Occurrence string         `json:"occurrence"`
	CallID     string         `json:"callId,omitempty"`
	Questions  []QuestionItem `json:"questions"`
}

// QuestionItem is one question with its options.
type QuestionItem struct {
	// ID is unique within the request and keys the answer.
	ID      string           `json:"id"`
	Header  string           `json:"header,omitempty"`
	Text    string           `json:"text"`
	Options []QuestionOption `json:"options,omitempty"`
	// Multi allows more than one option.
	Multi bool `json:"multi,omitempty"`
	// FreeText allows an answer that is none of the options.
	FreeText bool `json:"freeText,omitempty"`
	// Secret asks clients not to show what is typed.
	Secret bool `json:"secret,omitempty"`
}

// QuestionOption is one offered answer.
type QuestionOption struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// QuestionResolved records how a question ended.
type QuestionResolved struct {
	Occurrence string `json:"occurrence"`
	// Answers holds the chosen labels or the free text by question id. It is
	// nil when the user declined or nobody answered.
	Answers  map[string][]string `json:"answers,omitempty"`
	Declined bool                `json:"declined,omitempty"`
	Outcome  Outcome             `json:"outcome"`
	By       string              `json:"by,omitempty"`
	Message  string              `json:"message,omitempty"`
}

// Kind implements [Body].
func (*Permission) Kind() Kind { return KindPermission }

// Kind implements [Body].
func (*PermissionResolved) Kind() Kind { return KindPermissionResolved }

// Kind implements [Body].
func (*Question) Kind() Kind { return KindQuestion }

// Kind implements [Body].
func (*QuestionResolved) Kind() Kind { return KindQuestionResolved }

func (p *Permission) clean(budget int) {
	c := cleaner{budget}
	c.text(&p.Occurrence)
	c.text(&p.CallID)
	c.text(&p.Name)
	c.text(&p.Title)
	for i := range p.Options {
		c.text(&p.Options[i].ID)
		c.text(&p.Options[i].Label)
	}
	c.text(&p.Reason)
	c.input(&p.Input)
}

func (p *PermissionResolved) clean(budget int) {
	c := cleaner{budget}
	c.text(&p.Occurrence)
	c.text(&p.OptionID)
	c.text(&p.By)
	c.text(&p.Message)
}

func (q *Question) clean(budget int) {
	c := cleaner{budget}
	c.text(&q.Occurrence)
	c.text(&q.CallID)
	c.questions(q.Questions)
}

func (c *cleaner) questions(items []QuestionItem) {
	for i := range items {
		item := &items[i]
		c.text(&item.ID)
		c.text(&item.Header)
		c.text(&item.Text)
		for j := range item.Options {
			c.text(&item.Options[j].Label)
			c.text(&item.Options[j].Description)
		}
	}
}

func (q *QuestionResolved) clean(budget int) {
	c := cleaner{budget}
	c.text(&q.Occurrence)
	c.text(&q.By)
	c.text(&q.Message)
	if q.Answers == nil {
		return
	}
	// The agent that was given the answers may be reading the same map.
	answers := make(map[string][]string, len(q.Answers))
	for id, labels := range q.Answers {
		labels = slices.Clone(labels)
		for i := range labels {
			c.text(&labels[i])
		}
		answers[id] = labels
	}
	q.Answers = answers
}
