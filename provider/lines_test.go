package provider

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readLines(r io.Reader, max int) (lines []string, err error) {
	l := NewLineReader(r, max)
	for {
		line, err := l.Next()
		if tooLong, ok := errors.AsType[*LineTooLongError](err); ok {
			lines = append(lines, tooLong.Error())
			continue
		}
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

func TestLines(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		max  int
		want []string
	}{
		"empty":            {"", 0, nil},
		"one":              {"a\n", 0, []string{"a"}},
		"no line feed":     {"a\nb", 0, []string{"a", "b"}},
		"empty lines":      {"\n\na\n", 0, []string{"", "", "a"}},
		"carriage return":  {"a\r\nb\rc\r\n", 0, []string{"a", "b\rc"}},
		"invalid UTF-8":    {"\xff\xfe\x00\n\x80", 0, []string{"\xff\xfe\x00", "\x80"}},
		"at the limit":     {"1234\n1234\r\n1234", 4, []string{"1234", "1234", "1234"}},
		"over the limit":   {"12345\nok\n", 4, []string{"a line of 5 bytes is over the limit of 4", "ok"}},
		"over by far":      {strings.Repeat("x", 200_000) + "\nok", 4, []string{"a line of 200000 bytes is over the limit of 4", "ok"}},
		"over at the end":  {"ok\n12345", 4, []string{"ok", "a line of 5 bytes is over the limit of 4"}},
		"over with return": {"12345\r\nok", 4, []string{"a line of 6 bytes is over the limit of 4", "ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in)), iotest.DataErrReader(strings.NewReader(tc.in))} {
				got, err := readLines(r, tc.max)
				if err != io.EOF {
					t.Errorf("ends with %v", err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestLinesAfterError(t *testing.T) {
	broken := errors.New("broken")
	got, err := readLines(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)), 0)
	if !errors.Is(err, broken) || !cmp.Equal(got, []string{"a", "half"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestHugeLine(t *testing.T) {
	const size = 15 << 20
	in := io.MultiReader(io.LimitReader(ones{}, size), strings.NewReader("\nshort\n"))
	l := NewLineReader(in, 0)
	line, err := l.Next()
	if err != nil || len(line) != size || !bytes.Equal(line[size-3:], []byte("111")) {
		t.Fatalf("%d bytes, %v", len(line), err)
	}
	if line, err := l.Next(); err != nil || string(line) != "short" {
		t.Fatalf("%q, %v", line, err)
	}
	if cap(l.buf) > keepLine {
		t.Errorf("%d bytes are kept for a short line", cap(l.buf))
	}
}

type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}

// FuzzLines compares the reader with the obvious way to split text in memory.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nlast"), uint8(3))
	f.Add([]byte("\xff\n{\"a\":1}\n"), uint8(200))
	f.Add([]byte("\r\n\r\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, limit uint8) {
		max := int(limit) + 1
		var want []string
		parts := bytes.Split(data, []byte("\n"))
		for i, part := range parts {
			if i == len(parts)-1 && len(part) == 0 {
				break
			}
			if line := bytes.TrimSuffix(part, []byte("\r")); len(line) <= max {
				want = append(want, string(line))
			} else {
				want = append(want, (&LineTooLongError{Size: int64(len(part)), Max: max}).Error())
			}
		}
		for _, r := range []io.Reader{bytes.NewReader(data), iotest.HalfReader(bytes.NewReader(data))} {
			got, err := readLines(r, max)
			if err != io.EOF {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
