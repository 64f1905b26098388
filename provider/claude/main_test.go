package claude

import (
	"context"
	"os"
	"testing"

	"garcon/provider"
)

// The test binary is also the guard of the processes it starts.
func TestMain(m *testing.M) {
	if provider.IsGuard(os.Args) {
		os.Exit(provider.RunGuard(context.Background(), os.Stdin))
	}
	os.Exit(m.Run())
}
