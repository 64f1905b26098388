package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"garcon/proto/api"
)

func words(r result) []string {
	var out []string
	for line := range strings.Lines(r.stdout) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		out = append(out, word)
	}
	return out
}

func TestCompleteGrammar(t *testing.T) {
	for _, tc := range []struct {
		in       []string
		want     []string
		unwanted []string
	}{
		{[]string{""}, []string{"chats", "agents", "version"}, []string{"__complete"}},
		{[]string{"ch"}, []string{"chats"}, []string{"agents"}},
		{[]string{"chats", "st"}, []string{"start", "start-async", "steer", "status", "stop"}, []string{"list"}},
		{[]string{"chats", "queue", ""}, []string{"list", "add", "send"}, nil},
		{[]string{"chats", "start", "--"}, []string{"--agent", "--json", "--config-dir", "--attach"}, []string{"--last"}},
		{[]string{"chats", "--a"}, []string{"--all", "--archived", "--agent"}, nil},
		{[]string{"chats", "list", "--runtime", ""}, []string{"auto", "controller", "executor"}, []string{"start"}},
		{[]string{"chats", "list", "--runtime", "=", "c"}, []string{"controller"}, []string{"auto"}},
		{[]string{"completions", ""}, []string{"bash", "zsh", "fish"}, nil},
		{[]string{"chats", "start", "--", "--j"}, nil, []string{"--json"}},
		{[]string{"chats", "read", "1", ""}, nil, []string{"start"}},
	} {
		got := words(runCLI(t, append([]string{"__complete"}, tc.in...)...))
		for _, w := range tc.want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %q lacks %s", tc.in, got, w)
			}
		}
		for _, w := range tc.unwanted {
			if slices.Contains(got, w) {
				t.Errorf("%q: %q has %s", tc.in, got, w)
			}
		}
	}
}

func TestCompleteFromServer(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsList, someChats("/home/u"))
	f.answer(api.OpAgentsList, catalog())
	for _, in := range [][]string{{"chats", "read", ""}, {"chats", "resume", "--queue", "17"}, {"chats", "pin", "1767225600000000", ""}, {"chats", "queue", "add", ""}} {
		got := f.run(append([]string{"__complete"}, in...)...)
		if w := words(got); !slices.Contains(w, "1767225600000000") {
			t.Errorf("%q: %q", in, w)
		}
		if strings.Contains(got.stdout, "\x1b") {
			t.Errorf("%q: %q", in, got.stdout)
		}
	}
	if w := words(f.run("__complete", "chats", "start", "--agent", "")); !slices.Equal(w, []string{"demo", "claude"}) {
		t.Errorf("agents %q", w)
	}
	// Without a server there is nothing to say, and nothing is said.
	f.server.Close()
	f.run("__complete", "chats", "read", "").want(t, ExitOK, "", "")
}

func TestCompletionScriptsParse(t *testing.T) {
	for shell := range completionScripts {
		got := runCLI(t, "completions", shell)
		got.want(t, ExitOK, "__complete", "")
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // this machine has no such shell; bash is everywhere the tests run
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = strings.NewReader(got.stdout)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
	runCLI(t, "completions", "tcsh").want(t, ExitUsage, "", "bash")
}
