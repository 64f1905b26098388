package provider

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"garcon/proto/row"
)

const (
	// maxStderrTail is how much of the end of an agent's stderr is kept, in
	// bytes: a long stack trace.
	maxStderrTail = 16 << 10
	// outputGrace is how long after a process and everything it started have
	// ended its output may still be held open by somebody else, such as a
	// program of another user that it had started.
	outputGrace = 2 * time.Second
)

// outputReader is the parent's end of an output pipe. The pipe ends when its
// last writer closes it, or at the latest when [outputReader.cut] is called:
// what is in the pipe by then can still be read.
type outputReader struct{ f *os.File }

// Read implements io.Reader and closes the pipe at its end.
func (o *outputReader) Read(p []byte) (int, error) {
	n, err := o.f.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.drain(p)
	}
	if err != nil {
		o.f.Close()
		if errors.Is(err, os.ErrClosed) {
			err = io.EOF
		}
	}
	return n, err
}

// drain reads without waiting; an expired deadline makes the ordinary Read fail
// even when there is something to read.
func (o *outputReader) drain(p []byte) (n int, err error) {
	raw, err := o.f.SyscallConn()
	if err != nil {
		return 0, io.EOF
	}
	ctlErr := raw.Control(func(fd uintptr) {
		for {
			n, err = unix.Read(int(fd), p)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if ctlErr != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}

// cut makes a reader that waits for more see the end of the output after d.
func (o *outputReader) cut(d time.Duration) { o.f.SetReadDeadline(time.Now().Add(d)) }

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

// Write implements io.Writer; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	// Moving the end to the front only at twice the size keeps the cost for
	// each byte constant.
	if len(t.buf) > 2*maxStderrTail {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxStderrTail:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the end as storable text. When the start is missing it begins
// with a whole line if there is one.
func (t *tail) String() string {
	t.mu.Lock()
	b, cut := t.buf, t.cut
	if len(b) > maxStderrTail {
		b, cut = b[len(b)-maxStderrTail:], true
	}
	s := string(b)
	t.mu.Unlock()
	if cut {
		if _, rest, ok := strings.Cut(s, "\n"); ok && rest != "" {
			s = rest
		}
	}
	return row.Text(strings.TrimRight(s, "\n"))
}
