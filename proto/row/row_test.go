package row

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// samples holds one row of each kind, with every member of its body set.
func samples() []Row {
	bodies := []Body{
		&User{
			Text: "hello", Attachments: []Attachment{{Name: "a.png", MediaType: "image/png", Size: 3, Digest: "sha256-00"}},
			Presentation: &Presentation{Title: "t", Style: "s", Color: "c", Collapsible: true}, ClientID: "c1", Origin: OriginCLI, Steered: true,
		},
		&Assistant{Text: "**hi** <b>&", Final: true, Partial: true},
		&Reasoning{Text: "hm", Partial: true},
		&Tool{
			CallID: "t1", Tool: ToolEdit, Name: "Edit", Title: "a.go", Status: ToolRunning,
			Input: ToolInput{
				Command: "ls", Description: "d", Cwd: "/", Background: true, TimeoutMs: 5, Path: "a.go", Paths: []string{"x"}, Offset: 1, Limit: 2,
				Content: "c", Edits: []Edit{{Old: "a", New: "b", All: true}}, Patch: "p", Pattern: "*", Glob: "*.go", Query: "q", URL: "u", Prompt: "p",
				Agent: "g", Todos: []Todo{{Text: "t", Status: "pending"}}, Questions: []QuestionItem{{ID: "1", Text: "q"}}, Plan: "pl",
				Server: "s", Method: "m", Arguments: json.RawMessage(`{"a":1}`),
			},
		},
		&ToolResult{
			CallID: "t1", Output: "\x1b[31mred\x1b[0m", Stderr: "e", Diff: "d", ExitCode: ptr(0), Images: []Image{{MediaType: "image/png", Data: "AA==", Size: 1}},
			Truncated: true, FullSize: 9, IsError: true, Status: ToolFailed, DurationMs: 3,
		},
		&Permission{Occurrence: "o", CallID: "t1", Tool: ToolBash, Name: "Bash", Title: "ls", Input: ToolInput{Command: "ls"}, Reason: "r", Options: []PermissionOption{{ID: "1", Decision: AllowOnce, Label: "Allow"}}},
		&PermissionResolved{Occurrence: "o", Decision: Deny, OptionID: "2", Outcome: Answered, By: "local", Message: "no"},
		&Question{Occurrence: "q", CallID: "t1", Questions: []QuestionItem{{ID: "1", Header: "h", Text: "t", Options: []QuestionOption{{Label: "l", Description: "d"}}, Multi: true, FreeText: true, Secret: true}}},
		&QuestionResolved{Occurrence: "q", Answers: map[string][]string{"1": {"l"}}, Declined: true, Outcome: Answered, By: "b", Message: "m"},
		&Run{Phase: RunFailed, Agent: "a", Model: "m", Mode: "ask", Code: "C", Detail: "d", Hint: "h", Usage: &Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, ReasoningTokens: 5, ContextTokens: 6, ContextWindow: 7, CostUSD: 0.5}, DurationMs: 8, Unsolicited: true},
		&Compaction{Trigger: "auto", Summary: "s", TokensBefore: 2, TokensAfter: 1},
		&Handoff{From: Owner{Executor: "local", Agent: "a", Model: "m"}, To: Owner{Executor: "x", Agent: "b", Model: "n"}},
		&Subagent{ChildID: "c", CallID: "t1", Mode: "foreground", Type: "x", Title: "t", Status: ToolRunning, Summary: "s"},
		&Notice{Code: "N", Title: "t", Text: "x"},
		&Error{Code: "E", Title: "t", Text: "x"},
		&Session{Agent: "a", ID: "s"},
	}
	rows := make([]Row, len(bodies))
	for i, b := range bodies {
		rows[i] = Row{Head{Ordinal: int64(i), Time: 1796055588644, TurnID: "t", RunID: "r", PartID: "p", NativeID: "n", Child: "c", Imported: true}, b}
	}
	return rows
}

func TestRoundTripOfEveryKind(t *testing.T) {
	for _, want := range samples() {
		t.Run(string(want.Kind()), func(t *testing.T) {
			if newBody(want.Kind()) == nil {
				t.Fatal("the kind is not decoded")
			}
			data, err := want.Encode()
			if err != nil {
				t.Fatal(err)
			}
			var got Row
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("round trip (-want +got):\n%s", diff)
			}
			if !json.Valid(data) || strings.Contains(string(data), `\u003c`) {
				t.Errorf("bad or needlessly escaped JSON: %s", data)
			}
		})
	}
}

func TestUnknownKindIsKept(t *testing.T) {
	in := `{"ordinal":3,"time":5,"kind":"hologram","runId":"r","frames":[1,{"x":"<y>"}],"deep":{"a":null}}`
	var r Row
	if err := json.Unmarshal([]byte(in), &r); err != nil {
		t.Fatal(err)
	}
	if r.Kind() != "hologram" || r.Ordinal != 3 || r.RunID != "r" {
		t.Fatalf("head lost: %+v", r.Head)
	}
	r.Ordinal = 9
	r = r.Clean()
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var before, after map[string]any
	if err := json.Unmarshal([]byte(in), &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &after); err != nil {
		t.Fatal(err)
	}
	before["ordinal"] = 9.0
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("members lost (-want +got):\n%s", diff)
	}
}

