package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// program is the grammar of tests: this package's commands.
type program struct {
	Global
	Commands
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// document decodes what a command printed on standard output.
func (r result) document(t testing.TB, into any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(r.stdout))
	if err := dec.Decode(into); err != nil {
		t.Fatalf("standard output is no document: %v\n%s", err, r.stdout)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("standard output holds more than one document:\n%s", r.stdout)
	}
}

// testEnv returns an environment without terminals.
func testEnv(t testing.TB, stdin string) (*Env, *bytes.Buffer, *bytes.Buffer) {
	var stdout, stderr bytes.Buffer
	return &Env{
		Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, StdinFD: -1, Width: defaultWidth,
		Getenv: func(string) string { return "" }, Dir: "/work/project", Home: t.TempDir(),
	}, &stdout, &stderr
}

// runCLI runs a command without a server.
func runCLI(t testing.TB, args ...string) result {
	t.Helper()
	e, stdout, stderr := testEnv(t, "")
	var p program
	code := Run(t.Context(), e, &p, &p.Global, args)
	return result{code, stdout.String(), stderr.String()}
}

func parser(t testing.TB) *kong.Kong {
	t.Helper()
	e, _, _ := testEnv(t, "")
	var p program
	k, err := kong.New(&p, kong.Name("garcon"), kong.Bind(e, &p.Global), kong.BindTo(t.Context(), (*context.Context)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "expected one of"},
		{"unknown command", []string{"chat"}, "unexpected argument chat"},
		{"unknown flag", []string{"chats", "list", "--jsn"}, "unknown flag --jsn"},
		{"misspelled flag after a prompt", []string{"chats", "start", "hi", "--jsn"}, "after --"},
		{"flag-like prompt", []string{"chats", "start", "--settings=/tmp/x do it"}, "after --"},
		{"no prompt", []string{"chats", "start"}, "there is no message"},
		{"empty prompt", []string{"chats", "start", " \n"}, "the message is empty"},
		{"empty standard input", []string{"chats", "start", "-"}, "the message is empty"},
		{"bad runtime", []string{"chats", "list", "--runtime", "both"}, "--runtime must be one of"},
		{"bad time", []string{"chats", "wait", "1", "--timeout", "soon"}, "seconds"},
		{"two policies", []string{"chats", "resume", "1", "--queue", "--steer", "hi"}, "can't be used together"},
		{"two decisions", []string{"chats", "decide", "1", "--allow", "--deny"}, "can't be used together"},
		{"long request id", []string{"chats", "start", "--request-id", strings.Repeat("x", maxRequestID+1), "hi"}, "longer than 128 bytes"},
		{"export of nothing", []string{"chats", "export", "--json", "1"}, "-o FILE"},
		{"incomplete provider", []string{"providers", "add", "--label", "x"}, "--base-url"},
		{"nothing to change", []string{"providers", "update", "x"}, "nothing to change"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runCLI(t, tc.args...)
			if got.code != ExitUsage {
				t.Errorf("exit code %d, want %d", got.code, ExitUsage)
			}
			if got.stdout != "" && !slices.Contains(tc.args, "--json") {
				t.Errorf("standard output: %q", got.stdout)
			}
			if !strings.Contains(got.stderr, tc.want) {
				t.Errorf("standard error %q does not say %q", got.stderr, tc.want)
			}
		})
	}
}

