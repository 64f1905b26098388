package claude

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garcon/proto/row"
)

// maxSeed bounds seeds in bytes: with larger ones the fuzzer does nothing but
// make them smaller.
const maxSeed = 4 << 10

// FuzzLines feeds any bytes to the parser as the output of the CLI: they must
// neither stop it nor make rows that cannot be stored.
func FuzzLines(f *testing.F) {
	files, err := filepath.Glob("testdata/captures/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, path := range files {
		var b bytes.Buffer
		for _, c := range readCapture(f, path) {
			if c.Dir == "out" && b.Len()+len(c.M) < maxSeed {
				b.Write(c.M)
				b.WriteByte('\n')
			}
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &transcript{b: &strings.Builder{}, t: t, live: map[string]string{}}
		s := newScribe("/p", w)
		s.begin(w)
		for line := range bytes.Lines(data) {
			e, err := parseLine(bytes.TrimSuffix(line, []byte("\n")))
			switch {
			case err != nil:
				s.garbage(err)
			case e.Type == "result":
				s.endTurn(e)
			case e.Type == "control_request":
				var l struct {
					Request toolRequest `json:"request"`
				}
				if decode(e.data, &l) == nil {
					if _, err := s.newAsk("id", l.Request).row.Clean().Encode(); err != nil {
						t.Error(err)
					}
				}
			default:
				s.line(e)
			}
		}
		s.endRun(row.RunInterrupted)
		s.endProcess()
	})
}

// FuzzHistory reads any bytes as a session file.
func FuzzHistory(f *testing.F) {
	files, err := filepath.Glob("testdata/native/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		for line := range bytes.Lines(data) {
			if b.Len()+len(line) < maxSeed {
				b.Write(line)
			}
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "s.jsonl")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := &historyReader{dir: t.TempDir(), mapper: newMapper("/p"), seen: map[string]bool{}}
		if err := r.open(context.Background(), path, ""); err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		lines := bytes.Count(data, []byte("\n")) + 1
		for range lines + 2 {
			batch, err := r.Next(context.Background())
			if errors.Is(err, io.EOF) {
				peek(context.Background(), path)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range batch {
				if _, err := b.Clean().Encode(); err != nil {
					t.Error(err)
				}
			}
		}
		t.Errorf("%d lines have no end", lines)
	})
}