func TestDecodeRefusesWhatIsNoRow(t *testing.T) {
	for _, in := range []string{`{}`, `{"kind":""}`, `[]`, `"x"`, `{"kind":"user","text":7}`, `{"kind":"user","ordinal":"x"}`} {
		var r Row
		if err := json.Unmarshal([]byte(in), &r); err == nil {
			t.Errorf("decoded %s as %+v", in, r)
		}
	}
}

func TestCleanMakesTextStorable(t *testing.T) {
	r := New("t", "r", &Assistant{Text: "a\x00b\xff\xed\xa0\x80c\x1b[31m"}).Clean()
	got := r.Body.(*Assistant).Text
	if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || !strings.HasSuffix(got, "c\x1b[31m") {
		t.Errorf("got %q", got)
	}
}

// TestCleanBoundsEveryRow fills each text of a row so that the row is over the
// limit, in the ways that grow most when encoded.
func TestCleanBoundsEveryRow(t *testing.T) {
	fills := map[string]string{"letters": "x", "control": "\x01", "quotes": `"`, "separator": "\u2028", "wide": "語", "invalid": "\xffa"}
	for name, unit := range fills {
		big := strings.Repeat(unit, MaxBytes/len(unit)+1)
		rows := []Row{
			{Body: &User{Text: big}},
			{Body: &Assistant{Text: big}},
			{Body: &Tool{Input: ToolInput{Content: big, Command: big, Edits: []Edit{{Old: big, New: big}}}}},
			{Body: &ToolResult{Output: big, Stderr: big, Diff: big}},
			{Body: &Permission{Input: ToolInput{Plan: big}, Reason: big}},
			{Body: &QuestionResolved{Answers: map[string][]string{"a": {big, big}}}},
			{Body: &Run{Detail: big, Hint: big}},
			{Body: &Compaction{Summary: big}},
			{Body: &Subagent{Summary: big, Title: big}},
			{Body: &Notice{Text: big}},
		}
		if name != "letters" && name != "control" {
			rows = rows[:1] // the bodies share one cleaner; two fills try each of them
		}
		for _, r := range rows {
			data, err := r.Clean().Encode()
			if err != nil {
				t.Errorf("%s of %s: %v", r.Kind(), name, err)
				continue
			}
			if !strings.Contains(string(data), "cut here") {
				t.Errorf("%s of %s: no visible marker", r.Kind(), name)
			}
			if name == "letters" && len(data) < MaxBytes/2 {
				t.Errorf("%s: plain text was cut to %d bytes, far below the limit", r.Kind(), len(data))
			}
		}
	}
}

func TestCleanKeepsTheTrueSizeOfOutput(t *testing.T) {
	big := strings.Repeat("x", MaxBytes+5)
	res := &ToolResult{Output: big}
	Row{Body: res}.Clean()
	if !res.Truncated || res.FullSize != int64(len(big)) {
		t.Errorf("truncated %v, full size %d, want true and %d", res.Truncated, res.FullSize, len(big))
	}
}

func TestCleanOmitsImagesThatDoNotFit(t *testing.T) {
	res := &ToolResult{Images: []Image{{Data: strings.Repeat("A", MaxBytes)}, {Data: "AAAA"}}, Output: "kept"}
	r := Row{Body: res}.Clean()
	if res.Images[0].Data != "" || !res.Images[0].Omitted || res.Images[1].Data != "AAAA" || res.Output != "kept" {
		t.Errorf("got %+v", res)
	}
	if _, err := r.Encode(); err != nil {
		t.Error(err)
	}
}

func TestCleanTurnsBrokenArgumentsIntoText(t *testing.T) {
	for _, raw := range []string{`{"a":`, strings.Repeat("[", MaxBytes)} {
		r := Row{Body: &Tool{Tool: ToolOther, Input: ToolInput{Arguments: json.RawMessage(raw)}}}.Clean()
		if _, err := r.Encode(); err != nil {
			t.Errorf("%.20s: %v", raw, err)
		}
	}
}

func TestPrefixCutsBetweenRunes(t *testing.T) {
	const s = "aé語😀z"
	for n := -1; n <= len(s)+1; n++ {
		got := Prefix(s, n)
		if !strings.HasPrefix(s, got) || !utf8.ValidString(got) || len(got) > max(n, 0) || n >= 0 && n < len(s) && len(got) < n-3 {
			t.Errorf("Prefix(%d) = %q", n, got)
		}
	}
}

func FuzzRowDecode(f *testing.F) {
	for _, r := range samples() {
		data, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"kind":"hologram","x":[1,2]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Row
		if json.Unmarshal(data, &r) != nil {
			return
		}
		once, err := r.Clean().Encode()
		if err != nil {
			t.Fatalf("decoded row does not encode: %v", err)
		}
		var again Row
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("encoded row does not decode: %v\n%s", err, once)
		}
		twice, err := again.Clean().Encode()
		if err != nil {
			t.Fatal(err)
		}
		if string(once) != string(twice) {
			t.Errorf("encoding is not stable:\n%s\n%s", once, twice)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("a\x00\xff", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if got := Text(s); !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("Text(%q) = %q", s, got)
		}
		if n >= 0 && n < 1<<20 {
			if got := Cut(Text(s), n+minText); !utf8.ValidString(got) || len(got) > n+minText {
				t.Errorf("Cut(%q, %d) = %q", s, n+minText, got)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	r := New("turn", "run", &Assistant{Text: strings.Repeat("word ", 40)})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}
