package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The guard is a small process beside a runtime: the same executable, started
// as "<executable> __guard". The runtime writes the cookie of every native
// process to its standard input, "+cookie" before the process is started and
// "-cookie" after everything that carried it is gone. When the runtime ends,
// however it ends, the guard reads end of file, ends whatever still carries one
// of the cookies and exits.
const guardArg = "__guard"

const (
	// guardReady is the line with which a guard says that it works.
	guardReady = "ready"
	// guardStartTimeout bounds the wait for that line: a loaded machine takes
	// seconds to start a program.
	guardStartTimeout = 20 * time.Second
	// guardGrace is how long processes of a dead runtime may take to end by
	// themselves.
	guardGrace = time.Second
	// guardRestartInterval keeps a guard that cannot run from being started
	// over and over.
	guardRestartInterval = time.Second
)

// IsGuard reports whether args (those of the process, [os.Args]) ask for the
// guard of a runtime. Every program that calls [NewProcesses], a test binary
// included, must then call [RunGuard] before it does anything else.
func IsGuard(args []string) bool { return len(args) == 2 && args[1] == guardArg }

// RunGuard is the whole of a guard process: it reads cookies from r, which is
// its standard input, ends what carries one at end of file, and returns the
// exit status. Signals that ask it to end are ignored: it ends with its
// runtime. ctx hurries the end of the processes and nothing else.
func RunGuard(ctx context.Context, r io.Reader) int {
	// A signal for the service as a whole (systemd, a terminal) reaches the
	// guard while the runtime still ends its agents in order.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	closeInherited()
	if _, err := fmt.Println(guardReady); err != nil {
		return 1
	}
	os.Stdout.Close()
	if len(guard(ctx, r)) > 0 {
		return 1
	}
	return 0
}

// guard returns the processes that it could not end.
func guard(ctx context.Context, r io.Reader) []procStat {
	cookies := map[string]bool{}
	for lines := NewLineReader(r, 0); ; {
		line, err := lines.Next()
		if err != nil {
			break
		}
		if cookie, ok := strings.CutPrefix(string(line), "+"); ok {
			cookies[cookie] = true
		} else if cookie, ok := strings.CutPrefix(string(line), "-"); ok {
			delete(cookies, cookie)
		}
	}
	if len(cookies) == 0 {
		return nil
	}
	f := family{
		onlyCookies: true,
		ours:        func(cookie string, _ procStat) bool { return cookies[cookie] },
	}
	ctx, cancel := context.WithTimeout(ctx, guardGrace)
	defer cancel()
	left, _ := f.end(ctx.Done())
	return left
}

// guardClient is the runtime's side of its guard. It starts the guard again if
// that dies, and tells it all cookies anew.
type guardClient struct {
	path string
	log  *slog.Logger

	// mu guards the members below.
	mu      sync.Mutex
	cookies map[string]bool
	pipe    io.WriteCloser
	pid     int
	closing bool

	closed chan struct{} // closed when closing is set
	done   chan struct{} // closed when the last guard is gone
}

func startGuard(path string, log *slog.Logger) (*guardClient, error) {
	g := &guardClient{
		path: path, log: log, cookies: map[string]bool{},
		closed: make(chan struct{}), done: make(chan struct{}),
	}
	cmd, err := g.launch()
	if err != nil {
		return nil, err
	}
	go g.serve(cmd)
	return g, nil
}

// launch starts one guard and tells it the cookies of now.
func (g *guardClient) launch() (*osexec.Cmd, error) {
	// The argument list is what IsGuard looks for.
	cmd := &osexec.Cmd{
		Path: g.path, Args: []string{"garcon", guardArg}, Dir: "/",
		// One thread is enough, and nothing of ours is the guard's business.
		// A build with the race detector would wait for a second at its exit.
		Env:         []string{envGuard + "=1", "GOMAXPROCS=1", "GORACE=atexit_sleep_ms=0"},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start guard %s: %w", g.path, err)
	}
	if f, ok := stdout.(*os.File); ok {
		f.SetReadDeadline(time.Now().Add(guardStartTimeout))
	}
	line, err := bufio.NewReader(io.LimitReader(stdout, int64(len(guardReady)+1))).ReadString('\n')
	if strings.TrimSpace(line) != guardReady {
		cmd.Process.Kill()
		cmd.Wait()
		return nil, fmt.Errorf("guard %s does not answer: %w", g.path, errors.Join(err, errGuardAnswer))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pipe, g.pid = stdin, cmd.Process.Pid
	for cookie := range g.cookies {
		g.tellLocked("+", cookie)
	}
	if g.closing {
		stdin.Close()
	}
	return cmd, nil
}

var errGuardAnswer = errors.New("the program does not act as a guard when it is asked to")

func (g *guardClient) serve(cmd *osexec.Cmd) {
	defer close(g.done)
	for {
		err := cmd.Wait()
		g.mu.Lock()
		closing := g.closing
		g.mu.Unlock()
		if closing {
			return
		}
		g.log.Warn("guard process ended, starting another", "err", err)
		for {
			if cmd, err = g.launch(); err == nil {
				break
			}
			g.log.Error("guard process cannot be started", "err", err)
			select {
			case <-time.After(guardRestartInterval):
			case <-g.closed:
				return
			}
		}
	}
}

func (g *guardClient) add(cookie string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cookies[cookie] = true
	g.tellLocked("+", cookie)
}

func (g *guardClient) remove(cookie string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.cookies, cookie)
	g.tellLocked("-", cookie)
}

// tellLocked writes one line. A guard that no longer reads has ended; serve
// starts the next one and tells it everything.
func (g *guardClient) tellLocked(sign, cookie string) {
	io.WriteString(g.pipe, sign+cookie+"\n")
}

// close ends the guard and waits for it until ctx ends.
func (g *guardClient) close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closing {
		g.closing = true
		close(g.closed)
		g.pipe.Close()
	}
	g.mu.Unlock()
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("guard process: %w", ctx.Err())
	}
}
