package claude

import (
	"context"
	"os"
	"testing"

	"garcon/provider"
)

// The test binary is also the guard of the processes it starts, and the CLI when
// a test wants one that misbehaves.
func TestMain(m *testing.M) {
	if provider.IsGuard(os.Args) {
		os.Exit(provider.RunGuard(context.Background(), os.Stdin))
	}
	if name := os.Getenv(fakeVariable); name != "" {
		os.Exit(playFake(name))
	}
	os.Exit(m.Run())
}
