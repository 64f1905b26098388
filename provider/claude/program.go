package claude

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"garcon/proto/exec"
	"garcon/provider"
)

const (
	defaultProgram = "claude"
	installCommand = "npm install -g @anthropic-ai/claude-code"
	// envProgram names the program to use in place of the one in PATH.
	envProgram = "GARCON_CLAUDE_PATH"
	// envSandbox is how a user tells the CLI that root is harmless here.
	envSandbox = "IS_SANDBOX"
	envConfig  = "CLAUDE_CONFIG_DIR"
)

// minVersion is the oldest version that was measured.
var minVersion = [3]int{2, 1, 197}

// Limits of the small programs that are run to learn something.
const (
	versionTimeout = 10 * time.Second
	// statusTimeout is for "auth status", which took up to 1 s.
	statusTimeout = 30 * time.Second
	maxOutput     = 1 << 20
)

// keptVariables are the beginnings of the names that configure the CLI. Other
// CLAUDE_CODE_ variables describe a session that something was started from.
var keptVariables = []string{
	"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_MAX_", "CLAUDE_CODE_DISABLE_",
	"CLAUDE_CODE_ENABLE_", "CLAUDE_CODE_SUBAGENT_MODEL", "CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "CLAUDE_CODE_CLIENT_",
	"CLAUDE_CODE_SHELL", "CLAUDE_CODE_TMPDIR", "CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_CODE_EXTRA_BODY",
	"CLAUDE_CODE_PROXY_", "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "CLAUDE_CODE_GIT_BASH_PATH",
}

// environ is the environment of the CLI: the runtime's, without what a Claude
// Code session that the runtime was itself started from has left in it.
func environ(base []string) []string {
	var drop []string
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case name == "CLAUDECODE", strings.HasPrefix(name, "CLAUDE_AGENT_SDK_"):
			drop = append(drop, name)
		case strings.HasPrefix(name, "CLAUDE_CODE_"):
			if !slices.ContainsFunc(keptVariables, func(kept string) bool { return strings.HasPrefix(name, kept) }) {
				drop = append(drop, name)
			}
		}
	}
	return provider.BuildEnv(base, map[string]string{
		// Without it, nothing tells when a turn is really over.
		"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
		"DISABLE_AUTOUPDATER":                   "1",
	}, drop...)
}

func isRoot() bool { return os.Geteuid() == 0 }

// found is the program as it was found.
type found struct {
	path    string
	version string
}

// checked remembers the version of the program as long as the file is the same.
type checked struct {
	mu    sync.Mutex
	found found
	info  os.FileInfo
}

// find finds the program and refuses a version that is too old.
func (a *adapter) find(ctx context.Context) (found, error) {
	f, err := a.locate(ctx)
	if err != nil {
		return found{}, err
	}
	if !supported(f.version) {
		return found{}, exec.Errorf(exec.CodeAgentVersion, "Claude Code %s is too old: %s or newer is needed", f.version, versionText(minVersion)).
			WithHint("Update it: %s", installCommand)
	}
	return f, nil
}

// locate finds the program and its version.
func (a *adapter) locate(ctx context.Context) (found, error) {
	path, err := provider.LookPath(a.host.Env, a.program)
	if err != nil {
		return found{}, exec.AsError(err).WithHint("Install it on the executor: %s", installCommand)
	}
	info, err := os.Stat(path)
	if err != nil {
		return found{}, exec.Errorf(exec.CodeAgentMissing, "Claude Code cannot be started: %w", err)
	}
	a.checked.mu.Lock()
	defer a.checked.mu.Unlock()
	c := &a.checked
	if c.info != nil && c.found.path == path && os.SameFile(c.info, info) && c.info.ModTime().Equal(info.ModTime()) {
		return c.found, nil
	}
	text, failure := a.run(ctx, path, versionTimeout, "--version")
	version := versionPattern.FindString(text)
	if version == "" {
		if failure == nil {
			failure = exec.Errorf(exec.CodeAgentVersion, "%s did not say which version it is", path)
		}
		return found{}, failure
	}
	c.found, c.info = found{path: path, version: version}, info
	return c.found, nil
}

// run runs the program to its end in the empty directory and returns what it
// printed, also when it failed.
func (a *adapter) run(ctx context.Context, path string, timeout time.Duration, args ...string) (string, *exec.Error) {
	return a.feed(ctx, path, timeout, "", args...)
}

// feed is run with an input.
func (a *adapter) feed(ctx context.Context, path string, timeout time.Duration, input string, args ...string) (string, *exec.Error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	proc, err := a.host.Processes.Start(ctx, provider.Command{
		Name: label, Path: path, Args: args, Dir: a.empty, Env: environ(a.host.Env),
	})
	if err != nil {
		return "", exec.AsError(err)
	}
	var ended sync.WaitGroup
	defer ended.Wait()
	stop := make(chan struct{})
	defer close(stop)
	ended.Go(func() {
		select {
		case <-ctx.Done():
			if err := proc.Stop(ctx, 0); err != nil {
				a.host.Log.Error("end claude", "err", err)
			}
		case <-stop:
		}
	})
	ended.Go(func() {
		// A program that does not read its input ends the write with itself.
		_, _ = io.WriteString(proc.Stdin(), input)
		proc.Stdin().Close()
	})
	out, err := io.ReadAll(io.LimitReader(proc.Stdout(), maxOutput))
	if err == nil && len(out) == maxOutput {
		_, err = io.Copy(io.Discard, proc.Stdout())
	}
	exit := proc.Exit()
	switch {
	case ctx.Err() != nil:
		code := exec.CodeCancelled
		if context.Cause(ctx) == context.DeadlineExceeded {
			code = exec.CodeAgentTimeout
		}
		return "", exec.Errorf(code, "Claude Code did not answer in time: %w", ctx.Err()).WithDetail(proc.StderrTail())
	case err != nil:
		return "", exec.Errorf(exec.CodeAgentCrashed, "read the output of Claude Code: %w", err)
	case exit.Code != 0 || exit.Signal != 0:
		return string(out), exec.Errorf(exec.CodeAgentCrashed, "Claude Code failed: %s", exit).WithDetail(proc.StderrTail())
	}
	return string(out), nil
}

var versionPattern = regexp.MustCompile(`\d+\.\d+\.\d+`)

// supported reports whether a version is new enough.
func supported(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	for i, want := range minVersion {
		if i >= len(parts) {
			return false
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < want {
			return false
		}
		if n > want {
			return true
		}
	}
	return true
}

func versionText(v [3]int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }
