package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Visible returns foreign text as it may be printed: control characters and
// invisible format characters become visible escapes, so that the text cannot
// move the cursor, set a title, write to the clipboard, or reorder what the
// reader sees. Line feeds and tabs stay.
func Visible(s string) string { return visible(s, "\n\t") }

// VisibleLine is [Visible] for text that must stay on one line: line feeds and
// tabs become spaces.
func VisibleLine(s string) string {
	return visible(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ", "\r", " ").Replace(s), "")
}

func visible(s, keep string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		if keep != "" || !strings.ContainsAny(s, "\n\t") {
			return s
		}
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune(keep, r):
			b.WriteRune(r)
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				fmt.Fprintf(&b, `\x%02x`, s[i])
			} else {
				b.WriteRune(r)
			}
		case !hidden(r) && r != '\n' && r != '\t':
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

// hidden reports whether printing r can change how other text is shown, or
// shows nothing: control characters but line feed and tab, and format
// characters (directional controls, tags, zero-width spaces). The joiners that
// emoji and several scripts need are not hidden, nor are the format characters
// that have a shape of their own.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return true
	case r == '\u2028' || r == '\u2029':
		return true
	case r == '\u200c' || r == '\u200d' || r == '\u00ad':
		return false
	case r >= 0x600 && r <= 0x605 || r == 0x6dd || r == 0x70f || r >= 0x890 && r <= 0x891 || r == 0x8e2 || r == 0x110bd || r == 0x110cd:
		return false
	}
	return unicode.Is(unicode.Cf, r)
}

// visibleJSON makes the encoded document safe to show: JSON escapes for what
// [hidden] finds and the encoder leaves alone. Such characters occur only
// inside strings.
func visibleJSON(doc []byte) []byte {
	s := string(doc)
	if strings.IndexFunc(s, hidden) < 0 {
		return doc
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return []byte(b.String())
}
