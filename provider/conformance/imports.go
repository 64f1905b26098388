package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// testSameHistory compares what was seen live with what is read back.
func testSameHistory(t *testing.T, s Subject) {
	c := openChat(t, s)
	runs := []*run{c.turn(s.Say)}
	if s.Shell != nil {
		r := c.start(s.Shell("echo out-$((40+2)); echo to-stderr >&2; exit 3"))
		if end := r.allowing(0); end.Phase != row.RunCompleted {
			t.Fatalf("ended as %s (%v)", end.Phase, end.Error)
		}
		runs = append(runs, r)
	}
	if s.Shell != nil && c.in.Permissions != nil {
		r := c.start(s.Shell("touch " + marker))
		ask := r.asked(0)
		if err := c.in.Permissions.Answer(limited(t), ask.Request, exec.Answer{OptionID: optionOf(t, ask, row.Deny), Message: "not today"}); err != nil {
			t.Fatal(err)
		}
		r.completes()
		runs = append(runs, r)
	}
	if c.in.Compaction != nil {
		l := c.prepare("")
		ref, err := c.in.Compaction.Compact(limited(t), l)
		if err != nil {
			t.Fatal(err)
		}
		r := &run{chat: c, id: l.RunID, ref: ref, sink: c.sink}
		r.completes()
		runs = append(runs, r, c.turn(s.Say))
	}
	// Only what is over for good is compared.
	c.close()
	live := map[string]row.Row{}
	for _, r := range runs {
		for _, one := range r.rows() {
			key := identity(one)
			if _, twice := live[key]; twice {
				t.Errorf("two live rows are %s", key)
			}
			if one.NativeID == "" && recorded(one) {
				t.Errorf("a live %s row has no native id", one.Kind())
			}
			if one.NativeID != "" {
				live[key] = one
			}
		}
	}
	for _, one := range read(t, c.in, s.ProjectPath, c.session) {
		if one.Kind() == row.KindUser || one.NativeID == "" {
			continue
		}
		key := identity(one)
		seen, ok := live[key]
		delete(live, key)
		if !ok {
			t.Errorf("read back, but never seen: %s", key)
			continue
		}
		if diff := cmp.Diff(essence(seen), essence(one)); diff != "" {
			t.Errorf("%s was read back differently (-live +read):\n%s", key, diff)
		}
	}
	for key, one := range live {
		if recorded(one) {
			t.Errorf("seen, but not read back: %s", key)
		}
	}
}

// identity is what a live row and the same row read back have in common.
func identity(r row.Row) string {
	return strings.Join([]string{string(r.Kind()), r.NativeID, r.Child, callOf(r)}, " ")
}

func callOf(r row.Row) string {
	switch b := r.Body.(type) {
	case *row.Tool:
		return b.CallID
	case *row.ToolResult:
		return b.CallID
	}
	return ""
}

// recorded reports whether every agent writes down what the row holds.
func recorded(r row.Row) bool {
	switch r.Kind() {
	case row.KindAssistant, row.KindTool, row.KindToolResult:
		return true
	}
	return false
}

// essence is what of a row must come back. Which answer was final, how a run
// was refused and how long a tool took is known only to who was there.
func essence(r row.Row) any {
	switch b := r.Body.(type) {
	case *row.Assistant:
		return b.Text
	case *row.Reasoning:
		return b.Text
	case *row.Tool:
		return struct {
			Tool  row.ToolName
			Input row.ToolInput
		}{b.Tool, b.Input}
	case *row.ToolResult:
		return struct {
			Output, Diff string
			IsError      bool
		}{b.Output, b.Diff, b.IsError}
	case *row.Compaction:
		return b.Summary
	}
	return nil
}

// testMentions checks that the files that came with a prompt are not taken for
// what the user wrote.
func testMentions(t *testing.T, s Subject) {
	c := openChat(t, s)
	const inFile = "never-authored"
	r := c.turn(exec.JoinMentions(s.Say, []exec.Mention{{Path: "notes.txt", Text: inFile + "\n"}}))
	if !strings.Contains(r.text(), s.Reply) {
		t.Errorf("answered %q", r.text())
	}
	rows := read(t, c.in, s.ProjectPath, c.session)
	i := slices.IndexFunc(rows, func(one row.Row) bool { return one.Kind() == row.KindUser })
	if i < 0 || rows[i].Body.(*row.User).Text != s.Say {
		t.Errorf("the prompt was read back as %+v", rows[max(i, 0)].Body)
	}
	list, err := c.in.History.Sessions(limited(t), s.ProjectPath, 10)
	if err != nil {
		t.Fatal(err)
	}
	titles := []string{}
	for _, one := range list {
		titles = append(titles, one.Title)
	}
	for _, e := range c.sink.all() {
		if e.Session != nil {
			titles = append(titles, e.Session.Title)
		}
	}
	for _, title := range titles {
		if strings.Contains(title, inFile) || strings.Contains(title, "mentioned-files") {
			t.Errorf("a mentioned file became the title %q", title)
		}
	}
}
