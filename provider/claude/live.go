package claude

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"garcon/proto/row"
)

// partState follows the blocks of the message that is being streamed.
type partState struct {
	// count makes part ids; it goes on over runs, so that no id comes twice.
	count   int
	message string
	open    []*part
}

// part is one block that streams.
type part struct {
	id     string
	index  int
	kind   row.Kind
	callID string
	name   string
	text   strings.Builder
	// sent is how many bytes were published, which is more than text holds
	// when the part is over the limit of a row.
	sent int
	// stopped says that the block is complete, taken that its row was made.
	stopped bool
	taken   bool
}

func (ps *partState) reset() { ps.message, ps.open = "", nil }

// take finds the part that an assistant block completes: blocks complete in
// order, so it is the first of its kind.
func (ps *partState) take(message string, b block) *part {
	if message != ps.message {
		return nil
	}
	kind := blockKind(b.Type)
	for _, p := range ps.open {
		if !p.taken && p.kind == kind && (kind != row.KindTool || p.callID == b.ID) {
			// The row has the text now.
			p.taken, p.text = true, strings.Builder{}
			return p
		}
	}
	return nil
}

// unfinished returns the parts without a row.
func (ps *partState) unfinished() []*part {
	return slices.DeleteFunc(slices.Clone(ps.open), func(p *part) bool { return p.taken })
}

// blockKind is the kind of row that a block becomes, "" for none.
func blockKind(blockType string) row.Kind {
	switch blockType {
	case "text":
		return row.KindAssistant
	case "thinking", "redacted_thinking":
		return row.KindReasoning
	case "tool_use", "server_tool_use", "mcp_tool_use":
		return row.KindTool
	}
	return ""
}

// partial is the row of a part that ended early, nil when nothing had arrived.
func (s *scribe) partial(p *part) row.Body {
	text := p.text.String()
	if strings.TrimSpace(text) == "" && p.kind != row.KindTool {
		return nil
	}
	switch p.kind {
	case row.KindAssistant:
		return &row.Assistant{Text: text, Partial: true}
	case row.KindReasoning:
		return &row.Reasoning{Text: text, Partial: true}
	}
	tool, _, _ := s.known(p.name, toolArgs{})
	return &row.Tool{
		CallID: p.callID, Tool: tool, Name: p.name, Title: p.name, Status: row.ToolCancelled,
		Input: row.ToolInput{Arguments: arguments(json.RawMessage(text))},
	}
}

// stream publishes what a stream event adds to the parts.
func (s *scribe) stream(e envelope) {
	if e.Parent != "" || s.out == nil {
		// Children come in whole messages.
		return
	}
	var l streamLine
	if decode(e.data, &l) != nil {
		return
	}
	ev := &l.Event
	switch ev.Type {
	case "message_start":
		s.recovered()
		s.dropParts()
		s.parts.message = ev.Message.ID
	case "content_block_start":
		s.startPart(ev.Index, ev.ContentBlock)
	case "content_block_delta":
		if p := s.parts.at(ev.Index); p != nil {
			s.grow(p, ev.Delta.Text+ev.Delta.Thinking+ev.Delta.PartialJSON)
		}
	case "content_block_stop":
		if p := s.parts.at(ev.Index); p != nil {
			p.stopped = true
		}
	}
}

func (ps *partState) at(index int) *part {
	for _, p := range ps.open {
		if p.index == index {
			return p
		}
	}
	return nil
}

func (s *scribe) startPart(index int, b block) {
	kind := blockKind(b.Type)
	if kind == "" {
		return
	}
	s.settle()
	s.parts.count++
	p := &part{id: "part-" + strconv.Itoa(s.parts.count), index: index, kind: kind, callID: b.ID, name: b.Name}
	s.parts.open = append(s.parts.open, p)
	if kind == row.KindTool {
		s.out.Live(row.Live{PartID: p.id, Kind: kind, Title: p.name})
	}
	s.grow(p, b.Text+b.Thinking)
}

func (s *scribe) grow(p *part, text string) {
	if text == "" {
		return
	}
	s.out.Live(row.Live{PartID: p.id, Kind: p.kind, Title: p.name, Offset: p.sent, Text: text})
	p.sent += len(text)
	if p.text.Len()+len(text) <= row.MaxBytes {
		p.text.WriteString(text)
	}
}

// dropParts takes back what is open: it belongs to a request that was made again.
func (s *scribe) dropParts() {
	for _, p := range s.parts.unfinished() {
		s.blank(p)
	}
	s.parts.reset()
}

// blank takes back what a part showed: it becomes no row.
func (s *scribe) blank(p *part) {
	if p == nil {
		return
	}
	p.taken = true
	if p.sent > 0 && s.out != nil {
		s.out.Live(row.Live{PartID: p.id, Kind: p.kind})
	}
}
