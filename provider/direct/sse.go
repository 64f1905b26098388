package direct

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxEventBytes bounds one line and the data of one event. A model that
	// answers without deltas sends its whole answer, pictures included, in one
	// line; anything larger is not an answer.
	maxEventBytes = 64 << 20
	// readSize is how much is asked of the connection at once.
	readSize = 32 << 10
	// keepLine is how large a line buffer may be to be kept for the next line.
	keepLine = 1 << 20
	// maxEmptyReads is how often a reader may give nothing and no error.
	maxEmptyReads = 100
)

var errEventTooLarge = fmt.Errorf("an event of the stream is over %d MB", maxEventBytes>>20)

// event is one server-sent event.
type event struct {
	// name is the value of the "event" field, often empty.
	name string
	// data is the joined data lines. It is valid until the next event is read.
	data []byte
	// torn marks an event that the end of the stream cut off: its blank line
	// is missing, so it may be whole or not.
	torn bool
}

// eventReader reads server-sent events as the HTML standard defines them: line
// ends CR, LF and CRLF, an optional byte order mark, comments, data in several
// lines. Unlike a browser it also gives an event that lacks its blank line at
// the end of the stream, marked as torn.
//
// An event is given as soon as its last byte has been read: a CR is taken as a
// line end at once and a LF behind it ignored later.
type eventReader struct {
	src  io.Reader
	max  int
	buf  []byte
	pos  int
	end  int
	err  error
	line []byte
	// begun says that a byte order mark can no longer come.
	begun bool
	// afterCR says that a LF at the current position ends no line.
	afterCR bool
	data    []byte
}

func newEventReader(src io.Reader) *eventReader {
	return &eventReader{src: src, max: maxEventBytes, buf: make([]byte, readSize)}
}

// next returns the next event, [io.EOF] after the last one.
func (r *eventReader) next() (event, error) {
	if cap(r.data) > keepLine {
		r.data = nil
	}
	r.data = r.data[:0]
	var e event
	hasData := false
	for {
		line, err := r.readLine()
		if err != nil {
			if errors.Is(err, io.EOF) && hasData {
				e.data, e.torn = r.data, true
				return e, nil
			}
			return event{}, err
		}
		if len(line) == 0 {
			if hasData {
				e.data = r.data
				return e, nil
			}
			// An event without data is none.
			e = event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		// A comment is a line with an empty field name. "id" and "retry" are
		// for reconnecting, which a POST cannot do.
		switch string(field) {
		case "event":
			e.name = string(value)
		case "data":
			if hasData {
				r.data = append(r.data, '\n')
			}
			if len(r.data)+len(value) > r.max {
				return event{}, errEventTooLarge
			}
			r.data = append(r.data, value...)
			hasData = true
		}
	}
}

// readLine returns the next line without its end. The last line may lack one.
// The line is valid until the next call.
func (r *eventReader) readLine() ([]byte, error) {
	if cap(r.line) > keepLine {
		r.line = nil
	}
	r.line = r.line[:0]
	for {
		if r.pos == r.end {
			if err := r.fill(); err != nil {
				if errors.Is(err, io.EOF) && len(r.line) > 0 {
					return r.strip(r.line), nil
				}
				return nil, err
			}
		}
		if r.afterCR {
			r.afterCR = false
			if r.buf[r.pos] == '\n' {
				r.pos++
				continue
			}
		}
		window := r.buf[r.pos:r.end]
		i := bytes.IndexAny(window, "\r\n")
		if i < 0 {
			i = len(window)
			r.pos = r.end
		} else {
			r.afterCR = window[i] == '\r'
			r.pos += i + 1
		}
		if len(r.line)+i > r.max {
			return nil, errEventTooLarge
		}
		r.line = append(r.line, window[:i]...)
		if i < len(window) {
			return r.strip(r.line), nil
		}
	}
}

// strip removes a byte order mark from the first line.
func (r *eventReader) strip(line []byte) []byte {
	if r.begun {
		return line
	}
	r.begun = true
	return bytes.TrimPrefix(line, []byte("\ufeff"))
}

func (r *eventReader) fill() error {
	for range maxEmptyReads {
		if r.err != nil {
			return r.err
		}
		var n int
		n, r.err = r.src.Read(r.buf)
		r.pos, r.end = 0, n
		if n > 0 {
			return nil
		}
	}
	if r.err == nil {
		r.err = io.ErrNoProgress
	}
	return r.err
}
