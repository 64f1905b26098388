package claude

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/exec"
	"garcon/proto/row"
)

var update = flag.Bool("update", false, "write the golden files anew")

// captured is one line of a capture: what went in or came out.
type captured struct {
	Dir string          `json:"dir"`
	M   json.RawMessage `json:"m"`
}

func readCapture(t testing.TB, path string) []captured {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []captured
	for line := range bytes.Lines(data) {
		var c captured
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		lines = append(lines, c)
	}
	return lines
}

// transcript plays the part of run and binding for a scribe.
type transcript struct {
	b     *strings.Builder
	where string
	rows  []row.Row
	live  map[string]string
	t     testing.TB
}

func (w *transcript) Rows(rows ...row.Row) {
	for _, r := range rows {
		r = r.Clean()
		data, err := r.Encode()
		if err != nil {
			w.t.Errorf("encode: %v", err)
		}
		var back row.Row
		if err := json.Unmarshal(data, &back); err != nil {
			w.t.Errorf("decode %s: %v", data, err)
		}
		w.rows = append(w.rows, r)
		w.b.WriteString(w.where + Brief([]row.Row{r}))
	}
}

func (w *transcript) Live(l row.Live) {
	if l.Offset > len(w.live[l.PartID]) {
		w.t.Errorf("%s continues at %d, but has %d bytes", l.PartID, l.Offset, len(w.live[l.PartID]))
		return
	}
	w.live[l.PartID] = w.live[l.PartID][:l.Offset] + l.Text
}

func (w *transcript) Jobs(jobs []exec.Job) {
	w.b.WriteString("jobs")
	for _, j := range jobs {
		fmt.Fprintf(w.b, " [%s %s]", j.Kind, j.Title)
	}
	w.b.WriteByte('\n')
}

// replay feeds the output of a capture to a scribe and renders what it writes.
func replay(t testing.TB, lines []captured) (string, []row.Row) {
	t.Helper()
	w := &transcript{b: &strings.Builder{}, t: t, live: map[string]string{}}
	s := newScribe("$PROJECT", w)
	open, phase := false, row.RunCompleted
	begin := func() {
		if !open {
			s.begin(w)
			open, phase = true, row.RunCompleted
			w.b.WriteString("run\n")
		}
	}
	end := func() {
		if open {
			s.endRun(phase)
			open = false
			fmt.Fprintf(w.b, "end %s\n", phase)
		}
	}
	for _, c := range lines {
		if c.Dir == "in" && bytes.Contains(c.M, []byte(`"type":"user"`)) {
			begin()
		}
		if c.Dir != "out" {
			continue
		}
		e, err := parseLine(c.M)
		if err != nil {
			// Some captures have lines of which only the size was kept.
			if bytes.Contains(c.M, []byte(`"truncated"`)) {
				continue
			}
			t.Fatalf("%s: %v", c.M, err)
		}
		if startsTurn(e) {
			begin()
		}
		switch {
		case e.Type == "result":
			_, failure := s.endTurn(e)
			if failure != nil {
				phase = row.RunFailed
				fmt.Fprintf(w.b, "failure %s %q\n", failure.Code, failure.Message)
			}
			var r resultLine
			if decode(c.M, &r) == nil && r.aborted() {
				phase = row.RunInterrupted
			}
		case e.Type == "control_request":
			var l struct {
				RequestID string      `json:"request_id"`
				Request   toolRequest `json:"request"`
			}
			if err := decode(c.M, &l); err != nil {
				t.Fatal(err)
			}
			s.settle()
			w.b.WriteString(Brief([]row.Row{s.newAsk(l.RequestID, l.Request).row}))
		case e.Type == "system" && e.Subtype == "session_state_changed" && bytes.Contains(c.M, []byte(`"idle"`)):
			end()
		default:
			s.line(e)
		}
	}
	end()
	return w.b.String(), w.rows
}

