package direct

import "strings"

// thinkSplitter separates reasoning that a model writes into its answer as
// <think>…</think>. Only a tag at the very start counts: later it is text the
// model talks about. Tags may be cut anywhere between two calls.
type thinkSplitter struct {
	state thinkState
	// held is what may be the start of a tag, or blank space around one.
	held string
}

type thinkState int

const (
	// thinkStart: nothing but blank space so far.
	thinkStart thinkState = iota
	// thinkOpen: directly behind the opening tag.
	thinkOpen
	// thinkInside: in the reasoning.
	thinkInside
	// thinkClosed: directly behind the closing tag.
	thinkClosed
	// thinkDone: in the answer, for good.
	thinkDone
)

const (
	openTag  = "<think>"
	closeTag = "</think>"
	blank    = " \t\r\n"
	// maxHeld bounds the blank space that may come before a tag, in bytes.
	maxHeld = 1 << 10
)

// add takes the next piece of content. emit gets what is certain, reasoning
// or not, in order.
func (t *thinkSplitter) add(s string, emit func(reasoning bool, text string)) {
	s = t.held + s
	t.held = ""
	for s != "" {
		switch t.state {
		case thinkStart:
			tag := strings.TrimLeft(s, blank)
			near := len(s)-len(tag) <= maxHeld
			switch {
			case near && strings.HasPrefix(tag, openTag):
				s, t.state = tag[len(openTag):], thinkOpen
			case near && strings.HasPrefix(openTag, tag):
				t.held = s
				return
			default:
				t.state = thinkDone
			}
		case thinkOpen, thinkClosed:
			// Models put line breaks around the tags.
			if s = strings.TrimLeft(s, blank); s == "" {
				return
			}
			t.state++
		case thinkInside:
			s = t.inside(s, emit)
		case thinkDone:
			emit(false, s)
			return
		}
	}
}

// inside handles reasoning and returns what follows it.
func (t *thinkSplitter) inside(s string, emit func(bool, string)) string {
	if text, rest, ok := strings.Cut(s, closeTag); ok {
		if text != "" {
			emit(true, text)
		}
		t.state = thinkClosed
		return rest
	}
	n := tagStart(s, closeTag)
	if n > 0 {
		emit(true, s[:n])
	}
	t.held = s[n:]
	return ""
}

// tagStart returns where the longest beginning of tag at the end of s begins.
func tagStart(s, tag string) int {
	for n := min(len(tag)-1, len(s)); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return len(s) - n
		}
	}
	return len(s)
}

// flush gives what was held back when the content has ended.
func (t *thinkSplitter) flush(emit func(reasoning bool, text string)) {
	if t.held != "" {
		emit(t.state == thinkInside, t.held)
		t.held = ""
	}
}
