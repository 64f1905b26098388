package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Main runs the tests and removes what they built; it returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}

// built is the binary of this test run: building takes seconds and its result
// does not depend on the test.
var built struct {
	mu   sync.Mutex
	dir  string
	path string
	err  error
}

// Binary returns the path of the garcon program built from this source tree,
// with the race detector when the test has it. It is built once for all tests
// of a run.
func Binary(t testing.TB) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == "" {
		built.path, built.err = build()
	}
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "garcon-e2e-")
	if err != nil {
		return "", err
	}
	built.dir = dir
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "garcon")
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, buildFlags...), ".")...)
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build garcon: %w\n%s", err, out)
	}
	return path, nil
}

// sourceDir returns the directory of the module that the test is in.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("the test runs outside the module")
		}
		dir = parent
	}
}

// Source returns the directory of the module that the test is in.
func Source(t testing.TB) string {
	t.Helper()
	dir, err := sourceDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
