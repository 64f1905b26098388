package provider

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxLine is the longest line a [LineReader] returns unless told
// otherwise, in bytes. Agents put whole files and base64 pictures into one
// line; 15 MiB ones were seen, and the contract asks for no limit below 16 MiB.
const DefaultMaxLine = 64 << 20

const (
	// lineChunk is how much is read at a time.
	lineChunk = 64 << 10
	// keepLine is the largest buffer kept between lines: one huge line must
	// not hold its memory for the life of the process.
	keepLine = 1 << 20
)

// LineTooLongError reports a line that was skipped.
type LineTooLongError struct {
	// Size is the length of the line and Max the limit, in bytes.
	Size int64
	Max  int
}

// Error implements error.
func (e *LineTooLongError) Error() string {
	return fmt.Sprintf("a line of %d bytes is over the limit of %d", e.Size, e.Max)
}

// LineReader splits a stream into lines of any bytes. It is for one goroutine.
type LineReader struct {
	r   *bufio.Reader
	max int
	buf []byte
	err error
}

// NewLineReader returns a reader of lines up to max bytes long; a max of 0
// means [DefaultMaxLine].
func NewLineReader(r io.Reader, max int) *LineReader {
	if max <= 0 {
		max = DefaultMaxLine
	}
	return &LineReader{r: bufio.NewReaderSize(r, lineChunk), max: max}
}

// Next returns the next line without its line feed and a carriage return before
// it. The slice is valid until the next call. A last line without a line feed
// is returned too; after it comes the error of the stream, [io.EOF] at its end.
// A line over the limit is skipped and reported as a [*LineTooLongError];
// reading goes on with the next call.
func (l *LineReader) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	if cap(l.buf) > keepLine {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	var size int64
	for {
		chunk, err := l.r.ReadSlice('\n')
		ended := err == nil
		if ended {
			chunk = chunk[:len(chunk)-1]
		}
		size += int64(len(chunk))
		// One byte more than max is kept, because it may turn out to be the
		// carriage return of a line of exactly max bytes.
		if room := l.max + 1 - len(l.buf); room > 0 {
			l.buf = append(l.buf, chunk[:min(room, len(chunk))]...)
		}
		switch {
		case ended:
			return l.line(size)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		}
		l.err = err
		if size == 0 {
			return nil, err
		}
		return l.line(size)
	}
}

func (l *LineReader) line(size int64) ([]byte, error) {
	if size <= int64(l.max)+1 {
		line := bytes.TrimSuffix(l.buf, []byte{'\r'})
		if len(line) <= l.max {
			return line, nil
		}
	}
	l.buf = nil
	return nil, &LineTooLongError{Size: size, Max: l.max}
}
