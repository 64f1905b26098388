package project

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/exec"
)

// tree makes files below a fresh directory; a text that begins with "->" makes
// a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(content, "->"); ok {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func service(t *testing.T, base string) *Service {
	t.Helper()
	s, err := New(base)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestInspect(t *testing.T) {
	outside := tree(t, map[string]string{"file": "x"})
	base := tree(t, map[string]string{
		"project/file": "x", "in": "->project", "out": "->" + outside, "loop": "->loop", "dangling": "->nowhere",
	})
	s := service(t, base)
	for _, tc := range []struct {
		path string
		want exec.ProjectInfo
	}{
		{base + "/project", exec.ProjectInfo{Path: base + "/project", Exists: true, IsDir: true, InsideBase: true}},
		{"project", exec.ProjectInfo{Path: base + "/project", Exists: true, IsDir: true, InsideBase: true}},
		{"project/../project/.", exec.ProjectInfo{Path: base + "/project", Exists: true, IsDir: true, InsideBase: true}},
		{base, exec.ProjectInfo{Path: base, Exists: true, IsDir: true, InsideBase: true}},
		{"project/file", exec.ProjectInfo{Path: base + "/project/file", Exists: true, InsideBase: true}},
		{"in", exec.ProjectInfo{Path: base + "/project", Exists: true, IsDir: true, InsideBase: true}},
		{"out", exec.ProjectInfo{Path: outside, Exists: true, IsDir: true}},
		{outside, exec.ProjectInfo{Path: outside, Exists: true, IsDir: true}},
		{"missing/below", exec.ProjectInfo{Path: base + "/missing/below", InsideBase: true}},
		{"out/missing", exec.ProjectInfo{Path: base + "/out/missing"}},
		{"project/file/below", exec.ProjectInfo{Path: base + "/project/file/below", InsideBase: true}},
		{"loop", exec.ProjectInfo{Path: base + "/loop", InsideBase: true}},
		{"dangling", exec.ProjectInfo{Path: base + "/dangling", InsideBase: true}},
		{"..", exec.ProjectInfo{Path: filepath.Dir(base), Exists: true, IsDir: true}},
		{base + "2", exec.ProjectInfo{Path: base + "2"}},
	} {
		got, err := s.Inspect(t.Context(), tc.path)
		tc.want.Base = base
		if err != nil {
			t.Errorf("%s: %v", tc.path, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", tc.path, diff)
		}
	}
	for _, path := range []string{"", "a\x00b"} {
		if _, err := s.Inspect(t.Context(), path); exec.CodeOf(err) != exec.CodeProjectPath {
			t.Errorf("%q: %v", path, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Inspect(cancelled, base); exec.CodeOf(err) != exec.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestHome(t *testing.T) {
	home := tree(t, map[string]string{"work/a": "x"})
	t.Setenv("HOME", home)
	s := service(t, "")
	if s.Base() != home {
		t.Errorf("base %q, want %q", s.Base(), home)
	}
	if got, err := s.Inspect(t.Context(), "~/work"); err != nil || got.Path != home+"/work" || !got.IsDir {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	dir := tree(t, map[string]string{"file": ""})
	for _, base := range []string{dir + "/missing", dir + "/file"} {
		if _, err := New(base); err == nil {
			t.Errorf("%s was accepted", base)
		}
	}
}

func TestExpandMentions(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "secret"})
	dir := tree(t, map[string]string{
		"a.go": "package a\n", "sub/b.txt": "b", "with space.md": "spaced", "ü.txt": "ü", "dot.": "dot", "empty": "",
		"binary": "a\x00b", "latin1": "caf\xe9", "link": "->a.go", "in": "->sub", "out": "->" + outside + "/secret",
		"outdir": "->" + outside, "up": "->../secret", "loop": "->loop",
		"exact": strings.Repeat("x", maxMentionBytes), "over": strings.Repeat("x", maxMentionBytes+1),
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := service(t, dir)
	for _, tc := range []struct{ prompt, want string }{
		{"nothing here", ""},
		{"see @a.go and @sub/b.txt", "a.go=package a\n|sub/b.txt=b"},
		{"@a.go, (@sub/b.txt). @ü.txt!", "a.go,=package a\n|sub/b.txt).=b|ü.txt!=ü"},
		{"@dot.", "dot.=dot"},
		{`@"with space.md" @"open`, "with space.md=spaced"},
		{"mail a@a.go", ""},
		{"@a.go @a.go @./a.go", "a.go=package a\n"},
		{"@empty", "empty="},
		{"@link @in/b.txt", "link=package a\n|in/b.txt=b"},
		{"@missing @binary @latin1 @sub @pipe @loop @", ""},
		{"@out @outdir/secret @up @../secret @" + outside + "/secret @/etc/passwd", ""},
		{"@over", ""},
	} {
		got, err := s.ExpandMentions(t.Context(), dir, tc.prompt)
		if err != nil {
			t.Errorf("%q: %v", tc.prompt, err)
		}
		var parts []string
		for _, m := range got {
			parts = append(parts, m.Path+"="+m.Text)
		}
		if s := strings.Join(parts, "|"); s != tc.want {
			t.Errorf("%q\n got %q\nwant %q", tc.prompt, s, tc.want)
		}
	}
	if got, err := s.ExpandMentions(t.Context(), dir, "@exact"); err != nil || len(got) != 1 || len(got[0].Text) != maxMentionBytes {
		t.Errorf("at the limit: %d mentions, %v", len(got), err)
	}
	if _, err := s.ExpandMentions(t.Context(), dir+"/missing", "@a"); exec.CodeOf(err) != exec.CodeProjectPath {
		t.Errorf("missing project: %v", err)
	}
}

func TestMentionBounds(t *testing.T) {
	files := map[string]string{}
	var small, big strings.Builder
	for i := range maxMentions + 1 {
		files[fmt.Sprint("s", i)] = "x"
		files[fmt.Sprint("b", i)] = strings.Repeat("x", maxMentionBytes-1)
		fmt.Fprintf(&small, "@s%d ", i)
		fmt.Fprintf(&big, "@b%d ", i)
	}
	dir := tree(t, files)
	s := service(t, dir)
	if got, err := s.ExpandMentions(t.Context(), dir, small.String()); err != nil || len(got) != maxMentions {
		t.Errorf("%d mentions, want %d; %v", len(got), maxMentions, err)
	}
	got, err := s.ExpandMentions(t.Context(), dir, big.String())
	total := 0
	for _, m := range got {
		total += len(m.Text)
	}
	if err != nil || total > maxAllMentions || len(got) != maxAllMentions/maxMentionBytes {
		t.Errorf("%d mentions of %d bytes, %v", len(got), total, err)
	}
	if n := len(mentions(strings.Repeat("@x ", 10) + manyWords(1000))); n != maxCandidates {
		t.Errorf("%d candidates, want %d", n, maxCandidates)
	}
}

func manyWords(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "@w%d ", i)
	}
	return b.String()
}

func FuzzMentions(f *testing.F) {
	f.Add(`@a @"b c" (@d) x@y @`)
	f.Add("@\xff\x00 @\"\n\"")
	f.Fuzz(func(t *testing.T, prompt string) {
		for _, m := range mentions(prompt) {
			if m == "" || !strings.Contains(prompt, m) {
				t.Errorf("%q is no part of %q", m, prompt)
			}
		}
	})
}
