package provider

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// listProcesses returns every process of the machine, zombies included.
func listProcesses() ([]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	list := make([]procStat, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if st, ok := statProcess(pid); ok {
			list = append(list, st)
		}
	}
	return list, nil
}

// statProcess reads one process; it is false when there is none.
func statProcess(pid int) (procStat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, false
	}
	st, err := parseStat(data)
	return st, err == nil
}

// parseStat reads the format of /proc/PID/stat. The name is in parentheses and
// may itself contain parentheses, spaces and line feeds.
func parseStat(data []byte) (procStat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return procStat{}, errors.New("stat: no name")
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 20 {
		return procStat{}, errors.New("stat: too short")
	}
	st := procStat{name: string(data[open+1 : end]), zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	var err error
	number := func(b []byte) int {
		n, convErr := strconv.Atoi(string(b))
		err = errors.Join(err, convErr)
		return n
	}
	st.pid = number(bytes.TrimSpace(data[:open]))
	st.ppid = number(fields[1])
	st.pgrp = number(fields[2])
	start, convErr := strconv.ParseUint(string(fields[19]), 10, 64)
	st.start = start
	return st, errors.Join(err, convErr)
}

// cookieOf returns the cookie a process was started with. known is false when
// it could not be told, such as for a process of another user or one in the
// middle of an exec.
func cookieOf(pid int) (cookie string, known bool) {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || len(env) == 0 {
		return "", false
	}
	return cookieIn(env), true
}

// commandOf returns the command line of a process for reports.
func commandOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(bytes.TrimRight(data, "\x00"), []byte{0}, []byte{' '}))
}

// waitExited returns when the child has exited, without reaping it: as long as
// it is a zombie its pid and the id of its group cannot be given to anybody
// else.
func waitExited(pid int) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// childAttr starts a child in its own group, which is asked to end with the
// thread that started it. It is not killed at once: an agent that is asked
// writes down its session first, and can be resumed. The guard kills what does
// not end.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// selfPath is the running executable even after it was replaced on disk.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// closeInherited closes the descriptors above stderr that this process got from
// its parent. Those have survived an exec, so they lack the close-on-exec flag
// that everything opened by Go has.
func closeInherited() {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}
