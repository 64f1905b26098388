package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// census returns the live processes whose environment holds one of the entries
// or whose current directory is below dir.
func census(dir string, entries []string) ([]Process, error) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		proc := filepath.Join("/proc", name.Name())
		if !alive(proc) || !belongs(proc, dir, entries) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		found = append(found, Process{pid, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))})
	}
	return found, nil
}

// alive reports whether the process runs; one that has ended and waits for its
// parent does not.
func alive(proc string) bool {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return false
	}
	// The state follows the command's name, which is in parentheses and may
	// hold any character.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return ok && len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
}

func belongs(proc, dir string, entries []string) bool {
	if cwd, err := os.Readlink(filepath.Join(proc, "cwd")); err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/")) {
		return true
	}
	environ, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return false
	}
	for _, have := range bytes.Split(environ, []byte{0}) {
		for _, want := range entries {
			if string(have) == want {
				return true
			}
		}
	}
	return false
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