// golden compares got with a section of a golden file.
func golden(t *testing.T, path string, got map[string]string) {
	t.Helper()
	if *update {
		var b strings.Builder
		names := make([]string, 0, len(got))
		for name := range got {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "== %s\n%s", name, got[name])
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for section := range strings.SplitSeq("\n"+string(data), "\n== ") {
		name, text, _ := strings.Cut(section, "\n")
		if name != "" {
			want[name] = strings.TrimSuffix(text, "\n")
		}
	}
	for name := range got {
		got[name] = strings.TrimSuffix(got[name], "\n")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-update writes it anew):\n%s", path, diff)
	}
}

func TestCaptures(t *testing.T) {
	for _, tag := range []string{"v197", "v332"} {
		files, err := filepath.Glob("testdata/captures/" + tag + "-*.jsonl")
		if err != nil || len(files) < 50 {
			t.Fatalf("%d captures, %v", len(files), err)
		}
		got := map[string]string{}
		for _, path := range files {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), tag+"-"), ".jsonl")
			lines := readCapture(t, path)
			text, rows := replay(t, lines)
			got[name] = text
			t.Run(tag+"/"+name, func(t *testing.T) { checkComplete(t, lines, rows) })
		}
		golden(t, "testdata/golden/captures-"+tag+".txt", got)
	}
}

// knownTools are those of which a canonical form exists.
var knownTools = []string{
	"Bash", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS", "WebSearch", "WebFetch",
	"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "Task", "Agent", "AskUserQuestion", "ExitPlanMode",
}

// checkComplete checks that everything the agent said and did has a row.
func checkComplete(t *testing.T, lines []captured, rows []row.Row) {
	t.Helper()
	texts, calls, results := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		switch b := r.Body.(type) {
		case *row.Assistant:
			texts[b.Text] = true
		case *row.Reasoning:
			texts[b.Text] = true
		case *row.Notice:
			texts[b.Text] = true
		case *row.User:
			texts[b.Text] = true
		case *row.Tool:
			calls[b.CallID] = true
			if slices.Contains(knownTools, b.Name) && b.Tool == row.ToolOther {
				t.Errorf("%s is %s", b.Name, b.Tool)
			}
			if b.Input.Arguments != nil && b.Tool != row.ToolOther && b.Tool != row.ToolMCP {
				t.Errorf("the input of %s was not understood: %s", b.Name, b.Input.Arguments)
			}
		case *row.ToolResult:
			results[b.CallID] = true
		}
	}
	for _, c := range lines {
		if c.Dir != "out" {
			continue
		}
		var l messageLine
		if decode(c.M, &l) != nil || l.Error != "" || l.IsReplay || l.IsSynthetic {
			continue
		}
		for _, b := range l.Message.Content {
			text := strings.TrimSpace(first(b.Text, b.Thinking))
			switch {
			case b.Type == "tool_use" && !calls[b.ID]:
				t.Errorf("call %s has no row", b.ID)
			case b.Type == "tool_result" && !results[b.ToolUseID]:
				t.Errorf("result of %s has no row", b.ToolUseID)
			case (b.Type == "text" || b.Type == "thinking") && text != "" && text != noContent && l.Message.Role == "assistant" &&
				!texts[first(b.Text, b.Thinking)] && !texts[text]:
				t.Errorf("text %q has no row", text)
			}
		}
	}
}

func TestNativeFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/native/*.jsonl")
	if err != nil || len(files) < 14 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	got := map[string]string{}
	for _, path := range files {
		rows := readNative(t, path)
		got[strings.TrimSuffix(filepath.Base(path), ".jsonl")] = Brief(rows)
		for _, r := range rows {
			if !r.Imported || r.NativeID == "" {
				t.Errorf("%s: %+v", path, r.Head)
			}
		}
	}
	golden(t, "testdata/golden/native.txt", got)
}

// readNative reads one session file, wherever it lies.
func readNative(t testing.TB, path string) []row.Row {
	t.Helper()
	r := &historyReader{dir: t.TempDir(), mapper: newMapper("$PROJECT"), seen: map[string]bool{}}
	if err := r.open(t.Context(), path, ""); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if strings.Contains(path, "subagent") {
		// Such a file has nothing but the transcript of a child.
		r.files[0].child = "child"
	}
	defer r.Close()
	var rows []row.Row
	for {
		batch, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, b := range batch {
			rows = append(rows, b.Clean())
		}
	}
}
