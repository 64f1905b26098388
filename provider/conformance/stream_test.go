package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// verdict collects what a check says.
type verdict struct {
	testing.TB
	errors []string
}

func (v *verdict) Helper()             {}
func (v *verdict) Logf(string, ...any) {}
func (v *verdict) Failed() bool        { return len(v.errors) > 0 }
func (v *verdict) Errorf(format string, args ...any) {
	v.errors = append(v.errors, fmt.Sprintf(format, args...))
}

func rowOf(part string, body row.Body) row.Row {
	return row.Row{Head: row.Head{TurnID: "t", RunID: "r", PartID: part}, Body: body}
}

func permissionOf(occurrence string) row.Row {
	return rowOf("", &row.Permission{Occurrence: occurrence, Options: []row.PermissionOption{
		{ID: "a", Decision: row.AllowOnce, Label: "Allow"}, {ID: "d", Decision: row.Deny, Label: "Deny"},
	}})
}

func askOf(id, occurrence string) *exec.Ask {
	return &exec.Ask{Request: exec.Ref{Kind: exec.RefPermission, ID: id}, Row: permissionOf(occurrence)}
}

// goodStream is a binding that keeps every rule. Numbers are filled in later.
func goodStream() []exec.Event {
	live := func(part string, kind row.Kind, offset int, text string) exec.Event {
		return exec.Event{RunID: "r", Live: &row.Live{RunID: "r", PartID: part, Kind: kind, Offset: offset, Text: text}}
	}
	rows := func(list ...row.Row) exec.Event { return exec.Event{RunID: "r", Rows: list} }
	return []exec.Event{
		{Session: &exec.Session{ID: "s"}},
		{RunID: "r", Launched: &exec.Launched{Run: exec.Ref{Kind: exec.RefRun, ID: "r"}, TurnID: "t"}},
		live("p1", row.KindReasoning, 0, "hm"),
		rows(rowOf("p1", &row.Reasoning{Text: "hm"})),
		rows(rowOf("", &row.Tool{CallID: "c", Tool: row.ToolBash})),
		{RunID: "r", Ask: askOf("q1", "o1")},
		{RunID: "r", Withdrawn: "o1"},
		{RunID: "r", Ask: askOf("q2", "o2")},
		rows(rowOf("", &row.ToolResult{CallID: "c"})),
		live("p2", row.KindAssistant, 0, "he"),
		live("p2", row.KindAssistant, 2, "llo"),
		rows(rowOf("p2", &row.Assistant{Text: "hello", Final: true})),
		{RunID: "r", Terminal: &exec.Terminal{Phase: row.RunCompleted}},
		{Jobs: &exec.Jobs{}},
		{Rows: []row.Row{{Head: row.Head{Child: "c1"}, Body: &row.Assistant{Text: "child"}}}},
	}
}

func number(events []exec.Event) []exec.Event {
	var seq uint64
	for i := range events {
		if events[i].Live == nil {
			seq++
		}
		events[i].Seq = seq
	}
	return events
}

func TestGoodStreamPasses(t *testing.T) {
	v := &verdict{}
	checkStream(v, number(goodStream()))
	if v.Failed() {
		t.Error(v.errors)
	}
}

