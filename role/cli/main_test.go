package cli

import (
	"os"
	"strings"
	"testing"
)

// TestMain clears the variables that flags read: what the developer has set
// must not change the tests.
func TestMain(m *testing.M) {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "GARCON_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// makePrivate makes a directory as garcon does.
func makePrivate(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}
