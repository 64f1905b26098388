package demo

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVocabulary(t *testing.T) {
	a := &Adapter{phrases: phrases()}
	for _, tc := range []struct {
		prompt string
		want   []string // usage and arguments of each step
	}{
		{"help", []string{"help"}},
		{"/help", []string{"help"}},
		{"Please help!", []string{"help"}},
		{"Say hello", []string{"say TEXT|hello"}},
		{"SAY Hello There", []string{"say TEXT|Hello There"}},
		{"slowly say a b", []string{"slowly say TEXT|a b"}},
		{"think", []string{"think: TEXT|"}},
		{"think: about it", []string{"think: TEXT|about it"}},
		{"run: ls -la", []string{"run: COMMAND|ls -la"}},
		{"run:ls", []string{"run: COMMAND|ls"}},
		{"Run `ls -la`", []string{"run: COMMAND|ls -la"}},
		{"run the tests", nil},
		{"background: sleep 1", []string{"background: COMMAND|sleep 1"}},
		{"write a.txt: x: y", []string{"write FILE: TEXT|a.txt|x: y"}},
		{"edit a.go: x := 1 => x := 2", []string{"edit FILE: OLD => NEW|a.go|x := 1|x := 2"}},
		{"edit a.go: gone =>", []string{"edit FILE: OLD => NEW|a.go|gone|"}},
		{"ask me", []string{"ask me: QUESTION? A, B||"}},
		{"ask me: Tea? green, black", []string{"ask me: QUESTION? A, B|Tea?|green, black"}},
		{"burst 50000", []string{"burst N|50000"}},
		{"sleep 0.5", []string{"sleep N|0.5"}},
		{"sleep", nil},
		{"long", []string{"long N|"}},
		{"fail with RATE_LIMITED", []string{"fail with CODE|RATE_LIMITED"}},
		{"fail.", []string{"fail with CODE|"}},
		{"failure is an option", nil},
		{"delegate: look", []string{"delegate: TASK|look"}},
		{"delegate in background: look", []string{"delegate in background: TASK|look"}},
		{"First:\n  say a\n\nthen\nsay b\n", []string{"say TEXT|a", "say TEXT|b"}},
		{"", nil},
		{"what a day\nindeed", nil},
	} {
		var got []string
		for _, s := range a.steps(tc.prompt) {
			if s.usage == "" {
				if len(s.args) != 1 || s.args[0] != strings.TrimSpace(tc.prompt) {
					t.Errorf("%q: small talk about %q", tc.prompt, s.args)
				}
				continue
			}
			got = append(got, strings.Join(append([]string{s.usage}, s.args...), "|"))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q:\n%s", tc.prompt, diff)
		}
	}
}

// TestVocabularyIsDocumented compares the table with the package comment.
func TestVocabularyIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	help := (&Adapter{phrases: phrases()}).helpText()
	for _, p := range phrases() {
		word, _, _ := strings.Cut(p.usage, " ")
		if !strings.Contains(string(doc), "//\t"+strings.TrimSuffix(word, ":")) {
			t.Errorf("%q is not in doc.go", p.usage)
		}
		if !strings.Contains(help, "`"+p.usage+"`") {
			t.Errorf("%q is not in the help", p.usage)
		}
		if p.command != "" && p.pattern.FindString("/"+p.command) == "" {
			t.Errorf("the slash command %q is not understood", p.command)
		}
	}
}

// TestTour checks that every line of the tour is understood.
func TestTour(t *testing.T) {
	a := &Adapter{phrases: phrases()}
	lines := strings.Count(tourPrompt, "\n") + 1
	if got := len(a.steps(tourPrompt)); got != lines {
		t.Errorf("%d of %d lines of the tour are understood", got, lines)
	}
}

func TestTitle(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"short":                     "short",
		"first\n last \n":           "last",
		strings.Repeat("word ", 20): strings.TrimSpace(strings.Repeat("word ", 11)) + "…",
		strings.Repeat("ü", 60):     strings.Repeat("ü", 28) + "…",
	} {
		if got := title(in); got != want || len(got) > maxTitle {
			t.Errorf("title of %q is %q, want %q", in, got, want)
		}
	}
}
