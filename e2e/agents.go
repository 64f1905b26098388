package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// installing keeps tests of one run from installing the agents at once.
var installing sync.Mutex

// Agents returns the directory that holds node_modules/.bin with the pinned
// agent programs: that of GARCON_E2E_AGENTS, else e2e/agents where they have
// been installed. With CI set they are installed when missing; otherwise the
// test is skipped with a line that says how to get them.
func Agents(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("GARCON_E2E_AGENTS")
	if dir == "" {
		dir = filepath.Join(Source(t), "e2e", "agents")
	}
	installing.Lock()
	defer installing.Unlock()
	if info, err := os.Stat(filepath.Join(dir, "node_modules", ".bin")); err == nil && info.IsDir() {
		return dir
	}
	if os.Getenv("CI") == "" {
		t.Skip("the agent programs are not installed; run `npm ci --prefix e2e/agents`")
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--prefix", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install the agent programs: %v\n%s", err, out)
	}
	return dir
}
