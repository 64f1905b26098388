package direct

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// readEvents returns the events of a stream as "name|data", with a "~" behind
// torn ones.
func readEvents(r *eventReader) ([]string, error) {
	var out []string
	for {
		e, err := r.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return out, err
		}
		s := e.name + "|" + string(e.data)
		if e.torn {
			s += "~"
		}
		out = append(out, s)
	}
}

func TestEventReader(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"one", "data: a\n\n", []string{"|a"}},
		{"named", "event: x\ndata: a\n\ndata: b\n\n", []string{"x|a", "|b"}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"x|a", "|b"}},
		{"CR", "event: x\rdata: a\r\rdata: b\r\r", []string{"x|a", "|b"}},
		{"mixed", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\n", []string{"|a\nb\nc", "|d"}},
		{"byte order mark", "\ufeffdata: a\n\n", []string{"|a"}},
		{"mark only at the start", "data: a\n\n\ufeffdata: b\n\n", []string{"|a"}},
		{"comments", ": hi\n\n:\ndata: a\n: x\ndata: b\n\n", []string{"|a\nb"}},
		{"no space", "data:a\n\n", []string{"|a"}},
		{"one space goes", "data:  a\n\n", []string{"| a"}},
		{"no colon", "data\n\n", []string{"|"}},
		{"empty data", "data:\n\n", []string{"|"}},
		{"two empty lines of data", "data\ndata\n\n", []string{"|\n"}},
		{"name without data is dropped", "event: x\n\ndata: a\n\n", []string{"|a"}},
		{"other fields", "id: 7\nretry: 10\nfoo: bar\ndata: a\n\n", []string{"|a"}},
		{"colons in data", "data: {\"a\":\"b: c\"}\n\n", []string{`|{"a":"b: c"}`}},
		{"torn", "data: a\n\ndata: b", []string{"|a", "|b~"}},
		{"torn behind the line end", "data: b\n", []string{"|b~"}},
		{"torn name only", "data: a\n\nevent: x", []string{"|a"}},
		{"many blank lines", "\n\n\n\ndata: a\n\n\n\n", []string{"|a"}},
		{"empty", "", nil},
		{"only a mark", "\ufeff", nil},
		{"half a mark", "\xef\xbbdata: a\n\n", nil},
		{"UTF-8", "data: 世界\n\n", []string{"|世界"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for kind, r := range map[string]io.Reader{
				"whole":         strings.NewReader(tt.in),
				"bytes":         iotest.OneByteReader(strings.NewReader(tt.in)),
				"data with EOF": iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := readEvents(newEventReader(r))
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

// An event must not wait for the byte that would tell CR from CRLF.
func TestEventsAreGivenAtTheirLastByte(t *testing.T) {
	for _, in := range []string{"data: a\r\r", "data: a\n\n", "data: a\r\n\r"} {
		pr, pw := io.Pipe()
		go func() { _, _ = io.WriteString(pw, in) }()
		e, err := newEventReader(pr).next()
		if err != nil || string(e.data) != "a" || e.torn {
			t.Errorf("%q: %q, %v", in, e.data, err)
		}
		_ = pw.Close()
	}
}

func TestEventReaderFails(t *testing.T) {
	broken := errors.New("broken")
	got, err := readEvents(newEventReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))))
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = readEvents(newEventReader(emptyReader{}))
	if !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing ended with %v", err)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestEventLimits(t *testing.T) {
	const limit = 100
	line := func(n int) string { return "data: " + strings.Repeat("x", n-len("data: ")) + "\n" }
	for _, tt := range []struct {
		in   string
		fail bool
	}{
		{line(limit) + "\n", false},
		{line(limit+1) + "\n", true},
		{line(limit + 1)[:limit+1], true},
		// Two lines of data with the line end between them.
		{line(6+50) + line(6+49) + "\n", false},
		{line(6+51) + line(6+50) + "\n", true},
		{":" + strings.Repeat("x", limit) + "\n\n", true},
	} {
		r := newEventReader(strings.NewReader(tt.in))
		r.max = limit
		_, err := readEvents(r)
		if tt.fail != errors.Is(err, errEventTooLarge) {
			t.Errorf("%d bytes: %v, want a failure: %v", len(tt.in), err, tt.fail)
		}
	}
	// The true limit, once.
	var big bytes.Buffer
	fmt.Fprintf(&big, "data: %s\n\n", bytes.Repeat([]byte{'x'}, maxEventBytes-len("data: ")))
	r := newEventReader(&big)
	if e, err := r.next(); err != nil || len(e.data) != maxEventBytes-6 {
		t.Errorf("at the limit: %d bytes, %v", len(e.data), err)
	}
	if _, err := r.next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if cap(r.data) > keepLine || cap(r.line) > keepLine {
		t.Errorf("%d and %d bytes are kept", cap(r.data), cap(r.line))
	}
}

// simpleEvents is the standard's algorithm over a whole text.
func simpleEvents(in string) []string {
	in = strings.TrimPrefix(in, "\ufeff")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var out, data []string
	name := ""
	lines := strings.Split(in, "\n")
	tail := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	if tail != "" {
		lines = append(lines, tail)
	}
	for _, line := range lines {
		if line == "" {
			if data != nil {
				out = append(out, name+"|"+strings.Join(data, "\n"))
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data = append(data, value)
		}
	}
	if data != nil {
		out = append(out, name+"|"+strings.Join(data, "\n")+"~")
	}
	return out
}

func FuzzEventReader(f *testing.F) {
	for _, s := range []string{
		"", "data: a\n\n", "event: x\r\ndata: a\r\n\r\n", "\ufeffdata: a\r\rdata: b", ": c\n\ndata\ndata:\n\n", "a\x00b: c\n",
		"data: {\"x\":\"\xff\"}\n\r\n\r",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := readEvents(newEventReader(strings.NewReader(in)))
		if err != nil {
			t.Fatal(err)
		}
		bytewise, err := readEvents(newEventReader(iotest.OneByteReader(strings.NewReader(in))))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, bytewise); diff != "" {
			t.Errorf("whole and byte by byte differ:\n%s", diff)
		}
		if diff := cmp.Diff(simpleEvents(in), whole); diff != "" {
			t.Errorf("not what the standard says (-want +got):\n%s", diff)
		}
	})
}
