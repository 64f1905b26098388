package provider

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"garcon/proto/exec"
)

// Names of the variables garcon puts into the environment of a native process.
const (
	envPrefix    = "GARCON_"
	envConfigDir = "GARCON_CONFIG_DIR"
	envRuntime   = "GARCON_RUNTIME"
	envCookie    = "GARCON_PROCESS"
	envGuard     = "GARCON_GUARD"
)

// BuildEnv returns base without garcon's own variables (everything that begins
// with GARCON_: workspaces, controller addresses, tokens) and without the ones
// named in unset, then with set added, sorted by name. Neither argument is
// changed. [Processes.Start] adds what a child may know of garcon.
func BuildEnv(base []string, set map[string]string, unset ...string) []string {
	out := make([]string, 0, len(base)+len(set))
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || strings.HasPrefix(name, envPrefix) || slices.Contains(unset, name) {
			continue
		}
		if _, replaced := set[name]; replaced {
			continue
		}
		out = append(out, entry)
	}
	names := make([]string, 0, len(set))
	for name := range set {
		if !strings.HasPrefix(name, envPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		out = append(out, name+"="+set[name])
	}
	return out
}

// Getenv returns the value of a variable in env, "" when it is not there. The
// last entry wins, as it does for a child process.
func Getenv(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if n, value, ok := strings.Cut(entry, "="); ok && n == name {
			return value
		}
	}
	return ""
}

// LookPath finds an executable file as a shell with the environment env would:
// a name with a slash is taken as it is, any other is looked for in PATH.
// Relative entries of PATH are skipped, so that a project directory cannot
// provide the program. It fails with [exec.CodeAgentMissing].
func LookPath(env []string, name string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", exec.Errorf(exec.CodeAgentMissing, "%s cannot be started: %w", name, err)
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(Getenv(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path := filepath.Join(dir, name); executable(path) == nil {
			return path, nil
		}
	}
	return "", exec.Errorf(exec.CodeAgentMissing, "%s is not installed: it was not found in PATH", name)
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return os.ErrPermission
	}
	return nil
}
