package claude_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/e2e/model"
	"garcon/proto/exec"
	"garcon/proto/row"
)

// tinyPNG is a picture of one pixel.
const tinyPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func TestTools(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, model.Script{})
		file := filepath.Join(w.project, "a.txt")
		picture := filepath.Join(w.project, "p.png")
		data, err := base64.StdEncoding.DecodeString(tinyPNG)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(picture, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.model.Push(
			call("w1", "Write", object{"file_path": file, "content": "one\ntwo\nthree\n"}),
			call("e1", "Edit", object{"file_path": file, "old_string": "two", "new_string": "TWO\nextra"}),
			call("e2", "Edit", object{"file_path": file, "old_string": "absent", "new_string": "x"}),
			call("r1", "Read", object{"file_path": file, "limit": 2}),
			call("r2", "Read", object{"file_path": picture}),
			call("b1", "Bash", object{"command": "echo out; exit 3", "description": "Fail on purpose"}),
			call("b2", "Bash", object{"command": "printf '\\033[31mred\\033[0m\\n'; echo warn >&2"}),
			call("m1", "mcp__server__do_it", object{"a": 1}),
			model.Step{Blocks: []model.Block{
				{Text: "Two at once."},
				{Tool: &model.Tool{ID: "p1", Name: "Bash", Input: object{"command": "echo a"}}},
				{Tool: &model.Tool{ID: "p2", Name: "Bash", Input: object{"command": "echo b"}}},
			}},
			text("Done."),
		); err != nil {
			t.Fatal(err)
		}
		ch := w.chat()
		ch.launch.Mode = "acceptEdits"
		run := ch.start("use tools")
		ch.rec.waitAsk(run, 1).answer(t, exec.Answer{OptionID: "allow"}) // b1
		ch.wantEnd(run, row.RunCompleted)

		rows := ch.rec.rows(run)
		got := brief(rows)
		for _, line := range []string{
			`tool w1 write Write "a.txt" running`,
			`tool e1 edit Edit "a.txt" running`,
			`result e2 failed "String to replace not found in file.\nString: absent"`,
			`tool r1 read Read "a.txt" running`,
			`result r1 completed "one\nTWO"`,
			`result r2 completed "" +image/png(70)`,
			`tool b1 bash Bash "Fail on purpose" running`,
			`result b1 failed "out" exit 3`,
			`tool m1 mcp mcp__server__do_it "server: do_it" running`,
			`assistant "Two at once."`,
			`result p1 completed "a" exit 0`,
			`result p2 completed "b" exit 0`,
			`assistant "Done." final`,
		} {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("no row %s", line)
			}
		}
		if t.Failed() {
			t.Log(got)
		}
		for _, r := range rows {
			switch b := r.Body.(type) {
			case *row.Tool:
				switch b.CallID {
				case "w1":
					if diff := cmp.Diff(row.ToolInput{Path: file, Content: "one\ntwo\nthree\n"}, b.Input); diff != "" {
						t.Error(diff)
					}
				case "e1":
					if diff := cmp.Diff(row.ToolInput{Path: file, Edits: []row.Edit{{Old: "two", New: "TWO\nextra"}}}, b.Input); diff != "" {
						t.Error(diff)
					}
				case "m1":
					if b.Input.Server != "server" || b.Input.Method != "do_it" || string(b.Input.Arguments) != `{"a":1}` {
						t.Errorf("input %+v", b.Input)
					}
				}
			case *row.ToolResult:
				switch b.CallID {
				case "w1":
					if want := "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n"; b.Diff != want {
						t.Errorf("diff %q", b.Diff)
					}
				case "e1":
					if want := "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+TWO\n+extra\n three\n"; b.Diff != want {
						t.Errorf("diff %q", b.Diff)
					}
				case "r2":
					if b.Images[0].Data != tinyPNG {
						t.Error("the picture is another one")
					}
				case "b2":
					// Colours stay: clients draw them.
					if !strings.Contains(b.Output, "\x1b[31mred\x1b[0m") {
						t.Errorf("output %q", b.Output)
					}
				}
			}
		}
	})
}

func TestTodos(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		if c.lifecycle {
			t.Skip("the newer program does not offer a todo list in this mode")
		}
		w := newWorld(t, c, script(
			call("t1", "TaskCreate", object{"subject": "first", "description": "d"}),
			call("t2", "TaskCreate", object{"subject": "second", "description": "d"}),
			call("t3", "TaskUpdate", object{"taskId": "1", "status": "in_progress"}),
			text("Listed."),
		))
		ch := w.chat()
		run := ch.say("plan")
		var last []row.Todo
		for _, r := range ch.rec.rows(run) {
			if tool, ok := r.Body.(*row.Tool); ok {
				if tool.Tool != row.ToolTodo {
					t.Errorf("%s is %s", tool.Name, tool.Tool)
				}
				last = tool.Input.Todos
			}
		}
		want := []row.Todo{{Text: "first", Status: "in-progress"}, {Text: "second", Status: "pending"}}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAttachments(t *testing.T) {
	each(t, func(t *testing.T, c cli) {
		w := newWorld(t, c, script(text("I see."), text("unused")))
		ch := w.chat()
		data, err := base64.StdEncoding.DecodeString(tinyPNG)
		if err != nil {
			t.Fatal(err)
		}
		file := func(name, media string, data []byte) exec.AttachmentData {
			return exec.AttachmentData{Attachment: row.Attachment{Name: name, MediaType: media, Size: int64(len(data))}, Data: data}
		}
		run, err := ch.try(t.Context(), exec.Prompt{Text: "look", Attachments: []exec.AttachmentData{
			file("p.png", "image/png", data), file("d.pdf", "application/pdf", []byte("%PDF-1.4 fake")), file("n.md", "text/markdown", []byte("# A note")),
		}})
		if err != nil {
			t.Fatal(err)
		}
		ch.wantEnd(run, row.RunCompleted)
		req := w.model.Calls(model.CallMain)[0]
		for _, part := range []string{tinyPNG, base64.StdEncoding.EncodeToString([]byte("%PDF-1.4 fake")), "# A note", "look"} {
			if !strings.Contains(string(req.Raw), part) {
				t.Errorf("the model did not get %.40q", part)
			}
		}
		_, err = ch.try(t.Context(), exec.Prompt{Text: "x", Attachments: []exec.AttachmentData{file("a.zip", "application/zip", []byte("PK"))}})
		if e := exec.AsError(err); e == nil || e.Code != exec.CodeInvalid || e.Dispatched != exec.NotDispatched {
			t.Errorf("a zip file: %v", err)
		}
		_, err = ch.try(t.Context(), exec.Prompt{Text: "x", Attachments: []exec.AttachmentData{file("a.png", "image/png", make([]byte, 21<<20))}})
		if exec.CodeOf(err) != exec.CodeTooLarge {
			t.Errorf("a large file: %v", err)
		}
	})
}
