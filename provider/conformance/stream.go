package conformance

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// checkStream checks what holds for the events of any binding, whatever
// happened on it.
func checkStream(t testing.TB, events []exec.Event) {
	t.Helper()
	c := streamCheck{t: t, runs: map[string]*runCheck{}, occurrences: map[string]bool{}}
	for i, e := range events {
		c.event(e)
		if t.Failed() {
			t.Logf("the stream up to there:\n%s", outline(events[:i+1]))
			return
		}
	}
}

type streamCheck struct {
	t           testing.TB
	seq         uint64
	runs        map[string]*runCheck
	occurrences map[string]bool
}

type runCheck struct {
	launched, ended bool
	turn            string
	// parts holds the text of the live parts that no row has ended.
	parts map[string]*part
	calls map[string]bool
	open  map[string]bool
	final int
}

type part struct {
	kind row.Kind
	text []byte
}

// event checks one event.
func (c *streamCheck) event(e exec.Event) {
	c.t.Helper()
	if n := members(e); n != 1 {
		c.t.Errorf("event %d has %d contents", e.Seq, n)
	}
	if e.Live == nil {
		c.seq++
	}
	if e.Seq != c.seq {
		c.t.Errorf("event has number %d, want %d", e.Seq, c.seq)
	}
	if e.RunID == "" {
		c.ofNoRun(e)
		return
	}
	r := c.runs[e.RunID]
	if r == nil {
		r = &runCheck{parts: map[string]*part{}, calls: map[string]bool{}, open: map[string]bool{}}
		c.runs[e.RunID] = r
		if e.Launched == nil && (e.Terminal == nil || e.Terminal.Phase == row.RunCompleted) {
			c.t.Errorf("run %s begins with %s", e.RunID, describe(e))
		}
	}
	if r.ended {
		c.t.Errorf("run %s goes on after its terminal: %s", e.RunID, describe(e))
	}
	switch {
	case e.Launched != nil:
		if r.launched {
			c.t.Errorf("run %s was launched twice", e.RunID)
		}
		r.launched, r.turn = true, e.Launched.TurnID
	case e.Live != nil:
		r.live(c.t, e)
	case e.Rows != nil:
		for _, one := range e.Rows {
			r.row(c.t, one, e.RunID)
		}
	case e.Ask != nil:
		c.ask(r, e)
	case e.Withdrawn != "":
		if !r.open[e.Withdrawn] {
			c.t.Errorf("%s was withdrawn but is not open", e.Withdrawn)
		}
		delete(r.open, e.Withdrawn)
	case e.Terminal != nil:
		r.ended = true
		r.terminal(c.t, e)
	}
}

// ofNoRun checks events that belong to the binding.
func (c *streamCheck) ofNoRun(e exec.Event) {
	if e.Rows == nil && e.Jobs == nil && e.Session == nil {
		c.t.Errorf("%s carries no run", describe(e))
	}
	for _, one := range e.Rows {
		if one.RunID != "" {
			c.t.Errorf("a %s row of run %s was published outside of it", one.Kind(), one.RunID)
		}
	}
}

func members(e exec.Event) int {
	n := 0
	for _, there := range []bool{
		e.Rows != nil, e.Live != nil, e.Launched != nil, e.Session != nil, e.Ask != nil,
		e.Withdrawn != "", e.Jobs != nil, e.Terminal != nil,
	} {
		if there {
			n++
		}
	}
	return n
}

func (r *runCheck) live(t testing.TB, e exec.Event) {
	l := e.Live
	if l.RunID != e.RunID || l.PartID == "" {
		t.Errorf("live part %q of run %s on an event of run %s", l.PartID, l.RunID, e.RunID)
	}
	if !slices.Contains([]row.Kind{row.KindAssistant, row.KindReasoning, row.KindTool, row.KindToolResult}, l.Kind) {
		t.Errorf("a live part of kind %s", l.Kind)
	}
	p := r.parts[l.PartID]
	if p == nil {
		p = &part{kind: l.Kind}
		r.parts[l.PartID] = p
	}
	if l.Kind != p.kind {
		t.Errorf("live part %s is %s and then %s", l.PartID, p.kind, l.Kind)
	}
	if l.Offset == 0 {
		p.text = p.text[:0]
	}
	if l.Offset != len(p.text) {
		t.Errorf("live part %s goes on at %d, but %d bytes came before", l.PartID, l.Offset, len(p.text))
	}
	p.text = append(p.text, l.Text...)
}

