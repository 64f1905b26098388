package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// apply applies a diff with the program users would.
func apply(t rapid.TB, dir, path, before, diff string) string {
	t.Helper()
	file := filepath.Join(dir, path)
	os.Remove(file)
	if before != "" {
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s\n%s", err, out, diff)
	}
	after, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(after)
}

func TestUnifiedDiff(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			s := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "\n", "-x\n", " y\n"}), 1, 12).Draw(t, "lines"), "")
			if rapid.Bool().Draw(t, "cut") {
				return s + "end"
			}
			return s
		})
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		if rapid.IntRange(0, 9).Draw(t, "new") == 0 {
			before = ""
		}
		diff := unifiedDiff("file", before, after)
		if before == after {
			if diff != "" {
				t.Fatalf("no change, but %s", diff)
			}
			return
		}
		if got := apply(t, dir, "file", before, diff); got != after {
			t.Fatalf("the diff gives %q instead of %q\n%s", got, after, diff)
		}
	})
}
