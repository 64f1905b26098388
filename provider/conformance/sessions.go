package conformance

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func testCompaction(t *testing.T, s Subject) {
	c := openChat(t, s)
	c.turn(s.Say)
	l := c.prepare("")
	ref, err := c.in.Compaction.Compact(limited(t), l)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{chat: c, id: l.RunID, ref: ref, sink: c.sink}
	r.completes()
	if !slices.ContainsFunc(r.rows(), func(one row.Row) bool { return one.Kind() == row.KindCompaction }) {
		t.Error("no compaction row came")
	}
	if got := c.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("after the compaction it answered %q", got)
	}
}

// read returns the whole history of a session.
func read(t testing.TB, in *exec.Integration, project, session string) []row.Row {
	t.Helper()
	reader, err := in.History.Open(limited(t), project, session)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var rows []row.Row
	for {
		page, err := reader.Next(limited(t))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			t.Fatal("an empty page that is not the end")
		}
		rows = append(rows, page...)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	return rows
}

// answers returns the texts of the agent in rows.
func answers(rows []row.Row) string {
	var b strings.Builder
	for _, one := range rows {
		if a, ok := one.Body.(*row.Assistant); ok {
			b.WriteString(a.Text + "\n")
		}
	}
	return b.String()
}

// checkHistory checks rows that were imported.
func checkHistory(t testing.TB, rows []row.Row) {
	t.Helper()
	ids := map[string]bool{}
	for _, one := range rows {
		if !one.Imported {
			t.Errorf("an imported %s row is not marked", one.Kind())
		}
		if one.NativeID != "" && ids[one.NativeID+one.Child+string(one.Kind())] {
			t.Errorf("two %s rows have the native id %s", one.Kind(), one.NativeID)
		}
		ids[one.NativeID+one.Child+string(one.Kind())] = true
		switch one.Body.(type) {
		case *row.Permission, *row.Question, *row.Run, *row.Handoff, *row.Session:
			t.Errorf("a %s row was imported", one.Kind())
		}
		if _, err := one.Encode(); err != nil {
			t.Errorf("an imported %s row cannot be stored: %v", one.Kind(), err)
		}
	}
}

func testHistory(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.turn(s.Say)
	h := c.in.History
	before, err := h.Revision(limited(t), s.ProjectPath, c.session)
	if err != nil {
		t.Fatal(err)
	}
	// Observing does not change anything.
	rows := read(t, c.in, s.ProjectPath, c.session)
	checkHistory(t, rows)
	prompts := 0
	for _, one := range rows {
		if u, ok := one.Body.(*row.User); ok {
			prompts++
			if u.Text != s.Say {
				t.Errorf("the prompt was read back as %q", u.Text)
			}
		}
	}
	if prompts != 1 || !strings.Contains(answers(rows), s.Reply) {
		t.Errorf("the history has %d prompts and the answers %q", prompts, answers(rows))
	}
	imported := map[string]string{}
	for _, one := range rows {
		if a, ok := one.Body.(*row.Assistant); ok && one.NativeID != "" {
			imported[one.NativeID] = a.Text
		}
	}
	for _, one := range r.rows() {
		if a, ok := one.Body.(*row.Assistant); ok && one.NativeID != "" && imported[one.NativeID] != a.Text {
			t.Errorf("the live row %s %.40q was read back as %.40q", one.NativeID, a.Text, imported[one.NativeID])
		}
	}
	if same, err := h.Revision(limited(t), s.ProjectPath, c.session); err != nil || same != before {
		t.Errorf("reading changed the revision from %q to %q, %v", before, same, err)
	}

	list, err := h.Sessions(limited(t), s.ProjectPath, 10)
	if err != nil || !slices.ContainsFunc(list, func(n exec.NativeSession) bool { return n.ID == c.session }) {
		t.Errorf("the session is not listed: %+v, %v", list, err)
	}
	c.turn(s.Say)
	if after, err := h.Revision(limited(t), s.ProjectPath, c.session); err != nil || after == before {
		t.Errorf("a turn left the revision at %q, %v", after, err)
	}
	if longer := read(t, c.in, s.ProjectPath, c.session); len(longer) <= len(rows) {
		t.Errorf("after another turn the history has %d rows, before %d", len(longer), len(rows))
	}

	// A limit is one, and unknown sessions are said to be so.
	openChat(t, s).turn(s.Say)
	if list, err := h.Sessions(limited(t), s.ProjectPath, 1); err != nil || len(list) != 1 {
		t.Errorf("a list of at most 1 has %d, %v", len(list), err)
	}
	_, err = h.Open(limited(t), s.ProjectPath, uuid.NewString())
	wantCode(t, err, exec.CodeSessionMissing)
	_, err = h.Revision(limited(t), s.ProjectPath, uuid.NewString())
	wantCode(t, err, exec.CodeSessionMissing)
	if _, err = h.Open(limited(t), s.ProjectPath, "../../../../etc/passwd"); err == nil {
		t.Error("a path was taken for a session")
	}
}

func testFork(t *testing.T, s Subject) {
	c := openChat(t, s)
	r := c.turn(s.Say)
	source := c.session
	length := func(session string) int {
		if c.in.History == nil {
			return 0
		}
		return len(read(t, c.in, s.ProjectPath, session))
	}
	before := length(source)

	fork, err := c.in.Forking.Fork(limited(t), exec.Fork{ProjectPath: s.ProjectPath, NativeSession: source})
	if err != nil || fork == "" || fork == source {
		t.Fatalf("fork %q of %q, %v", fork, source, err)
	}
	branch := openChat(t, s)
	branch.session = fork
	if got := branch.turn(s.Say).text(); !strings.Contains(got, s.Reply) {
		t.Errorf("the fork answered %q", got)
	}
	if branch.session == source {
		t.Error("the fork works in the session it came from")
	}
	if after := length(source); after != before {
		t.Errorf("the source grew from %d to %d rows by a turn of its fork", before, after)
	}
	if c.in.History != nil && length(branch.session) <= before {
		t.Errorf("the fork has %d rows, its source %d", length(branch.session), before)
	}

	// At an entry: what came after it is not in the fork.
	at := ""
	for _, one := range r.rows() {
		if one.Kind() == row.KindAssistant && one.NativeID != "" {
			at = one.NativeID
		}
	}
	c.turn(s.Say)
	if at != "" {
		early, err := c.in.Forking.Fork(limited(t), exec.Fork{ProjectPath: s.ProjectPath, NativeSession: source, AtNativeID: at})
		if err != nil {
			t.Fatal(err)
		}
		branch := openChat(t, s)
		branch.session = early
		branch.turn(s.Say)
		if c.in.History != nil && length(branch.session) >= length(source)+1 {
			t.Errorf("the early fork has %d rows, its source %d", length(branch.session), length(source))
		}
	}

	unused, err := c.in.Forking.Fork(limited(t), exec.Fork{ProjectPath: s.ProjectPath, NativeSession: source})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.in.Forking.Discard(limited(t), s.ProjectPath, unused); err != nil {
		t.Errorf("discard of an unused fork: %v", err)
	}
	if length(source) == 0 && c.in.History != nil {
		t.Error("the discard took the source with it")
	}
	if _, err := c.in.Forking.Fork(limited(t), exec.Fork{ProjectPath: s.ProjectPath, NativeSession: uuid.NewString()}); err == nil {
		t.Error("a session that does not exist was forked")
	}
}
