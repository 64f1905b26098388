package provider

import (
	"encoding/json"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// afterDeath is how long anything may outlive a runtime that was killed.
const afterDeath = 5 * time.Second

func TestRuntimeKilled(t *testing.T) {
	for name, script := range map[string]string{"double fork": doubleFork, "own session": ownSession} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startOuterRuntime(t, t.TempDir(), script)
			if len(carriers(t, r.cookie)) < 2 {
				t.Fatal("nothing to clean up")
			}
			// The whole group: the guard must be in none of it.
			syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
			waitFor(t, afterDeath, "gone", func() bool { return len(carriers(t, r.cookie)) == 0 })
			waitFor(t, afterDeath, "without guard", func() bool { return !alive(r.guard) })
		})
	}
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	st, ok := statProcess(pid)
	return ok && !st.zombie
}

func TestGuardIsReplaced(t *testing.T) {
	dir := t.TempDir()
	ps := newTestProcesses(t, dir)
	p := startScript(t, ps, doubleFork)
	NewLineReader(p.Stdout(), 0).Next()
	first := guardPID(ps)
	syscall.Kill(first, syscall.SIGKILL)
	waitFor(t, guardStartTimeout, "a new guard", func() bool { return guardPID(ps) != first })
	if !alive(p.PID()) {
		t.Error("the death of the guard ended a process")
	}
	// The new guard knows the old cookies: its pipe ends without the runtime
	// having ended the process.
	ps.guard.mu.Lock()
	ps.guard.pipe.Close()
	ps.guard.mu.Unlock()
	waitDone(t, p, afterDeath)
}

func guardPID(ps *Processes) int {
	ps.guard.mu.Lock()
	defer ps.guard.mu.Unlock()
	return ps.guard.pid
}

func TestGuardIgnoresSignals(t *testing.T) {
	ps := newTestProcesses(t, t.TempDir())
	guard := guardPID(ps)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		syscall.Kill(guard, sig)
	}
	p := startScript(t, ps, `exit 0`)
	waitDone(t, p, 5*time.Second)
	if guardPID(ps) != guard || !alive(guard) {
		t.Error("the guard ended")
	}
	if err := ps.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alive(guard) {
		t.Error("the guard outlived Close")
	}
}

func TestSweepAfterDeathOfBoth(t *testing.T) {
	dir := t.TempDir()
	r := startOuterRuntime(t, dir, ownSession)
	syscall.Kill(r.guard, syscall.SIGSTOP)
	syscall.Kill(r.cmd.Process.Pid, syscall.SIGKILL)
	syscall.Kill(r.guard, syscall.SIGKILL)
	r.cmd.Wait()
	left := len(carriers(t, r.cookie))
	if left == 0 {
		t.Fatal("nothing was left to sweep")
	}
	ps := newTestProcesses(t, dir)
	if got := carriers(t, r.cookie); len(got) > 0 {
		t.Errorf("left after the sweep: %q", got)
	}
	if len(ps.Swept()) == 0 || !strings.Contains(ps.Swept()[0].Command, "sleep") {
		t.Errorf("swept %+v", ps.Swept())
	}
	if err := ps.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := newTestProcesses(t, dir); len(again.Swept()) != 0 {
		t.Errorf("swept again: %+v", again.Swept())
	}
}

// TestSweepSparesForeign plays the reuse of pids: records that fit a process of
// somebody else in one respect but not in all.
func TestSweepSparesForeign(t *testing.T) {
	const cookie, other = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ZYXWVUTSRQPONMLKJIHGFEDCBA"
	for _, tc := range []struct {
		name  string
		env   []string
		entry func(procStat) recordEntry
	}{
		{"no cookie", nil, func(st procStat) recordEntry {
			return recordEntry{Cookie: cookie, PID: st.pid, Start: st.start}
		}},
		{"other cookie", []string{envCookie + "=" + other}, func(st procStat) recordEntry {
			return recordEntry{Cookie: cookie, PID: st.pid, Start: st.start}
		}},
		{"other start", []string{envCookie + "=" + cookie}, func(st procStat) recordEntry {
			return recordEntry{Cookie: cookie, PID: st.pid, Start: st.start - 1}
		}},
		{"started before", []string{envCookie + "=" + cookie}, func(st procStat) recordEntry {
			return recordEntry{Cookie: cookie, PID: st.pid + 1, Start: st.start + 1}
		}},
		{"empty cookie", nil, func(st procStat) recordEntry {
			return recordEntry{PID: st.pid, Start: st.start}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := osexec.Command("sleep", "1000")
			cmd.Env = append([]string{"A=b"}, tc.env...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			st, ok := statProcess(cmd.Process.Pid)
			if !ok {
				t.Fatal("no such process")
			}
			dir := t.TempDir()
			data, _ := json.Marshal([]recordEntry{tc.entry(st)})
			if err := os.WriteFile(filepath.Join(dir, recordFile), data, 0o600); err != nil {
				t.Fatal(err)
			}
			ps := newTestProcesses(t, dir)
			if !st.running() || len(ps.Swept()) != 0 {
				t.Errorf("swept a foreign process: %+v", ps.Swept())
			}
		})
	}
}

func TestSweepOfDamagedRecord(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(`[{"cookie":`), 0o600); err != nil {
		t.Fatal(err)
	}
	ps := newTestProcesses(t, dir)
	p := startScript(t, ps, `exit 0`)
	waitDone(t, p, 5*time.Second)
}

// TestGuardNeedsAnAnswer starts a program that knows nothing of guards.
func TestGuardNeedsAnAnswer(t *testing.T) {
	ps, err := NewProcesses(ProcessesOptions{StateDir: t.TempDir(), GuardPath: "/bin/true"})
	if err == nil {
		ps.Close(t.Context())
		t.Fatal("a program that is no guard was taken for one")
	}
}

func TestGuardHoldsNothing(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("needs /proc")
	}
	// A descriptor without close-on-exec, as a parent shell may hand on.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno)
	}
	ps := newTestProcesses(t, t.TempDir())
	w.Close()
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
	if cwd, err := os.Readlink("/proc/" + itoa(guardPID(ps)) + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("guard works in %q, %v", cwd, err)
	}
}

func TestGuardAlone(t *testing.T) {
	cookie := strings.Repeat("G", cookieLength)
	start := func(c string) *osexec.Cmd {
		cmd := osexec.Command("sleep", "1000")
		cmd.Env = []string{envCookie + "=" + c}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	told, forgotten := start(cookie), start(strings.Repeat("H", cookieLength))
	in := "+" + cookie + "\n+" + strings.Repeat("H", cookieLength) + "\n-" + strings.Repeat("H", cookieLength) + "\nnonsense\n"
	if left := guard(t.Context(), strings.NewReader(in)); len(left) > 0 {
		t.Errorf("left %+v", left)
	}
	if alive(told.Process.Pid) {
		t.Error("the process of a known cookie was left")
	}
	if !alive(forgotten.Process.Pid) {
		t.Error("the process of a forgotten cookie was ended")
	}
}
