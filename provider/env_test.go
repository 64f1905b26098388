package provider

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"garcon/proto/exec"
)

func TestBuildEnv(t *testing.T) {
	base := []string{"PATH=/bin", "GARCON_TOKEN=secret", "GARCON_PROCESS=outer", "A=1", "B=2", "broken", "EMPTY="}
	got := BuildEnv(base, map[string]string{"B": "3", "Z": "last", "GARCON_WORKSPACE": "x"}, "A")
	want := []string{"PATH=/bin", "EMPTY=", "B=3", "Z=last"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if Getenv(got, "B") != "3" || Getenv(got, "A") != "" {
		t.Error("Getenv disagrees")
	}
}

func TestLookPath(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{
		filepath.Join(dir, "agent"): 0o600, filepath.Join(other, "agent"): 0o700, filepath.Join(dir, "local"): 0o700,
	} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	env := []string{"PATH=.:" + dir + ":" + other}
	if got, err := LookPath(env, "agent"); err != nil || got != filepath.Join(other, "agent") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := LookPath([]string{"PATH=."}, "local"); exec.CodeOf(err) != exec.CodeAgentMissing {
		t.Errorf("found in the project: %q, %v", got, err)
	}
	if _, err := LookPath(env, "folder"); exec.CodeOf(err) != exec.CodeAgentMissing {
		t.Errorf("took a directory for a program: %v", err)
	}
	if _, err := LookPath(nil, "agent"); exec.CodeOf(err) != exec.CodeAgentMissing {
		t.Errorf("found without PATH: %v", err)
	}
}
