package claude

import (
	"fmt"
	"strconv"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// publisher is where the scribe writes what belongs to a run; provider.Run is
// one.
type publisher interface {
	Rows(...row.Row)
	Live(row.Live)
}

// outside is where the scribe writes what belongs to no run; provider.Binding
// is one.
type outside interface {
	Rows(...row.Row)
	Jobs([]exec.Job)
}

// scribe writes down what one process says: lines go in, rows, live parts and
// jobs come out. It knows nothing of submissions and of when a run ends. It
// belongs to the goroutine that reads the process.
type scribe struct {
	mapper
	outside outside
	// out is the run that rows go to, nil between runs.
	out   publisher
	turn  turn
	parts partState
	kids  kids

	// costBefore is the total cost at the last result of the process.
	costBefore float64
	// resetsAt is when a rate limit that refused us ends, Unix seconds.
	resetsAt int64
	warned   map[string]bool
	// planFile is the file in which the agent last wrote a plan.
	planFile string
	// entry is the last line seen that is an entry of the session file.
	entry string
	// saidPlan is the plan that the agent passed with its newest call for
	// approval, which newer CLIs leave out of the request.
	saidPlan string
	noise    bool
	// refused reports whether the user refused a call; it may be nil.
	refused func(callID string) bool
}

// turn is what the scribe knows of the run it writes.
type turn struct {
	// held is the newest assistant text. It waits for what comes next, because
	// only the end of the run tells whether it is the answer.
	held *heldText
	// compaction waits for its summary, which is the next line.
	compaction *row.Row
	// compacting says that the user asked for a compaction, which has not
	// happened yet.
	compacting bool
	// open are the calls of the main conversation without a result.
	open []string
	// failure is an API error that was reported and not yet followed by the
	// result that ends the turn with it.
	failure *apiFailure
	// retry is the last wait that the API asked for.
	retry apiRetry
	// answered says that an assistant text was written since the last result.
	answered bool
	usage    row.Usage
	used     bool
}

type heldText struct {
	row  row.Row
	part *part
}

type apiRetry struct {
	status int
	kind   string
	delay  float64 // milliseconds
}

func newScribe(dir string, out outside) *scribe {
	s := &scribe{mapper: newMapper(dir), outside: out, warned: map[string]bool{}}
	s.kids.init()
	return s
}

// begin directs what follows to a new run.
func (s *scribe) begin(out publisher) {
	s.out, s.turn = out, turn{}
	s.parts.reset()
}

// line writes down one line. The caller has seen to it that a line of the main
// conversation has a run to go to.
func (s *scribe) line(e envelope) {
	switch e.Type {
	case "assistant":
		s.assistant(e)
	case "user":
		s.user(e)
	case "stream_event":
		s.stream(e)
	case "system":
		s.system(e)
	case "rate_limit_event":
		s.rateLimit(e)
	case "conversation_reset":
		s.emit(head(e.UUID, 0), &row.Notice{
			Code: "CONTEXT_CLEARED", Title: "Context cleared",
			Text: "Claude Code started a new session: it no longer knows what was said above.",
		})
	}
}

func head(nativeID string, time int64) row.Head { return row.Head{NativeID: nativeID, Time: time} }

// nativeID names one block of an entry: the entry's own id for the first.
func nativeID(uuid string, index int) string {
	if uuid == "" || index == 0 {
		return uuid
	}
	return uuid + "#" + strconv.Itoa(index)
}

// entryID returns the entry of a native id.
func entryID(native string) string {
	uuid, _, _ := strings.Cut(native, "#")
	return uuid
}

// emit writes a row of the main conversation after what was held back.
func (s *scribe) emit(h row.Head, b row.Body) {
	s.settle()
	s.write(row.Row{Head: h, Body: b})
}

// write publishes a row as it is. Without a run there is nobody to tell whose
// it would be, so it goes to the conversation.
func (s *scribe) write(r row.Row) {
	if s.out == nil {
		s.outside.Rows(r)
		return
	}
	s.out.Rows(r)
}

// settle writes what was held back, now that something follows it.
func (s *scribe) settle() {
	if c := s.turn.compaction; c != nil {
		s.turn.compaction = nil
		s.write(*c)
	}
	if h := s.turn.held; h != nil {
		s.turn.held = nil
		s.write(h.row)
	}
}

// assistant writes the blocks of an assistant line.
func (s *scribe) assistant(e envelope) {
	var l messageLine
	if decode(e.data, &l) != nil {
		return
	}
	if e.Parent != "" {
		s.childMessage(e, &l)
		return
	}
	if l.Error != "" {
		s.apiError(&l)
		return
	}
	if l.Message.Model == syntheticModel {
		s.localOutput(e, &l)
		return
	}
	s.entry = e.UUID
	// What the model answers is no compaction.
	s.turn.compacting = false
	s.recovered()
	if s.parts.message != l.Message.ID {
		// The answer came another way, after its stream had broken.
		s.dropParts()
	}
	if u := l.Message.Usage; u != nil {
		s.turn.usage.ContextTokens = u.context()
	}
	for i, b := range l.Message.Content {
		s.block(row.Head{NativeID: nativeID(e.UUID, i), Time: unixMilli(l.Timestamp)}, &l, b)
	}
}

func (s *scribe) block(h row.Head, l *messageLine, b block) {
	p := s.parts.take(l.Message.ID, b)
	if p != nil {
		h.PartID = p.id
	}
	switch b.Type {
	case "text":
		if b.Text == "" {
			s.blank(p)
			return
		}
		s.settle()
		s.turn.answered = true
		s.turn.held = &heldText{row: row.Row{Head: h, Body: &row.Assistant{Text: b.Text, Partial: l.Aborted}}, part: p}
	case "thinking":
		if b.Thinking == "" {
			s.blank(p)
			return
		}
		s.emit(h, &row.Reasoning{Text: b.Thinking, Partial: l.Aborted})
	case "redacted_thinking":
		s.blank(p)
	case "tool_use", "server_tool_use", "mcp_tool_use":
		tool := s.call(b, "")
		s.notePlan(tool)
		s.turn.open = append(s.turn.open, b.ID)
		s.emit(h, tool)
	default:
		if b.ToolUseID != "" {
			// The result of a tool that the API ran itself.
			s.toolResult(h, b, nil, "")
			return
		}
		s.emit(h, &row.Notice{
			Code: "UNKNOWN_BLOCK", Title: "Not understood",
			Text: fmt.Sprintf("Claude Code sent a block of type %q, which this version does not understand.", b.Type),
		})
	}
}

// notePlan remembers the plan and where the agent writes it: newer CLIs keep it
// in a file and ask for approval without saying it.
func (s *scribe) notePlan(t *row.Tool) {
	if (t.Tool == row.ToolWrite || t.Tool == row.ToolEdit) && strings.Contains(t.Input.Path, "/plans/") &&
		strings.HasSuffix(t.Input.Path, ".md") {
		s.planFile = t.Input.Path
	}
	if t.Tool == row.ToolPlan {
		s.saidPlan = t.Input.Plan
	}
}

func (s *scribe) toolResult(h row.Head, b block, raw []byte, denial string) {
	for i, id := range s.turn.open {
		if id == b.ToolUseID {
			s.turn.open = append(s.turn.open[:i:i], s.turn.open[i+1:]...)
			break
		}
	}
	res := s.result(b, raw, denial)
	s.emit(h, res)
	s.childReported(b.ToolUseID, res)
}

// user writes what a user line says that nobody typed: tool results and the
// summary after a compaction.
func (s *scribe) user(e envelope) {
	var l messageLine
	if decode(e.data, &l) != nil {
		return
	}
	if e.Parent != "" {
		s.childMessage(e, &l)
		return
	}
	if l.IsReplay {
		return
	}
	s.entry = e.UUID
	for i, b := range l.Message.Content {
		switch b.Type {
		case "tool_result":
			s.toolResult(head(nativeID(e.UUID, i), unixMilli(l.Timestamp)), b, l.structured(), s.denial(&l, b.ToolUseID))
		case "text":
			if summary, ok := compactSummary(b.Text); ok && s.turn.compaction != nil {
				s.turn.compaction.Body.(*row.Compaction).Summary = summary
				s.settle()
			}
		}
	}
}

// structured returns the structured form of the result in l. A line has one for
// all its blocks, so with several nobody can tell whose it is.
func (l *messageLine) structured() []byte {
	if len(l.Message.Content) != 1 {
		return nil
	}
	return l.ToolUseResult
}

// denial returns why a call was not run. Older CLIs say it only in words, or
// not at all when it was us who refused.
func (s *scribe) denial(l *messageLine, callID string) string {
	for _, m := range l.ToolResultMeta {
		if m.ID == callID && m.NonExecutionKind != "" {
			return m.NonExecutionKind
		}
	}
	if string(l.ToolUseResult) == `"User rejected tool use"` {
		return denialByUser
	}
	if s.refused != nil && s.refused(callID) {
		return denialByRule
	}
	return ""
}

// summaryStart and summaryEnd enclose the summary in the text for the model.
const (
	summaryIntro = "This session is being continued from a previous conversation"
	summaryStart = "Summary:\n"
	summaryEnd   = "\n\nIf you need specific details from before compaction"
)

// compactSummary returns the summary in the message that replaces a compacted
// conversation.
func compactSummary(text string) (string, bool) {
	if !strings.HasPrefix(text, summaryIntro) {
		return "", false
	}
	_, rest, ok := strings.Cut(text, summaryStart)
	if !ok {
		return strings.TrimSpace(text), true
	}
	if i := strings.LastIndex(rest, summaryEnd); i >= 0 {
		rest = rest[:i]
	}
	return strings.TrimSpace(rest), true
}

// localOutput writes what a slash command that needed no model printed.
func (s *scribe) localOutput(e envelope, l *messageLine) {
	text := strings.TrimSpace(l.Message.Content.text())
	if text == "" || text == noContent || text == noResponse {
		return
	}
	s.turn.answered = true
	if s.turn.compacting {
		s.turn.failure = compactionFailure(text)
		return
	}
	h := head(e.UUID, unixMilli(l.Timestamp))
	if l.LocalOutcome.Kind == "failed" {
		s.emit(h, &row.Notice{Code: "COMMAND_FAILED", Title: "/" + l.LocalCommand.Command, Text: text})
		return
	}
	s.settle()
	s.turn.held = &heldText{row: row.Row{Head: h, Body: &row.Assistant{Text: text}}}
}

// Texts that stand for nothing.
const (
	noContent  = "(no content)"
	noResponse = "No response requested."
)

// endRun writes what is left when the run ends: the answer, parts that will not
// be completed, and calls that will have no result.
func (s *scribe) endRun(phase row.Phase) {
	if h := s.turn.held; h != nil {
		a := h.row.Body.(*row.Assistant)
		a.Final = phase == row.RunCompleted
		// An older CLI does not say that it cut a block off; one that is
		// complete has been stopped.
		a.Partial = a.Partial || phase != row.RunCompleted && h.part != nil && !h.part.stopped
	}
	s.settle()
	for _, p := range s.parts.unfinished() {
		if b := s.partial(p); b != nil {
			s.write(row.Row{Head: row.Head{PartID: p.id}, Body: b})
		}
	}
	for _, id := range s.turn.open {
		delete(s.calls, id)
		s.write(row.Row{Body: &row.ToolResult{
			CallID: id, Output: "The run ended before this call did.", IsError: true, Status: row.ToolCancelled,
		}})
	}
	s.endForegroundChildren()
	s.out, s.turn = nil, turn{}
	s.parts.reset()
}
