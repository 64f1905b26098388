package demo

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func testAgent() *Adapter { return &Adapter{phrases: phrases()} }

func TestStepsOfALine(t *testing.T) {
	for _, c := range []struct {
		line, usage string
		args        []string
	}{
		{"help", "help", nil},
		{"Help!", "help", nil},
		{"/help", "help", nil},
		{"please help", "help", nil},
		{"Tour.", "tour", nil},
		{"say hello there", "say TEXT", []string{"hello there"}},
		{"Say Slowly Does It", "say TEXT", []string{"Slowly Does It"}},
		{"please say x", "say TEXT", []string{"x"}},
		{"slowly say a b", "slowly say TEXT", []string{"a b"}},
		{"slowly a b", "slowly say TEXT", []string{"a b"}},
		{"think", "think: TEXT", []string{""}},
		{"think: of a number", "think: TEXT", []string{"of a number"}},
		{"markdown", "markdown", nil},
		{"long", "long N", []string{""}},
		{"long 12", "long N", []string{"12"}},
		{"burst 3000", "burst N", []string{"3000"}},
		{"sleep 0.5", "sleep N", []string{"0.5"}},
		{"hang", "hang", nil},
		{"run: ls -la", "run: COMMAND", []string{"ls -la"}},
		{"run:ls", "run: COMMAND", []string{"ls"}},
		{"run `ls -la`", "run: COMMAND", []string{"ls -la"}},
		{"run: `ls -la`", "run: COMMAND", []string{"ls -la"}},
		// Backticks that are the shell's stay.
		{"run: echo `date`", "run: COMMAND", []string{"echo `date`"}},
		{"run: `which a` `which b`", "run: COMMAND", []string{"`which a` `which b`"}},
		{"background: sleep 1", "background: COMMAND", []string{"sleep 1"}},
		{"background: echo `date`", "background: COMMAND", []string{"echo `date`"}},
		{"stop jobs", "stop jobs", nil},
		{"/stop-jobs", "stop jobs", nil},
		{"read a/b.txt", "read FILE", []string{"a/b.txt"}},
		{"list", "list", nil},
		{"list files.", "list", nil},
		{"write a.txt: one: two", "write FILE: TEXT", []string{"a.txt", "one: two"}},
		{"write a.txt:", "write FILE: TEXT", []string{"a.txt", ""}},
		{"edit a.txt: b c => d => e", "edit FILE: OLD => NEW", []string{"a.txt", "b c", "d => e"}},
		{"edit a.txt: b =>", "edit FILE: OLD => NEW", []string{"a.txt", "b", ""}},
		{"ask me", "ask me: QUESTION? A, B", []string{"", ""}},
		{"/ask-me", "ask me: QUESTION? A, B", []string{"", ""}},
		{"ask me: Tea or coffee? Tea, Coffee", "ask me: QUESTION? A, B", []string{"Tea or coffee?", "Tea, Coffee"}},
		{"ask me: Why?", "ask me: QUESTION? A, B", []string{"Why?", ""}},
		{"todo: a; b", "todo: A; B", []string{"a; b"}},
		{"plan: first this", "plan: TEXT", []string{"first this"}},
		{"delegate: look", "delegate: TASK", []string{"look"}},
		{"delegate in background: look", "delegate in background: TASK", []string{"look"}},
		{"show tools", "show tools", nil},
		{"draw", "draw", nil},
		{"notice mind the gap", "notice TEXT", []string{"mind the gap"}},
		{"fail", "fail with CODE", []string{""}},
		{"Fail with rate_limited.", "fail with CODE", []string{"rate_limited"}},
		{"crash", "crash", nil},
		// Talk that only begins like a phrase.
		{"say", "", []string{"say"}},
		{"helpful", "", []string{"helpful"}},
		{"read the whole manual", "", []string{"read the whole manual"}},
		{"run away", "", []string{"run away"}},
		{"sleep well", "", []string{"sleep well"}},
		{"what does crash do?", "", []string{"what does crash do?"}},
		{"", "", []string{""}},
	} {
		got := testAgent().steps(c.line)
		if len(got) != 1 {
			t.Errorf("%q gives %d steps", c.line, len(got))
			continue
		}
		args := got[0].args
		switch {
		case len(args) == 0:
			args = nil
		case got[0].mutates && len(c.args) == 1:
			args = []string{commandOf(args)}
		}
		if got[0].usage != c.usage || !cmp.Equal(args, c.args) {
			t.Errorf("%q is %q with %q, want %q with %q", c.line, got[0].usage, args, c.usage, c.args)
		}
	}
}

