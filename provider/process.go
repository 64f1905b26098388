package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"sync"
	"syscall"
	"time"

	"garcon/proto/exec"
)

// leftoverGrace is how long what a process left running may take to end by
// itself once the process has exited on its own.
const leftoverGrace = 2 * time.Second

// Process is one native process with everything it starts. Its methods are safe
// for concurrent use.
type Process struct {
	set    *Processes
	name   string
	cookie string
	cmd    *osexec.Cmd

	stdin  *os.File
	stdout *outputReader
	stderr *outputReader
	tail   tail

	stopping  chan struct{} // closed by the first Stop
	stopOnce  sync.Once
	hurry     chan struct{} // closed when what is left is to be killed
	hurryOnce sync.Once
	done      chan struct{}

	// exit and stuck are written before done is closed.
	exit  Exit
	stuck []procStat
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit status, -1 when a signal ended the process.
	Code int
	// Signal ended the process; 0 when it exited by itself.
	Signal syscall.Signal
	// Err is set when how it ended could not be learned.
	Err error
}

// String says in words how a process ended.
func (e Exit) String() string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Signal != 0:
		return fmt.Sprintf("killed by signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// newProcess makes the pipes. The ends in childEnds are for the child alone.
func newProcess(set *Processes, name, cookie string, cmd *osexec.Cmd) (p *Process, childEnds []*os.File, err error) {
	var files [6]*os.File
	for i := 0; i < len(files); i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			closeAll(files[:i])
			return nil, nil, err
		}
	}
	// Files instead of readers and writers: Wait then waits for the process
	// only, and not for whoever inherited its output.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[3], files[5]
	p = &Process{
		set: set, name: name, cookie: cookie, cmd: cmd,
		stdin: files[1], stdout: &outputReader{files[2]}, stderr: &outputReader{files[4]},
		stopping: make(chan struct{}), hurry: make(chan struct{}), done: make(chan struct{}),
	}
	return p, []*os.File{files[0], files[3], files[5]}, nil
}

func (p *Process) ownEnds() []*os.File { return []*os.File{p.stdin, p.stdout.f, p.stderr.f} }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// begin starts the goroutines of a process that runs. They end with it, and
// done is closed after the last.
func (p *Process) begin() {
	stderrDone := make(chan struct{})
	go func() {
		defer close(stderrDone)
		io.Copy(&p.tail, p.stderr)
	}()
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		waitExited(p.PID())
	}()
	go p.supervise(exited, stderrDone)
}

// supervise owns the end of the process: it waits for the exit or for Stop,
// ends the family, and reaps the root last, so that the id of its group stays
// ours until nothing needs it.
func (p *Process) supervise(exited, stderrDone <-chan struct{}) {
	select {
	case <-exited:
		timer := time.AfterFunc(leftoverGrace, p.hurryUp)
		defer timer.Stop()
	case <-p.stopping:
	}
	f := family{group: p.PID(), ours: func(cookie string, _ procStat) bool { return cookie == p.cookie }}
	p.stuck, _ = f.end(p.hurry)
	for _, st := range p.stuck {
		p.set.opts.Log.Error("a process of an agent cannot be ended", "pid", st.pid, "command", st.name)
	}
	<-exited
	p.exit = exitOf(p.cmd.Wait(), p.cmd.ProcessState)
	p.stdin.Close()
	p.stdout.cut(outputGrace)
	p.stderr.cut(outputGrace)
	<-stderrDone
	p.set.forget(p)
	close(p.done)
}

func exitOf(err error, state *os.ProcessState) Exit {
	if state == nil {
		return Exit{Code: -1, Err: err}
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit{Code: -1, Signal: ws.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

func (p *Process) hurryUp() { p.hurryOnce.Do(func() { close(p.hurry) }) }

// PID returns the process id, which is also the id of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stdin writes to the process. Writing blocks while the process does not read
// and fails once it has ended. Closing it after that is no failure: the end of
// the process closes it too.
func (p *Process) Stdin() io.WriteCloser { return stdinWriter{p.stdin} }

type stdinWriter struct{ *os.File }

func (w stdinWriter) Close() error {
	if err := w.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Stdout reads what the process writes; it is for one goroutine, which should
// read to the end. It ends when the process and all it started have ended, at
// the latest two seconds after [Process.Done].
func (p *Process) Stdout() io.Reader { return p.stdout }

// StderrTail returns the end of what the process wrote to its stderr, at most
// 16 KiB of valid UTF-8.
func (p *Process) StderrTail() string { return p.tail.String() }

// Done is closed when the process has ended, everything it had started is gone
// too, and nothing is left to reap.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended. It is valid once Done is closed.
func (p *Process) Exit() Exit {
	<-p.done
	return p.exit
}

// Failure returns how the process ended as the error of a run, with the end of
// its stderr. It waits for Done.
func (p *Process) Failure() *exec.Error {
	e := p.Exit()
	failure := exec.Errorf(exec.CodeAgentCrashed, "%s ended in the middle of its work: %s", p.name, e)
	if e.Signal != 0 {
		failure = exec.Errorf(exec.CodeAgentKilled, "%s was %s", p.name, e)
	}
	return failure.WithDispatched(exec.WasDispatched).WithDetail(p.StderrTail()).
		WithHint("Send the message again; the conversation so far is kept.")
}

// Stop asks the process, its group and its descendants to end (SIGTERM) and
// kills what is left after grace or when ctx ends. It returns when all of them
// are gone, with an error when that is not so a little after the kill. Calling
// it again can only make it faster.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	p.stopOnce.Do(func() { close(p.stopping) })
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.stopped()
	case <-timer.C:
	case <-ctx.Done():
	}
	p.hurryUp()
	// The kill, the reaping and the last output are bounded by themselves.
	timer.Reset(2*killWait + outputGrace)
	select {
	case <-p.done:
		return p.stopped()
	case <-timer.C:
		return fmt.Errorf("%s (process %d) does not end", p.name, p.PID())
	}
}

func (p *Process) stopped() error {
	if len(p.stuck) == 0 {
		return nil
	}
	return fmt.Errorf("%s left process %d (%s) running, which cannot be ended", p.name, p.stuck[0].pid, p.stuck[0].name)
}
