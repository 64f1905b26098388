package row

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text returns s as it may be stored: invalid UTF-8 (lone surrogates included)
// and NUL become U+FFFD. ANSI sequences are kept; clients decide how to draw
// them.
func Text(s string) string {
	if !strings.Contains(s, "\x00") && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Cut returns at most max bytes of s, cut between runes. When it cuts, a
// marker that names the true size replaces the end.
func Cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	marker := fmt.Sprintf("\n[… cut here: %d bytes in all]", len(s))
	return Prefix(s, max-len(marker)) + marker
}

// Prefix returns the longest prefix of s of at most max bytes that ends
// between runes.
func Prefix(s string, max int) string {
	if max <= 0 {
		return ""
	}
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// cleaner makes texts storable and spends a common budget on them.
type cleaner struct{ left int }

// escapeFactor allows for JSON escapes: a text of control characters grows six
// times when encoded.
const escapeFactor = 6

// text cleans *s in place. A text is charged by its encoded size, so that the
// sum over a body bounds the row.
func (c *cleaner) text(s *string) {
	if *s == "" {
		return
	}
	*s = Text(*s)
	size := encodedSize(*s)
	if size > c.left {
		// Cutting by raw bytes at the worst factor is always enough, and the
		// loop keeps ordinary text from losing five sixths of its room. The
		// marker's own escapes must not cost a round.
		limit := c.left - markerEscapes
		for {
			cut := Cut(*s, limit)
			if n := encodedSize(cut); n <= c.left || limit <= c.left/escapeFactor {
				*s, size = cut, n
				break
			}
			limit = limit * 3 / 4
		}
	}
	c.left = max(c.left-size, minText)
}

// markerEscapes is what the marker of [Cut] grows by when encoded.
const markerEscapes = 16

// minText is what a text may take when the budget is spent: enough for the
// marker that says so.
const minText = 64

func encodedSize(s string) int {
	n := len(s)
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\' || b == '\n' || b == '\r' || b == '\t':
			n++
		case b < 0x20:
			n += escapeFactor - 1
		case b == 0xE2: // U+2028 and U+2029 are escaped to six bytes from three
			n += 3
		}
	}
	return n
}
