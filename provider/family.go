package provider

import (
	"bytes"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// pollInterval is how often the end of processes is checked that are not
	// our children, so that nothing tells us.
	pollInterval = 10 * time.Millisecond
	// killWait bounds the wait for processes to go after SIGKILL. What is
	// still there then is stuck in the kernel or belongs to another user.
	killWait = 2 * time.Second
)

// procStat is one process as the kernel lists it.
type procStat struct {
	pid, ppid, pgrp int
	// start is when it started, in a unit of the system's own. A pid and a
	// start together are never used again while the machine runs.
	start  uint64
	zombie bool
	name   string
}

type procKey struct {
	pid   int
	start uint64
}

func (s procStat) key() procKey { return procKey{s.pid, s.start} }

// running reports whether the very process s describes still runs.
func (s procStat) running() bool {
	now, ok := statProcess(s.pid)
	return ok && now.start == s.start && !now.zombie
}

// signal sends to the process s describes and to no other that got its pid
// since: the handle is opened before the identity is checked.
func (s procStat) signal(sig syscall.Signal) error {
	p, err := os.FindProcess(s.pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if !s.running() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}

// cookieIn returns the value of the cookie variable in NUL-separated strings.
func cookieIn(env []byte) string {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(envCookie+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// family finds the processes that belong together: a root, its group, what
// carries a cookie, and their descendants. It is for one goroutine.
type family struct {
	// group is the id of the root's process group. It must be the pid of a
	// child that has not been reaped; 0 when there is none.
	group int
	// ours tells the cookies of the family.
	ours func(cookie string, st procStat) bool
	// onlyCookies leaves out groups and descendants, which prove nothing
	// about processes that nobody watched from their start.
	onlyCookies bool

	known   map[procKey]procStat
	foreign map[procKey]bool
}

// scan lists the members that run.
func (f *family) scan() []procStat {
	list, err := listProcesses()
	if err != nil {
		return nil
	}
	if f.known == nil {
		f.known, f.foreign = map[procKey]procStat{}, map[procKey]bool{}
	}
	self := os.Getpid()
	children := map[int][]procStat{}
	groups := map[int][]procStat{}
	var members, queue []procStat
	seen := map[int]bool{self: true, 1: true, 0: true}
	add := func(st procStat) {
		if !seen[st.pid] {
			seen[st.pid] = true
			queue = append(queue, st)
		}
	}
	for _, st := range list {
		children[st.ppid] = append(children[st.ppid], st)
		groups[st.pgrp] = append(groups[st.pgrp], st)
		if st.pid == f.group || f.isKnown(st) || !st.zombie && f.carries(st) {
			add(st)
		}
	}
	if f.group != 0 && !f.onlyCookies {
		for _, st := range groups[f.group] {
			add(st)
		}
	}
	for len(queue) > 0 {
		st := queue[0]
		queue = queue[1:]
		f.known[st.key()] = st
		if !st.zombie {
			members = append(members, st)
		} else if st.ppid == self && st.pid != f.group {
			// An orphan that was handed to us, as happens to the first
			// process of a container: nobody else will reap it.
			syscall.Wait4(st.pid, nil, syscall.WNOHANG, nil)
		}
		if f.onlyCookies {
			continue
		}
		for _, child := range children[st.pid] {
			if child.start >= st.start {
				add(child)
			}
		}
		if st.pgrp == st.pid {
			for _, member := range groups[st.pid] {
				add(member)
			}
		}
	}
	return members
}

func (f *family) isKnown(st procStat) bool {
	_, ok := f.known[st.key()]
	return ok
}

// carries reports whether a process has a cookie of ours. A process without one
// cannot get one later, so each is read once.
func (f *family) carries(st procStat) bool {
	if f.foreign[st.key()] {
		return false
	}
	cookie, known := cookieOf(st.pid)
	if known && f.ours(cookie, st) {
		return true
	}
	if known {
		f.foreign[st.key()] = true
	}
	return false
}

// end asks the members to go, and kills what is left once hurry is closed. It
// returns those that could not be ended, and every one that was there.
func (f *family) end(hurry <-chan struct{}) (left, all []procStat) {
	found := map[procKey]bool{}
	for {
		members := f.scan()
		if len(members) == 0 {
			return nil, all
		}
		var fresh []procStat
		for _, st := range members {
			if !found[st.key()] {
				found[st.key()] = true
				fresh = append(fresh, st)
			}
		}
		all = append(all, fresh...)
		f.signal(fresh, syscall.SIGTERM)
		// A stopped process takes the first signal only when it goes on.
		f.signal(fresh, syscall.SIGCONT)
		if !waitGone(members, hurry) {
			break
		}
	}
	for deadline := time.Now().Add(killWait); ; time.Sleep(pollInterval) {
		left = f.scan()
		if len(left) == 0 || time.Now().After(deadline) {
			return left, all
		}
		for _, st := range left {
			if !found[st.key()] {
				found[st.key()] = true
				all = append(all, st)
			}
		}
		f.signal(left, syscall.SIGKILL)
	}
}

// signal sends to every member, and to the group as a whole, which also reaches
// what was started since the scan.
func (f *family) signal(members []procStat, sig syscall.Signal) {
	if len(members) == 0 {
		return
	}
	if f.group != 0 {
		syscall.Kill(-f.group, sig)
	}
	for _, st := range members {
		if f.group == 0 || st.pgrp != f.group {
			st.signal(sig)
		}
	}
}

// waitGone waits until none of the processes runs; it is false when hurry was
// closed before.
func waitGone(list []procStat, hurry <-chan struct{}) bool {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if !slices.ContainsFunc(list, procStat.running) {
			return true
		}
		select {
		case <-hurry:
			return false
		case <-tick.C:
		}
	}
}
