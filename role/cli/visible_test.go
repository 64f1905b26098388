package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	for _, tc := range []struct{ name, in, block, line string }{
		{"plain", "naïve 日本 👩‍👩‍👧", "naïve 日本 👩‍👩‍👧", "naïve 日本 👩‍👩‍👧"},
		{"lines", "a\n\tb\r\nc", "a\n\tb\nc", "a  b c"},
		{"lone return", "safe\rrm -rf", `safe\x0drm -rf`, "safe rm -rf"},
		{"colour", "\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"title", "\x1b]0;owned\x07", `\x1b]0;owned\x07`, `\x1b]0;owned\x07`},
		{"clipboard, 8 bit", "\u009d52;c;aGk=\u009c", `\x9d52;c;aGk=\x9c`, `\x9d52;c;aGk=\x9c`},
		{"bidi", "a\u202eb\u2066c", `a\u{202e}b\u{2066}c`, `a\u{202e}b\u{2066}c`},
		{"tags", "x\U000e0041", `x\u{e0041}`, `x\u{e0041}`},
		{"zero width", "pass\u200bword", `pass\u{200b}word`, `pass\u{200b}word`},
		{"invalid", "a\xff", `a\xff`, `a\xff`},
		{"replacement", "a\ufffd", "a\ufffd", "a\ufffd"},
		{"delete and nul", "a\x7f\x00", `a\x7f\x00`, `a\x7f\x00`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Visible(tc.in); got != tc.block {
				t.Errorf("Visible = %q, want %q", got, tc.block)
			}
			if got := VisibleLine(tc.in); got != tc.line {
				t.Errorf("VisibleLine = %q, want %q", got, tc.line)
			}
		})
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b]52;c;x\x07\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{Visible(s), VisibleLine(s)} {
			if !utf8.ValidString(out) {
				t.Fatalf("%q is not UTF-8", out)
			}
			if i := strings.IndexFunc(out, hidden); i >= 0 {
				t.Fatalf("%q keeps a hidden character at %d", out, i)
			}
		}
		if strings.ContainsAny(VisibleLine(s), "\n\t") {
			t.Fatal("more than one line")
		}
		doc, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		safe := visibleJSON(doc)
		if strings.IndexFunc(string(safe), hidden) >= 0 {
			t.Fatalf("%q keeps a hidden character", safe)
		}
		var back, want string
		if err := json.Unmarshal(safe, &back); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("visibleJSON changed the value: %q, want %q", back, want)
		}
	})
}
