package claude

import (
	"slices"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// maxChildren bounds the subagents that are followed at once. The oldest is
// forgotten beyond it; its rows would then begin a new child.
const maxChildren = 1024

// kids follows subagents and background tasks. Their life is that of the
// process, not of a run.
type kids struct {
	byCall map[string]*child
	byTask map[string]*child
	order  []*child
	jobs   []exec.Job
	// whole says that the CLI sends the whole list of jobs itself.
	whole bool
}

// child is one subagent.
type child struct {
	row.Subagent
	// in is the transcript the child was started from.
	in string
	// report is the last text it said.
	report string
	ended  bool
}

func (c *child) background() bool { return c.Mode == modeBackground }

// The modes of a subagent.
const (
	modeForeground = "foreground"
	modeBackground = "background"
)

func (k *kids) init() { k.byCall, k.byTask = map[string]*child{}, map[string]*child{} }

func (k *kids) add(c *child) {
	if len(k.order) >= maxChildren {
		old := k.order[0]
		k.order = k.order[1:]
		delete(k.byCall, old.CallID)
		delete(k.byTask, old.ChildID)
	}
	k.order = append(k.order, c)
	k.byCall[c.CallID], k.byTask[c.ChildID] = c, c
}

// writeChild publishes a row about or of a child: with the run, unless the child
// outlives it.
func (s *scribe) writeChild(c *child, r row.Row) {
	if c.background() || s.out == nil {
		s.outside.Rows(r)
		return
	}
	s.out.Rows(r)
}

// announce publishes how a child stands.
func (s *scribe) announce(c *child) {
	state := c.Subagent
	if !c.background() && s.out != nil && c.in == "" {
		s.settle()
	}
	s.writeChild(c, row.Row{Head: row.Head{Child: c.in}, Body: &state})
}

func (s *scribe) taskStarted(e envelope, l *systemLine) {
	call := s.calls[l.ToolUseID]
	background := call.background
	if l.Backgrounded != nil {
		background = *l.Backgrounded
	}
	if l.TaskType != "local_agent" {
		if background && !s.kids.whole && !l.Ambient {
			s.addJob(l)
		}
		return
	}
	mode := modeForeground
	if background {
		mode = modeBackground
		if !s.kids.whole {
			s.addJob(l)
		}
	}
	if c := s.kids.byTask[l.TaskID]; c != nil {
		// A subagent that was asked again.
		c.Mode, c.Status, c.ended, c.report = mode, row.ToolRunning, false, ""
		if l.ToolUseID != "" {
			s.kids.byCall[l.ToolUseID] = c
		}
		s.announce(c)
		return
	}
	c := &child{Subagent: row.Subagent{
		ChildID: l.TaskID, CallID: l.ToolUseID, Mode: mode, Type: l.SubagentType,
		Title: oneLine(l.Description), Status: row.ToolRunning,
	}, in: call.child}
	s.kids.add(c)
	s.announce(c)
}

func (s *scribe) addJob(l *systemLine) {
	s.kids.jobs = append(s.kids.jobs, exec.Job{ID: l.TaskID, Kind: jobKind(l.TaskType), Title: oneLine(l.Description)})
	s.publishJobs()
}

func (s *scribe) hasJob(id string) bool {
	return slices.ContainsFunc(s.kids.jobs, func(j exec.Job) bool { return j.ID == id })
}

// jobKind names a kind of task for people.
func jobKind(native string) string {
	switch native {
	case "local_bash":
		return "command"
	case "local_agent":
		return "subagent"
	}
	return strings.TrimPrefix(native, "local_")
}

func (s *scribe) publishJobs() { s.outside.Jobs(slices.Clone(s.kids.jobs)) }

func (s *scribe) tasksChanged(l *systemLine) {
	s.kids.whole = true
	s.kids.jobs = s.kids.jobs[:0]
	for _, t := range l.Tasks {
		if !t.Ambient {
			s.kids.jobs = append(s.kids.jobs, exec.Job{ID: t.TaskID, Kind: jobKind(t.TaskType), Title: oneLine(t.Description)})
		}
	}
	s.publishJobs()
}

func (s *scribe) taskUpdated(l *systemLine) {
	c := s.kids.byTask[l.TaskID]
	if c != nil && l.Patch.Backgrounded != nil {
		mode := modeForeground
		if *l.Patch.Backgrounded {
			mode = modeBackground
		}
		if mode != c.Mode {
			c.Mode = mode
			s.announce(c)
		}
	}
	if l.Patch.Status == "failed" || l.Patch.Status == "killed" {
		s.taskEnded(l, l.Patch.Status, l.Patch.Error)
	}
}

// taskEnded notes the end of a task. The report of a child in the foreground
// comes with the result of its call, right after.
func (s *scribe) taskEnded(l *systemLine, status, summary string) {
	if !s.kids.whole {
		before := len(s.kids.jobs)
		s.kids.jobs = slices.DeleteFunc(s.kids.jobs, func(j exec.Job) bool { return j.ID == l.TaskID })
		if len(s.kids.jobs) != before {
			s.publishJobs()
		}
	}
	c := s.kids.byTask[l.TaskID]
	if c == nil || c.ended {
		return
	}
	switch status {
	case "completed":
		c.Status = row.ToolCompleted
	case "failed":
		c.Status = row.ToolFailed
	default:
		c.Status = row.ToolCancelled
	}
	if _, waiting := s.calls[c.CallID]; waiting && !c.background() {
		return
	}
	c.ended, c.Summary = true, first(c.report, summary)
	s.announce(c)
}

// childReported takes the result of the call that started a child.
func (s *scribe) childReported(callID string, res *row.ToolResult) {
	c := s.kids.byCall[callID]
	if c == nil || c.ended || c.background() {
		return
	}
	if c.Status == row.ToolRunning {
		c.Status = res.Status
	}
	c.ended, c.Summary = true, first(c.report, res.Output)
	s.announce(c)
}

// childMessage writes a message of a subagent into its own transcript.
func (s *scribe) childMessage(e envelope, l *messageLine) {
	c := s.kids.byCall[e.Parent]
	if c == nil {
		// Its start was not seen; a newer CLI names the child all the same.
		mode := modeForeground
		if s.out == nil {
			mode = modeBackground
		}
		call := s.calls[e.Parent]
		c = &child{Subagent: row.Subagent{
			ChildID: first(l.AgentID, e.Parent), CallID: e.Parent, Mode: mode, Status: row.ToolRunning,
		}, in: call.child}
		s.kids.add(c)
		s.announce(c)
	}
	for i, b := range l.Message.Content {
		body := s.childBlock(c, l, b)
		if body == nil {
			continue
		}
		s.writeChild(c, row.Row{
			Head: row.Head{NativeID: nativeID(e.UUID, i), Time: unixMilli(l.Timestamp), Child: c.ChildID}, Body: body,
		})
		if res, ok := body.(*row.ToolResult); ok {
			s.childReported(b.ToolUseID, res)
		}
	}
}

func (s *scribe) childBlock(c *child, l *messageLine, b block) row.Body {
	switch {
	case b.Type == "tool_result":
		return s.result(b, l.structured(), s.denial(l, b.ToolUseID))
	case blockKind(b.Type) == row.KindTool:
		return s.call(b, c.ChildID)
	case b.Type == "thinking" && b.Thinking != "":
		return &row.Reasoning{Text: b.Thinking}
	case b.Type == "text" && b.Text != "" && !l.IsSynthetic:
		if l.Message.Role == "user" {
			return &row.User{Text: b.Text, Origin: row.OriginAgent}
		}
		c.report = b.Text
		return &row.Assistant{Text: b.Text}
	}
	return nil
}

// endForegroundChildren ends children that cannot outlive the run.
func (s *scribe) endForegroundChildren() {
	for _, c := range s.kids.order {
		if !c.ended && !c.background() {
			s.cancelChild(c)
		}
	}
}

// endProcess ends everything that lived in the process.
func (s *scribe) endProcess() {
	for _, c := range s.kids.order {
		if !c.ended {
			s.cancelChild(c)
		}
	}
	if len(s.kids.jobs) > 0 {
		s.kids.jobs = nil
		s.publishJobs()
	}
}

func (s *scribe) cancelChild(c *child) {
	c.ended, c.Status, c.Summary = true, row.ToolCancelled, c.report
	s.announce(c)
}