// canonical are the tools rows may name.
var canonical = []row.ToolName{
	row.ToolBash, row.ToolRead, row.ToolWrite, row.ToolEdit, row.ToolPatch, row.ToolGlob, row.ToolGrep, row.ToolList,
	row.ToolWebSearch, row.ToolWebFetch, row.ToolTodo, row.ToolTask, row.ToolQuestion, row.ToolPlan, row.ToolMCP, row.ToolOther,
}

func (r *runCheck) row(t testing.TB, one row.Row, runID string) {
	if one.RunID != runID || one.TurnID != r.turn {
		t.Errorf("a %s row carries run %q and turn %q", one.Kind(), one.RunID, one.TurnID)
	}
	if one.Imported || one.Ordinal != 0 {
		t.Errorf("a live %s row is imported or has an ordinal: %+v", one.Kind(), one.Head)
	}
	if _, err := one.Encode(); err != nil {
		t.Errorf("a %s row cannot be stored: %v", one.Kind(), err)
	}
	p := r.parts[one.PartID]
	delete(r.parts, one.PartID)
	if p != nil && p.kind != one.Kind() {
		t.Errorf("live part %s of kind %s ends with a %s row", one.PartID, p.kind, one.Kind())
	}
	switch b := one.Body.(type) {
	case *row.User:
		if one.Child == "" {
			t.Errorf("the agent published a user row: %.40q", b.Text)
		}
	case *row.Assistant:
		if p != nil && string(p.text) != b.Text {
			t.Errorf("the row of part %s is not what was streamed: %.80q, streamed %.80q", one.PartID, b.Text, p.text)
		}
		if b.Final && one.Child == "" {
			r.final++
		}
	case *row.Reasoning:
		if p != nil && string(p.text) != b.Text {
			t.Errorf("the row of part %s is not what was streamed: %.80q, streamed %.80q", one.PartID, b.Text, p.text)
		}
	case *row.Tool:
		if b.CallID == "" || !slices.Contains(canonical, b.Tool) {
			t.Errorf("tool row %q of tool %q", b.CallID, b.Tool)
		}
		r.calls[b.CallID] = true
	case *row.ToolResult:
		if !r.calls[b.CallID] && one.Child == "" {
			t.Errorf("a result for %q, which was not called", b.CallID)
		}
	case *row.Permission, *row.Question, *row.PermissionResolved, *row.QuestionResolved, *row.Run, *row.Handoff:
		t.Errorf("the agent published a %s row, which is the controller's", one.Kind())
	}
}

func (c *streamCheck) ask(r *runCheck, e exec.Event) {
	occurrence := e.Ask.Occurrence()
	if occurrence == "" || c.occurrences[occurrence] {
		c.t.Errorf("occurrence %q is empty or was used before", occurrence)
	}
	c.occurrences[occurrence] = true
	r.open[occurrence] = true
	if e.Ask.Row.RunID != e.RunID || e.Ask.Request.Kind != exec.RefPermission || e.Ask.Request.ID == "" {
		c.t.Errorf("request %+v of run %q", e.Ask.Request, e.Ask.Row.RunID)
	}
	p, ok := e.Ask.Row.Body.(*row.Permission)
	if !ok {
		return
	}
	var allows, denies bool
	for _, o := range p.Options {
		if o.ID == "" || strings.TrimSpace(o.Label) == "" {
			c.t.Errorf("option %+v has no id or label", o)
		}
		allows = allows || o.Decision == row.AllowOnce || o.Decision == row.AllowSession
		denies = denies || o.Decision == row.Deny || o.Decision == row.DenyStop
	}
	if !allows || !denies {
		c.t.Errorf("the options do not let the user allow and refuse: %+v", p.Options)
	}
}

func (r *runCheck) terminal(t testing.TB, e exec.Event) {
	end := e.Terminal
	switch end.Phase {
	case row.RunCompleted:
		if end.Error != nil {
			t.Errorf("a completed run has the error %v", end.Error)
		}
		if r.final > 1 {
			t.Errorf("run %s has %d final answers", e.RunID, r.final)
		}
	case row.RunFailed:
		if end.Error == nil || end.Error.Code == "" || strings.TrimSpace(end.Error.Message) == "" {
			t.Errorf("a failed run does not say why: %+v", end.Error)
		}
	case row.RunInterrupted:
	default:
		t.Errorf("a terminal of phase %q", end.Phase)
	}
	for id, p := range r.parts {
		if len(bytes.TrimSpace(p.text)) > 0 {
			t.Errorf("live part %s of run %s became no row: %.80q", id, e.RunID, p.text)
		}
	}
}
