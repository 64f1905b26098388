package direct

import (
	"strconv"
	"strings"
	"unicode"

	"garcon/proto/exec"
	"garcon/proto/row"
)

const (
	// maxAnswer bounds all the text of one answer, in bytes. Models stop far
	// below a megabyte; a server that does not stop must not fill the memory.
	maxAnswer = 64 << 20
	// maxLive bounds one live update, in bytes: servers without deltas give the
	// whole answer at once, and an update travels in one message.
	maxLive = 64 << 10
)

// sink takes what a decoder finds.
type sink interface {
	// add takes more of the answer or, with [row.KindReasoning], of the
	// reasoning. Texts of one kind with different keys are different parts.
	add(kind row.Kind, key, text string) *failure
	// shown reports whether anything has been shown to the user.
	shown() bool
	// reset forgets what an attempt that failed has given, when nothing was
	// shown.
	reset()
}

// publisher is what of [provider.Run] an output needs.
type publisher interface {
	ID() string
	Rows(...row.Row)
	Live(row.Live)
}

// output publishes an answer: live parts while it grows, and a row for each
// part that is complete. It is used by one goroutine.
type output struct {
	run publisher
	// kind and key are those of the open part; kind is empty when none is.
	kind row.Kind
	key  string
	part string
	text strings.Builder
	// parts counts the parts so far, for their ids; total is the text of all.
	parts int
	total int
	// blank is blank space of blankKind that begins a part only when text of
	// that kind follows.
	blank     string
	blankKind row.Kind
	// answered says that a part of the answer was begun.
	answered bool
	// waiting holds the last part of the answer that is complete and the
	// reasoning behind it, until it is known whether it is the final one.
	waiting []row.Row
}

func (o *output) shown() bool { return o.parts > 0 }

func (o *output) reset() { o.blank, o.total = "", 0 }

func (o *output) add(kind row.Kind, key, text string) *failure {
	if text == "" {
		return nil
	}
	if o.total += len(text); o.total > maxAnswer {
		return tooLong()
	}
	if o.kind != "" && (kind != o.kind || key != o.key) {
		o.close(false)
	}
	if o.kind == "" {
		if text = o.open(kind, key, text); text == "" {
			return nil
		}
	}
	o.live(row.Text(text))
	return nil
}

func tooLong() *failure {
	return fatal(exec.Errorf(exec.CodeModelError, "The answer is larger than %d MB.", maxAnswer>>20).
		WithHint("Ask for less at once, or choose another model.").WithDispatched(exec.WasDispatched))
}

// open begins a part, unless there is only blank space so far, which servers
// send around reasoning. It returns the text to begin with.
func (o *output) open(kind row.Kind, key, text string) string {
	if kind != o.blankKind || key != o.key || len(o.blank) > maxHeld {
		o.blank = ""
	}
	o.blankKind, o.key = kind, key
	text = o.blank + text
	o.blank = ""
	if strings.TrimFunc(text, unicode.IsSpace) == "" {
		o.blank = text
		return ""
	}
	o.parts++
	o.kind, o.part = kind, "p"+strconv.Itoa(o.parts)
	o.answered = o.answered || kind == row.KindAssistant
	// Leading spaces may be the indentation of code; leading lines are nothing.
	return strings.TrimLeft(text, "\r\n")
}

func (o *output) live(text string) {
	for text != "" {
		offset := o.text.Len()
		piece := row.Prefix(text, maxLive)
		text = text[len(piece):]
		o.text.WriteString(piece)
		// What is behind the limit of a row is not kept either.
		if offset < row.MaxBytes {
			o.run.Live(row.Live{RunID: o.run.ID(), PartID: o.part, Kind: o.kind, Offset: offset, Text: piece})
		}
	}
}

// close ends the open part.
func (o *output) close(partial bool) {
	if o.kind == "" {
		return
	}
	text := o.text.String()
	o.text.Reset()
	r := row.Row{Head: row.Head{PartID: o.part}}
	if o.kind == row.KindReasoning {
		r.Body = &row.Reasoning{Text: text, Partial: partial}
	} else {
		// Another part of the answer: the one before is not the final one.
		o.release()
		r.Body = &row.Assistant{Text: text, Partial: partial}
	}
	o.kind = ""
	o.waiting = append(o.waiting, r)
	if _, ok := o.waiting[0].Body.(*row.Reasoning); ok {
		o.release()
	}
}

func (o *output) release() {
	if len(o.waiting) > 0 {
		o.run.Rows(o.waiting...)
		o.waiting = nil
	}
}

// finish ends the answer. A complete one has a final part; of any other the
// open part is partial.
func (o *output) finish(complete bool) {
	o.close(!complete)
	if complete && len(o.waiting) > 0 {
		if a, ok := o.waiting[0].Body.(*row.Assistant); ok {
			a.Final = true
		}
	}
	o.release()
}

// collector keeps the answer and shows nothing.
type collector struct {
	text  strings.Builder
	key   string
	total int
}

func (c *collector) shown() bool { return false }

func (c *collector) reset() { *c = collector{} }

func (c *collector) add(kind row.Kind, key, text string) *failure {
	if c.total += len(text); c.total > maxAnswer {
		return tooLong()
	}
	if kind != row.KindAssistant {
		return nil
	}
	if key != c.key && c.text.Len() > 0 {
		c.text.WriteString("\n\n")
	}
	c.key = key
	c.text.WriteString(row.Text(text))
	return nil
}

func (c *collector) answer() string { return strings.TrimSpace(c.text.String()) }