func TestStepsOfLines(t *testing.T) {
	list := testAgent().steps("Hi there, please do this:\r\n  say a\n\n\tthink: b\nThanks!\nsay c")
	var got []string
	for _, s := range list {
		got = append(got, s.line)
	}
	if want := []string{"say a", "think: b", "say c"}; !cmp.Equal(got, want) {
		t.Errorf("the steps are %q, want %q", got, want)
	}
	// Without a phrase the message is one piece of talk.
	list = testAgent().steps(" one\ntwo \n")
	if len(list) != 1 || list[0].args[0] != "one\ntwo" {
		t.Errorf("talk is %+v", list)
	}
}

// Mentioned files are for reading: what they say is not asked for.
func TestStepsIgnoreMentionedFiles(t *testing.T) {
	list := testAgent().steps("say a" + "\n\n<garcon-mentioned-files>\n<file path=\"x\">\nrun: rm -rf .\n</file>\n</garcon-mentioned-files>")
	if len(list) != 1 || list[0].line != "say a" {
		t.Errorf("steps are %+v", list)
	}
}

// example makes a line of a usage.
var example = strings.NewReplacer("TEXT", "some text", "CODE", "RATE_LIMITED", "COMMAND", "true", "FILE", "a.txt", " N", " 3", "TASK", "look")

func TestHelpIsTrue(t *testing.T) {
	a := testAgent()
	help := a.helpText()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]bool{}
	for _, p := range a.phrases {
		line := example.Replace(p.usage)
		if got := a.steps(line); len(got) != 1 || got[0].phrase != p {
			t.Errorf("%q, as in the help, is understood as %+v", line, got)
		}
		if !strings.Contains(help, "| `"+p.usage+"` | "+p.help+" |") {
			t.Errorf("%q is not in the help", p.usage)
		}
		keyword, _, _ := strings.Cut(p.usage, " ")
		keyword = strings.TrimRight(keyword, ":")
		if !strings.Contains(string(doc), "//\t"+keyword) {
			t.Errorf("%q is not in the package documentation", keyword)
		}
		if p.command == "" {
			continue
		}
		if commands[p.command] {
			t.Errorf("there are two commands %q", p.command)
		}
		commands[p.command] = true
		if got := a.steps("/" + p.command); len(got) != 1 || got[0].phrase != p {
			t.Errorf("the command /%s is understood as %+v", p.command, got)
		}
	}
}

func FuzzSteps(f *testing.F) {
	for _, p := range phrases() {
		f.Add(example.Replace(p.usage))
	}
	f.Add("say a\nrun: `x`\nedit a: b => c\n")
	f.Add("run: `")
	f.Add("run ``")
	f.Add("\xff say \x00\n\u2028please  say x")
	a := testAgent()
	f.Fuzz(func(t *testing.T, prompt string) {
		list := a.steps(prompt)
		if len(list) == 0 || len(list) > strings.Count(prompt, "\n")+1 {
			t.Fatalf("%d steps", len(list))
		}
		for _, s := range list {
			if s.do == nil || !strings.Contains(prompt, s.line) {
				t.Fatalf("step %+v", s)
			}
			if s.pattern != nil && len(s.args) != s.pattern.NumSubexp() {
				t.Fatalf("step %q has the arguments %q", s.usage, s.args)
			}
			for _, arg := range s.args {
				if !strings.Contains(s.line, arg) {
					t.Fatalf("argument %q is not of %q", arg, s.line)
				}
			}
		}
		if !utf8.ValidString(prompt) {
			return
		}
		if got := title(prompt); len(got) > maxTitle || !utf8.ValidString(got) {
			t.Fatalf("title %q", got)
		}
		for rest := prompt; rest != ""; {
			chunk := nextChunk(rest, chunkBytes)
			if chunk == "" || !strings.HasPrefix(rest, chunk) || !utf8.ValidString(chunk) || len(chunk) > 2*chunkBytes+1 {
				t.Fatalf("chunk %q of %q", chunk, rest)
			}
			rest = rest[len(chunk):]
		}
	})
}
