package direct

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"garcon/proto/exec"
	"garcon/proto/row"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// outcome is what one streamed answer gave.
type outcome struct {
	Rows  []string
	Usage *row.Usage `json:",omitempty"`
	Stop  stop       `json:",omitempty"`
	Error string     `json:",omitempty"`
}

// decodeAll runs a decoder over a stream.
func decodeAll(c codec, stream io.Reader) (outcome, *recorder) {
	rec := newRecorder()
	out := &output{run: rec}
	cl := &client{codec: c, log: slog.New(slog.DiscardHandler), memory: &memory{}}
	body := &idleReader{src: stream, limit: time.Hour, expired: func() {}}
	ep := exec.Endpoint{Label: "Lab"}
	end, f := cl.decodeStream(body, body, call{
		endpoint: ep, sink: out, notice: func(n row.Notice) { rec.Rows(row.Row{Body: &n}) },
	})
	got := outcome{Usage: end.usage, Stop: end.stop}
	if f != nil && f.err == nil {
		f = judge(ep, "m1", *f.api, nil, time.Now())
	}
	if f != nil {
		got.Error = string(f.err.Code) + ": " + f.err.Message
	}
	out.finish(f == nil && end.stop == stopEnd)
	got.Rows = rec.briefs()
	return got, rec
}

func codecOf(t testing.TB, file string) codec {
	t.Helper()
	switch name, _, _ := strings.Cut(filepath.Base(file), "-"); name {
	case "chat":
		return chatCodec{}
	case "responses":
		return responsesCodec{}
	case "anthropic":
		return anthropicCodec{}
	}
	t.Fatalf("no protocol for %s", file)
	return nil
}

func streams(t testing.TB, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "streams", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams %s: %v", pattern, err)
	}
	return files
}

func TestStreamsOfVendors(t *testing.T) {
	for _, file := range streams(t, "*.sse") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := decodeAll(codecOf(t, file), bytes.NewReader(data))
			golden := strings.TrimSuffix(file, ".sse") + ".json"
			if *update {
				text, err := json.MarshalIndent(got, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			var want outcome
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			bytewise, _ := decodeAll(codecOf(t, file), iotest.OneByteReader(bytes.NewReader(data)))
			if diff := cmp.Diff(want, bytewise); diff != "" {
				t.Errorf("byte by byte (-want +got):\n%s", diff)
			}
			// However early a stream ends, the text so far stays, and only a
			// complete answer has a final part.
			for n := range data {
				cut, _ := decodeAll(codecOf(t, file), bytes.NewReader(data[:n]))
				if cut.Error == "" && got.Error != "" || cut.Error == "" && strings.Join(cut.Rows, "\n") != strings.Join(got.Rows, "\n") {
					t.Fatalf("cut after %d bytes it is complete with %q", n, cut.Rows)
				}
				if final := strings.Contains(strings.Join(cut.Rows, "\n"), " final"); final != (cut.Error == "") {
					t.Fatalf("cut after %d bytes: %q with error %q", n, cut.Rows, cut.Error)
				}
			}
		})
	}
}

func fuzzStream(f *testing.F, c codec, pattern string) {
	for _, file := range streams(f, pattern) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, rec := decodeAll(c, bytes.NewReader(data))
		bytewise, _ := decodeAll(c, iotest.OneByteReader(bytes.NewReader(data)))
		if diff := cmp.Diff(got, bytewise); diff != "" {
			t.Errorf("whole and byte by byte differ:\n%s", diff)
		}
		for _, r := range rec.rows {
			if s := textOfRow(r); !utf8.ValidString(s) || strings.Contains(s, "\x00") {
				t.Errorf("row text %q", s)
			}
		}
		rec.terminal = &exec.Terminal{}
		close(rec.done)
		rec.wait(t)
		// As a whole answer it may be anything, too.
		sink := &collector{}
		_, _ = c.whole(data, sink)
	})
}

func FuzzChat(f *testing.F)      { fuzzStream(f, chatCodec{}, "chat-*.sse") }
func FuzzResponses(f *testing.F) { fuzzStream(f, responsesCodec{}, "responses-*.sse") }
func FuzzAnthropic(f *testing.F) { fuzzStream(f, anthropicCodec{}, "anthropic-*.sse") }
