package provider

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// szomb is the state of a zombie in the kernel's process structure.
const szomb = 5

// listProcesses returns every process of the machine, zombies included.
func listProcesses() ([]procStat, error) {
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	list := make([]procStat, 0, len(all))
	for i := range all {
		list = append(list, statOf(&all[i]))
	}
	return list, nil
}

// statProcess reads one process; it is false when there is none.
func statProcess(pid int) (procStat, bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return procStat{}, false
	}
	return statOf(info), true
}

func statOf(p *unix.KinfoProc) procStat {
	start := p.Proc.P_starttime
	return procStat{
		pid: int(p.Proc.P_pid), ppid: int(p.Eproc.Ppid), pgrp: int(p.Eproc.Pgid),
		start:  uint64(start.Sec)*1e6 + uint64(start.Usec),
		zombie: p.Proc.P_stat == szomb,
		name:   unix.ByteSliceToString(p.Proc.P_comm[:]),
	}
}

// cookieOf returns the cookie a process was started with. known is false when
// it could not be told: macOS hides the environment of protected programs.
func cookieOf(pid int) (cookie string, known bool) {
	args, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(args) < 4 {
		return "", false
	}
	return cookieIn(args[4:]), true
}

// commandOf returns the command line of a process for reports.
func commandOf(pid int) string {
	args, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(args) < 4 {
		return ""
	}
	count := int(binary.NativeEndian.Uint32(args))
	_, rest, _ := bytes.Cut(args[4:], []byte{0})
	words := bytes.Split(bytes.TrimLeft(rest, "\x00"), []byte{0})
	return string(bytes.Join(words[:min(count, len(words))], []byte{' '}))
}

// waitExited returns when the child has exited, without reaping it: as long as
// it is a zombie its pid and the id of its group cannot be given to anybody
// else.
func waitExited(pid int) {
	queue, err := unix.Kqueue()
	if err != nil {
		return
	}
	defer unix.Close(queue)
	change := unix.Kevent_t{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT}
	changes := []unix.Kevent_t{change}
	for {
		_, err := unix.Kevent(queue, changes, make([]unix.Kevent_t, 1), nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
		changes = nil
	}
}

// childAttr starts a child in its own group. macOS has no parent-death signal;
// the guard stands alone there.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// selfPath is the running executable.
func selfPath() (string, error) { return os.Executable() }

// closeInherited closes the descriptors above stderr that this process got from
// its parent: those without the close-on-exec flag that Go sets.
func closeInherited() {
	const highest = 1024 // what a shell's default limit allows
	for fd := 3; fd < highest; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}