// TestBadStreamsFail breaks one rule after the other.
func TestBadStreamsFail(t *testing.T) {
	at := func(events []exec.Event, fits func(exec.Event) bool) int { return slices.IndexFunc(events, fits) }
	terminal := func(e exec.Event) bool { return e.Terminal != nil }
	launched := func(e exec.Event) bool { return e.Launched != nil }
	answer := func(e exec.Event) bool { return e.Rows != nil && e.Rows[0].PartID == "p2" }
	insert := func(where func(exec.Event) bool, after int, e exec.Event) func([]exec.Event) []exec.Event {
		return func(events []exec.Event) []exec.Event { return slices.Insert(events, at(events, where)+after, e) }
	}
	remove := func(where func(exec.Event) bool) func([]exec.Event) []exec.Event {
		return func(events []exec.Event) []exec.Event { i := at(events, where); return slices.Delete(events, i, i+1) }
	}
	change := func(where func(exec.Event) bool, f func(*exec.Event)) func([]exec.Event) []exec.Event {
		return func(events []exec.Event) []exec.Event { f(&events[at(events, where)]); return events }
	}
	extra := func(body row.Body) exec.Event { return exec.Event{RunID: "r", Rows: []row.Row{rowOf("", body)}} }
	for name, c := range map[string]struct {
		spoil func([]exec.Event) []exec.Event
		says  string
	}{
		"no launch":        {remove(launched), "begins with"},
		"second launch":    {insert(launched, 1, exec.Event{RunID: "r", Launched: &exec.Launched{TurnID: "t"}}), "launched twice"},
		"second terminal":  {insert(terminal, 1, exec.Event{RunID: "r", Terminal: &exec.Terminal{Phase: row.RunInterrupted}}), "after its terminal"},
		"late row":         {insert(terminal, 1, extra(&row.Assistant{Text: "late"})), "after its terminal"},
		"empty event":      {insert(terminal, 0, exec.Event{RunID: "r"}), "0 contents"},
		"two contents":     {change(terminal, func(e *exec.Event) { e.Jobs = &exec.Jobs{} }), "2 contents"},
		"no run":           {change(terminal, func(e *exec.Event) { e.RunID = "" }), "carries no run"},
		"row of other run": {change(answer, func(e *exec.Event) { e.Rows[0].RunID = "x" }), "carries run"},
		"row of no turn":   {change(answer, func(e *exec.Event) { e.Rows[0].TurnID = "" }), "carries run"},
		"row of the user":  {insert(terminal, 0, extra(&row.User{Text: "x"})), "user row"},
		"controller's row": {insert(terminal, 0, extra(&row.Run{Phase: row.RunStarted})), "controller's"},
		"imported row":     {change(answer, func(e *exec.Event) { e.Rows[0].Imported = true }), "imported"},
		"row with ordinal": {change(answer, func(e *exec.Event) { e.Rows[0].Ordinal = 7 }), "ordinal"},
		"unknown tool":     {insert(terminal, 0, extra(&row.Tool{CallID: "d", Tool: "juggle"})), "juggle"},
		"result of no call": {
			insert(terminal, 0, extra(&row.ToolResult{CallID: "d"})), "was not called",
		},
		"other text than streamed": {change(answer, func(e *exec.Event) { e.Rows[0].Body = &row.Assistant{Text: "hallo"} }), "not what was streamed"},
		"other kind than streamed": {change(answer, func(e *exec.Event) { e.Rows[0].Body = &row.Reasoning{Text: "hello"} }), "ends with a reasoning row"},
		"part without row":         {remove(answer), "became no row"},
		"gap in a part": {
			change(func(e exec.Event) bool { return e.Live != nil && e.Live.Offset > 0 }, func(e *exec.Event) { e.Live.Offset++ }), "goes on at 3",
		},
		"part that begins late": {
			change(func(e exec.Event) bool { return e.Live != nil }, func(e *exec.Event) { e.Live.Offset = 5 }), "goes on at 5",
		},
		"live part of a user": {insert(terminal, 0, exec.Event{RunID: "r", Live: &row.Live{RunID: "r", PartID: "p", Kind: row.KindUser}}), "kind user"},
		"live part of other run": {
			change(func(e exec.Event) bool { return e.Live != nil }, func(e *exec.Event) { e.Live.RunID = "x" }), "on an event of run",
		},
		"two final answers": {insert(terminal, 0, extra(&row.Assistant{Text: "no, this", Final: true})), "2 final answers"},
		"completed with error": {
			change(terminal, func(e *exec.Event) { e.Terminal.Error = exec.Errorf(exec.CodeInternal, "x") }), "completed run has the error",
		},
		"failed without error": {change(terminal, func(e *exec.Event) { e.Terminal.Phase = row.RunFailed }), "does not say why"},
		"strange phase":        {change(terminal, func(e *exec.Event) { e.Terminal.Phase = row.RunStarted }), "phase"},
		"same occurrence":      {insert(terminal, 0, exec.Event{RunID: "r", Ask: askOf("q3", "o1")}), "used before"},
		"no way to refuse": {
			change(func(e exec.Event) bool { return e.Ask != nil }, func(e *exec.Event) {
				p := e.Ask.Row.Body.(*row.Permission)
				p.Options = p.Options[:1]
			}), "allow and refuse",
		},
		"withdrawn unknown": {insert(terminal, 0, exec.Event{RunID: "r", Withdrawn: "o9"}), "is not open"},
	} {
		v := &verdict{}
		checkStream(v, number(c.spoil(goodStream())))
		if !strings.Contains(strings.Join(v.errors, "\n"), c.says) {
			t.Errorf("%s: the check says %q, want %q", name, v.errors, c.says)
		}
	}
	for name, spoil := range map[string]func([]exec.Event){
		"a number is missing":    func(e []exec.Event) { e[len(e)-1].Seq++ },
		"a number comes twice":   func(e []exec.Event) { e[4].Seq-- },
		"a live part is counted": func(e []exec.Event) { e[2].Seq++ },
	} {
		events := number(goodStream())
		spoil(events)
		v := &verdict{}
		checkStream(v, events)
		if !strings.Contains(strings.Join(v.errors, "\n"), "has number") {
			t.Errorf("%s: the check says %q", name, v.errors)
		}
	}
}
