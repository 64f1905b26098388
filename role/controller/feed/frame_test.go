package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"garcon/proto/api"
)

func TestClientFramesAreExact(t *testing.T) {
	tests := []struct {
		name, frame string
		ok          bool
	}{
		{"open", `{"type":"open","stream":1,"name":"$events"}`, true},
		{"open with arguments", `{"type":"open","stream":7,"name":"chat.follow","args":{"chatId":"1"}}`, true},
		{"cancel", `{"type":"cancel","stream":1}`, true},
		{"spaces", " {\"type\":\"cancel\",\n\"stream\":1} ", true},
		{"nothing", ``, false},
		{"null", `null`, false},
		{"array", `[]`, false},
		{"text", `"open"`, false},
		{"no type", `{"stream":1}`, false},
		{"unknown type", `{"type":"data","stream":1}`, false},
		{"other case", `{"Type":"cancel","stream":1}`, false},
		{"extra member", `{"type":"cancel","stream":1,"x":1}`, false},
		{"cancel with name", `{"type":"cancel","stream":1,"name":"x"}`, false},
		{"member twice", `{"type":"open","type":"cancel","stream":1}`, false},
		{"no stream", `{"type":"cancel"}`, false},
		{"stream 0", `{"type":"cancel","stream":0}`, false},
		{"negative", `{"type":"cancel","stream":-1}`, false},
		{"fraction", `{"type":"cancel","stream":1.5}`, false},
		{"too large", `{"type":"cancel","stream":4294967296}`, false},
		{"stream as text", `{"type":"cancel","stream":"1"}`, false},
		{"open without name", `{"type":"open","stream":1}`, false},
		{"long name", `{"type":"open","stream":1,"name":"` + strings.Repeat("x", maxName+1) + `"}`, false},
		{"two documents", `{"type":"cancel","stream":1}{}`, false},
		{"rubbish behind", `{"type":"cancel","stream":1}x`, false},
		{"no UTF-8", "{\"type\":\"open\",\"stream\":1,\"name\":\"\xff\"}", false},
		{"largest", `{"type":"open","stream":1,"name":"x","args":"` + strings.Repeat("x", api.MaxFrame-47) + `"}`, true},
		{"one more", `{"type":"open","stream":1,"name":"x","args":"` + strings.Repeat("x", api.MaxFrame-46) + `"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decodeFrame([]byte(tt.frame))
			if (err == nil) != tt.ok {
				t.Errorf("%d bytes: %v, want ok %v", len(tt.frame), err, tt.ok)
			}
			if err != nil && !errors.Is(err, errProtocol) {
				t.Errorf("%v is no protocol error", err)
			}
		})
	}
}

func FuzzDecodeFrame(f *testing.F) {
	for _, s := range []string{
		`{"type":"open","stream":1,"name":"$events"}`, `{"type":"cancel","stream":1}`,
		`{"type":"open","stream":1,"name":"chat.follow","args":{"chatId":"1","maxMessages":5}}`, `{}`, `[`, "\x00", `{"type":"open","stream":1e3,"name":"a"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := decodeFrame(data)
		if err != nil {
			return
		}
		if frame.Stream == 0 || frame.Type != api.FrameOpen && frame.Type != api.FrameCancel || (frame.Name == "") != (frame.Type == api.FrameCancel) {
			t.Fatalf("accepted %q as %+v", data, frame)
		}
		again, err := json.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeFrame(again); err != nil || back.Name != frame.Name {
			t.Fatalf("%q does not survive: %v", again, err)
		}
	})
}

// join takes an item apart as the writer does and puts it together as a client
// does.
func join(t *testing.T, value []byte) []byte {
	t.Helper()
	var out []byte
	for rest := value; ; {
		frame, n := appendPart(nil, 4294967295, rest)
		if len(frame) > api.MaxFrame {
			t.Fatalf("a frame of %d bytes", len(frame))
		}
		var f api.ServerFrame
		if err := json.Unmarshal(frame, &f); err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Text...)
		if rest = rest[n:]; f.Last {
			return out
		}
		if n == 0 || len(rest) == 0 {
			t.Fatalf("a part takes %d bytes and %d are left", n, len(rest))
		}
	}
}

func TestPartsGiveTheItemBack(t *testing.T) {
	for _, piece := range []string{"x", `"`, `\`, "\n\t\x01\x1f\x7f", "é漢😀", `{"a":"b\n"}`} {
		for _, size := range []int{1, itemRoom / 2, itemRoom - 1, itemRoom, itemRoom + 1, 3 * itemRoom} {
			value := bytes.Repeat([]byte(piece), size/len(piece)+1)
			if got := join(t, value); !bytes.Equal(got, value) {
				t.Errorf("%q × %d comes back as %d bytes", piece, size, len(got))
			}
		}
	}
}

func FuzzParts(f *testing.F) {
	f.Add([]byte(`{"type":"snapshot","text":"漢\u0000"}`), 3000)
	f.Fuzz(func(t *testing.T, piece []byte, times int) {
		if !utf8.Valid(piece) || len(piece) == 0 || times < 1 || times*len(piece) > 1<<20 {
			return
		}
		value := bytes.Repeat(piece, times)
		if got := join(t, value); !bytes.Equal(got, value) {
			t.Fatalf("%d bytes come back as %d", len(value), len(got))
		}
	})
}

func TestFollowItemsAreSpliced(t *testing.T) {
	item := api.FollowItem{
		Type: api.ItemRows, Cursor: 3, Ended: []string{"<p>"}, Rows: []json.RawMessage{[]byte(`{"ordinal":2}`), []byte(`{"ordinal":3,"text":"a<b"}`)},
	}
	got, err := encodeFollow(item)
	if err != nil {
		t.Fatal(err)
	}
	var back api.FollowItem
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if len(back.Rows) != 2 || string(back.Rows[1]) != string(item.Rows[1]) || back.Cursor != 3 || back.Ended[0] != "<p>" {
		t.Errorf("%s", got)
	}
}
