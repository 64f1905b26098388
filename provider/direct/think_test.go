package direct

import (
	"strings"
	"testing"
)

// splitThink feeds the pieces and returns reasoning and answer.
func splitThink(pieces []string) (reasoning, answer string) {
	var t thinkSplitter
	emit := func(r bool, s string) {
		if r {
			reasoning += s
		} else {
			answer += s
		}
	}
	for _, p := range pieces {
		t.add(p, emit)
	}
	t.flush(emit)
	return reasoning, answer
}

func TestThinkSplitter(t *testing.T) {
	for _, tt := range []struct{ in, reasoning, answer string }{
		{"plain", "", "plain"},
		{"<think>a</think>b", "a", "b"},
		{"\n <think>\na\n</think>\n\nb\n", "a\n", "b\n"},
		{"<think></think>b", "", "b"},
		{"<think>a", "a", ""},
		{"<think>a</thin", "a</thin", ""},
		{"<think>a</thinb</think>c", "a</thinb", "c"},
		{"<think>a<</think>c", "a<", "c"},
		{"<think>a</think><think>b</think>", "a", "<think>b</think>"},
		{"<thin", "", "<thin"},
		{"<thinker>", "", "<thinker>"},
		{"  <b", "", "  <b"},
		{"x<think>a</think>", "", "x<think>a</think>"},
		{"<THINK>a", "", "<THINK>a"},
		{" \n", "", " \n"},
		{"", "", ""},
		{"<think>ä世</think>ö", "ä世", "ö"},
	} {
		// Every cut into two, and every byte by itself.
		cuts := [][]string{{tt.in}, strings.Split(tt.in, "")}
		for i := range len(tt.in) {
			cuts = append(cuts, []string{tt.in[:i], tt.in[i:]})
		}
		for _, pieces := range cuts {
			reasoning, answer := splitThink(pieces)
			if reasoning != tt.reasoning || answer != tt.answer {
				t.Errorf("%q: reasoning %q, answer %q, want %q, %q", pieces, reasoning, answer, tt.reasoning, tt.answer)
			}
		}
	}
}

func TestBlankSpaceBeforeATagIsBounded(t *testing.T) {
	var s thinkSplitter
	got := 0
	emit := func(_ bool, text string) { got += len(text) }
	for range 3 * maxHeld {
		s.add(" ", emit)
		if len(s.held) > maxHeld+len(openTag) {
			t.Fatalf("%d bytes are held", len(s.held))
		}
	}
	s.flush(emit)
	if got != 3*maxHeld {
		t.Errorf("%d bytes came out", got)
	}
}

func FuzzThinkSplitter(f *testing.F) {
	f.Add("<think>a</think>b", uint8(3))
	f.Add("\n<thi", uint8(1))
	f.Add("<think>a</th</think>", uint8(2))
	f.Fuzz(func(t *testing.T, in string, size uint8) {
		var pieces []string
		for rest := in; rest != ""; {
			n := min(max(int(size), 1), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		wholeR, wholeA := splitThink([]string{in})
		r, a := splitThink(pieces)
		if r != wholeR || a != wholeA {
			t.Errorf("%q in pieces of %d: %q, %q, whole: %q, %q", in, size, r, a, wholeR, wholeA)
		}
		if !strings.HasPrefix(strings.TrimLeft(in, blank), openTag) && (r != "" || a != in) {
			t.Errorf("%q without a tag: %q, %q", in, r, a)
		}
	})
}