func TestJSONFailureIsOneDocument(t *testing.T) {
	got := runCLI(t, "chats", "start", "--json", " ")
	var doc struct {
		Schema int
		Error  errorDocument
	}
	got.document(t, &doc)
	if doc.Schema != Schema || doc.Error.Exit != ExitUsage || doc.Error.Message == "" {
		t.Errorf("document %+v", doc)
	}
	if !strings.Contains(got.stderr, doc.Error.Message) {
		t.Errorf("standard error %q does not say it", got.stderr)
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	var visit func(node *kong.Node)
	visit = func(node *kong.Node) {
		if node.Type == kong.CommandNode && !node.Hidden {
			args := append(strings.Fields(node.Path()), "--help")
			if node.Path() == "" {
				args = strings.Fields(strings.TrimPrefix(node.FullPath(), "garcon ") + " --help")
			}
			got := runCLI(t, args...)
			if got.code != ExitOK || !strings.HasPrefix(got.stdout, "Usage: garcon") {
				t.Errorf("%v: exit code %d, standard output %q", args, got.code, got.stdout)
			}
			if node.Help == "" {
				t.Errorf("%v has no help", args)
			}
		}
		for _, c := range node.Children {
			visit(c)
		}
	}
	visit(parser(t).Model.Node)
	if got := runCLI(t, "--help"); got.code != ExitOK || !strings.Contains(got.stdout, "chats") || strings.Contains(got.stdout, "__complete") {
		t.Errorf("garcon --help: %d %q", got.code, got.stdout)
	}
}

// Examples in help texts must parse.
func TestExamplesParse(t *testing.T) {
	count := 0
	var visit func(node *kong.Node)
	visit = func(node *kong.Node) {
		for _, line := range strings.Split(node.Detail, "\n") {
			line = strings.TrimSpace(line)
			at := strings.Index(line, "garcon ")
			if at < 0 || !strings.HasPrefix(line, "garcon") && !strings.Contains(line[:at], "|") {
				continue
			}
			line, _, _ = strings.Cut(line[at:], " | ")
			line, _, _ = strings.Cut(line, " > ")
			line, _, _ = strings.Cut(line, " < ")
			if strings.Contains(line, "$(") {
				continue
			}
			count++
			k := parser(t)
			if _, err := k.Parse(Arguments(k, splitShell(line)[1:])); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		for _, c := range node.Children {
			visit(c)
		}
	}
	visit(parser(t).Model.Node)
	if count < 30 {
		t.Errorf("only %d examples were found", count)
	}
}

// splitShell splits a line at spaces outside double quotes.
func splitShell(line string) []string {
	var words []string
	for n, part := range strings.Split(line, `"`) {
		if n%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		name     string
		in, want []string
	}{
		{"plain", []string{"chats", "start", "hi there"}, nil},
		{"dash", []string{"chats", "start", "- a list"}, []string{"chats", "start", "--", "- a list"}},
		{"like flags", []string{"chats", "start", "--json", "-rf is dangerous"}, []string{"chats", "start", "--json", "--", "-rf is dangerous"}},
		{"global flags before", []string{"--config-dir", "/x", "chats", "resume", "1", "--help me out"}, []string{"--config-dir", "/x", "chats", "resume", "1", "--", "--help me out"}},
		{"lines", []string{"chats", "steer", "1", "--\n- one"}, []string{"chats", "steer", "1", "--", "--\n- one"}},
		{"queue", []string{"chats", "queue", "add", "1", "-x y"}, []string{"chats", "queue", "add", "1", "--", "-x y"}},
		{"equals first", []string{"chats", "start", "--title=my title"}, nil},
		{"value of a flag", []string{"chats", "start", "--title", "- x y"}, nil},
		{"stdin", []string{"chats", "start", "-"}, nil},
		{"flag", []string{"chats", "start", "hi", "--json"}, nil},
		{"already", []string{"chats", "start", "--", "-a b"}, nil},
		{"no prompt here", []string{"chats", "list", "-a b"}, nil},
		{"not a chat command", []string{"-a b"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.want
			if want == nil {
				want = tc.in
			}
			if got := Arguments(parser(t), tc.in); !reflect.DeepEqual(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	var b struct {
		Schema int
		Build
	}
	runCLI(t, "version", "--json").document(t, &b)
	if b.Schema != Schema || b.Version == "" || b.Go == "" || b.OS == "" || b.Arch == "" {
		t.Errorf("%+v", b)
	}
	if got := runCLI(t, "version"); got.code != ExitOK || !strings.HasPrefix(got.stdout, "garcon "+b.Version) {
		t.Errorf("%+v", got)
	}
}
