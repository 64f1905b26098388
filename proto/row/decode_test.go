package row

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAgreesWithUnmarshal(t *testing.T) {
	exit := 3
	hostile := `","kind":"user","text":"` + "\u2028\x01<>&"
	bodies := []Body{
		&User{Text: hostile, Attachments: []Attachment{{Name: hostile, Size: 3}}, Origin: OriginCLI},
		&Assistant{Text: hostile, Final: true},
		&Reasoning{},
		&Tool{CallID: "c", Tool: ToolMCP, Input: ToolInput{Arguments: []byte(`{"a":1,"kind":"user"}`)}},
		&ToolResult{CallID: "c", Output: strings.Repeat(hostile, 9), ExitCode: &exit},
		&Permission{Occurrence: "o", Options: []PermissionOption{{ID: "1", Decision: AllowOnce}}},
		&PermissionResolved{Occurrence: "o", Outcome: Answered},
		&Question{Occurrence: "q", Questions: []QuestionItem{{ID: "1", Text: hostile}}},
		&QuestionResolved{Occurrence: "q", Answers: map[string][]string{"1": {hostile}}},
		&Run{Phase: RunCompleted, Usage: &Usage{InputTokens: 5}},
		&Compaction{Summary: hostile},
		&Handoff{From: Owner{Executor: "a"}, To: Owner{Executor: "b"}},
		&Subagent{ChildID: "c", Mode: "background"},
		&Notice{Code: "n"},
		&Error{Code: "e", Text: hostile},
		&Session{Agent: "a", ID: hostile},
		&Opaque{Type: "from-the-future", Members: []byte(`{"kind":"from-the-future","x":{"kind":"user"}}`)},
	}
	for _, body := range bodies {
		for _, head := range []Head{
			{},
			{Ordinal: 7, Time: 8, TurnID: "t", RunID: hostile, PartID: "p", NativeID: hostile, Child: hostile, Imported: true},
		} {
			data, err := Row{Head: head, Body: body}.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var want Row
			if err := want.UnmarshalJSON(data); err != nil {
				t.Fatal(err)
			}
			got, err := Decode(data)
			if err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %s", data, diff)
			}
		}
	}
	for _, bad := range []string{``, `{}`, `{"ordinal":1}`, `{"ordinal":1,"kind":"user"`, `{"ordinal":1,"kind":"user","text":3}`} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Fatalf("decoded %q", bad)
		}
	}
}
