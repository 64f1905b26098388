package row

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Kind discriminates rows.
type Kind string

// The kinds of rows this version understands.
const (
	KindUser               Kind = "user"
	KindAssistant          Kind = "assistant"
	KindReasoning          Kind = "reasoning"
	KindTool               Kind = "tool"
	KindToolResult         Kind = "tool-result"
	KindPermission         Kind = "permission"
	KindPermissionResolved Kind = "permission-resolved"
	KindQuestion           Kind = "question"
	KindQuestionResolved   Kind = "question-resolved"
	KindRun                Kind = "run"
	KindCompaction         Kind = "compaction"
	KindHandoff            Kind = "handoff"
	KindSubagent           Kind = "subagent"
	KindNotice             Kind = "notice"
	KindError              Kind = "error"
	KindSession            Kind = "session"
)

// MaxBytes bounds the encoded size of one row. [Row.Encode] cuts a larger one
// with a visible marker, so that one row can always be paged, sent and drawn.
const MaxBytes = 8 << 20

// Head is what every row carries.
type Head struct {
	// Ordinal is the row's position in its transcript, from 0. The ledger
	// assigns it; producers leave it zero.
	Ordinal int64 `json:"ordinal"`
	// Time is when the row came to be, in Unix milliseconds. The ledger fills
	// it when it is zero.
	Time int64 `json:"time"`
	// TurnID and RunID say which turn and which run the row belongs to; both
	// are empty for rows of the controller that belong to none.
	TurnID string `json:"turnId,omitempty"`
	RunID  string `json:"runId,omitempty"`
	// PartID names the live part this row replaces.
	PartID string `json:"partId,omitempty"`
	// NativeID is the provider's own stable id of the entry, unique within the
	// native session; a live row and the same row imported later share it.
	NativeID string `json:"nativeId,omitempty"`
	// Child is the id of the subagent whose transcript the row belongs to,
	// empty for the chat's own.
	Child string `json:"child,omitempty"`
	// Imported marks a row that came from a native session file and not from a
	// live run. Imported rows never trigger anything.
	Imported bool `json:"imported,omitempty"`
}

// Body is the kind-specific part of a row: one of the pointer types of this
// package. A body is immutable once its row has been handed on.
type Body interface {
	// Kind returns the discriminant the body is stored under.
	Kind() Kind
	// clean makes every text of the body storable and cuts the whole to at
	// most about budget bytes of text.
	clean(budget int)
}

// Row is one transcript entry.
type Row struct {
	Head
	Body Body
}

// New returns a row of the run with the given body.
func New(turnID, runID string, body Body) Row {
	return Row{Head: Head{TurnID: turnID, RunID: runID}, Body: body}
}

// Kind returns the kind of the row's body.
func (r Row) Kind() Kind { return r.Body.Kind() }

// newBody returns an empty body of a known kind, nil for any other.
func newBody(k Kind) Body {
	switch k {
	case KindUser:
		return &User{}
	case KindAssistant:
		return &Assistant{}
	case KindReasoning:
		return &Reasoning{}
	case KindTool:
		return &Tool{}
	case KindToolResult:
		return &ToolResult{}
	case KindPermission:
		return &Permission{}
	case KindPermissionResolved:
		return &PermissionResolved{}
	case KindQuestion:
		return &Question{}
	case KindQuestionResolved:
		return &QuestionResolved{}
	case KindRun:
		return &Run{}
	case KindCompaction:
		return &Compaction{}
	case KindHandoff:
		return &Handoff{}
	case KindSubagent:
		return &Subagent{}
	case KindNotice:
		return &Notice{}
	case KindError:
		return &Error{}
	case KindSession:
		return &Session{}
	}
	return nil
}

// Opaque is a row of a kind this version does not know. It keeps the members
// it came with.
type Opaque struct {
	// Type is the unknown kind.
	Type Kind
	// Members is the whole object as it was read.
	Members json.RawMessage
}

// Kind implements [Body].
func (o *Opaque) Kind() Kind { return o.Type }

func (*Opaque) clean(int) {}

// Clean returns the row with every text made storable: invalid UTF-8, NUL and
// lone surrogates replaced, and the whole cut to [MaxBytes] with a visible
// marker. It changes the body in place; call it once, before the row is shared.
func (r Row) Clean() Row {
	r.Body.clean(MaxBytes - headRoom)
	return r
}

// headRoom is what the head and the JSON syntax of a row may take beside its
// texts.
const headRoom = 16 << 10

type headWithKind struct {
	Head
	Kind Kind `json:"kind"`
}

// Encode returns the row's JSON object. It fails only when the row is larger
// than [MaxBytes] in spite of [Row.Clean].
func (r Row) Encode() ([]byte, error) {
	if o, ok := r.Body.(*Opaque); ok {
		return o.encode(r.Head)
	}
	head, err := json.Marshal(headWithKind{r.Head, r.Body.Kind()})
	if err != nil {
		return nil, err
	}
	body, err := marshal(r.Body)
	if err != nil {
		return nil, fmt.Errorf("encode %s row: %w", r.Body.Kind(), err)
	}
	return join(head, body)
}

// join merges two JSON objects into one.
func join(head, body []byte) ([]byte, error) {
	if len(head)+len(body) > MaxBytes {
		return nil, fmt.Errorf("row of %d bytes is over the limit of %d", len(head)+len(body), MaxBytes)
	}
	if len(body) <= 2 {
		return head, nil
	}
	out := make([]byte, 0, len(head)+len(body))
	out = append(out, head[:len(head)-1]...)
	out = append(out, ',')
	return append(out, body[1:]...), nil
}

// marshal encodes without the HTML escapes of [json.Marshal], which would grow
// source code by a half.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// encode writes the members back with the head the row has now.
func (o *Opaque) encode(h Head) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(o.Members, &members); err != nil {
		return nil, fmt.Errorf("encode opaque row: %w", err)
	}
	for _, name := range []string{"ordinal", "time", "turnId", "runId", "partId", "nativeId", "child", "imported", "kind"} {
		delete(members, name)
	}
	head, err := json.Marshal(headWithKind{h, o.Type})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return join(head, body)
}

// MarshalJSON implements [json.Marshaler].
func (r Row) MarshalJSON() ([]byte, error) { return r.Encode() }

// UnmarshalJSON implements [json.Unmarshaler]. An unknown kind becomes an
// [Opaque]; a missing kind is an error.
func (r *Row) UnmarshalJSON(data []byte) error {
	var h headWithKind
	if err := json.Unmarshal(data, &h); err != nil {
		return fmt.Errorf("decode row: %w", err)
	}
	if h.Kind == "" {
		return fmt.Errorf("decode row: no kind")
	}
	r.Head = h.Head
	body := newBody(h.Kind)
	if body == nil {
		r.Body = &Opaque{Type: h.Kind, Members: bytes.Clone(data)}
		return nil
	}
	if err := json.Unmarshal(data, body); err != nil {
		return fmt.Errorf("decode %s row: %w", h.Kind, err)
	}
	r.Body = body
	return nil
}
