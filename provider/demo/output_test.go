package demo

import (
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestReadTextKeepsRunes(t *testing.T) {
	const text = "a é 漢字 👩‍👩‍👧 end"
	for name, in := range map[string]string{"valid": text, "invalid": "x\xff\xfey\x00z" + text, "cut off": text + "\xe6\xbc"} {
		var parts []string
		readText(iotest.OneByteReader(strings.NewReader(in)), func(s string) {
			if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				t.Errorf("%s: %q is not storable", name, s)
			}
			parts = append(parts, s)
		})
		var whole []string
		readText(strings.NewReader(in), func(s string) { whole = append(whole, s) })
		if got := strings.Join(parts, ""); !strings.Contains(got, text) {
			t.Errorf("%s: read byte by byte it is %q", name, got)
		}
		if got := strings.Join(whole, ""); !strings.Contains(got, text) {
			t.Errorf("%s: read at once it is %q", name, got)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	var o output
	offset := 0
	for range 100 {
		kept, at := o.add(strings.Repeat("é", 5000))
		if at != offset {
			t.Fatalf("offset %d, want %d", at, offset)
		}
		offset += len(kept)
	}
	r := o.result()
	if len(r.Output) > maxOutput || !r.Truncated || r.FullSize != 1_000_000 || !utf8.ValidString(r.Output) {
		t.Errorf("%d bytes, truncated %v of %d", len(r.Output), r.Truncated, r.FullSize)
	}
}

func TestChunks(t *testing.T) {
	for _, text := range []string{"", "short", sampleMarkdown, strings.Repeat("漢", 1000), strings.Repeat("word ", 1000), strings.Repeat("x", 1000)} {
		rest := text
		for rest != "" {
			chunk := nextChunk(rest, chunkBytes)
			if chunk == "" || !strings.HasPrefix(rest, chunk) || !utf8.ValidString(chunk) || len(chunk) > 2*chunkBytes+1 {
				t.Fatalf("chunk %q of %.60q", chunk, rest)
			}
			rest = rest[len(chunk):]
		}
	}
}
