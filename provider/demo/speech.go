package demo

import (
	"bytes"
	_ "embed"
	"fmt"
	"image"
	_ "image/gif" // to look at attached pictures
	_ "image/jpeg"
	_ "image/png"
	"strconv"
	"strings"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

const (
	// chunkBytes is about how much text one live update carries, and
	// maxChunks how many updates a text takes at most.
	chunkBytes = 24
	maxChunks  = 512
	// slowChunk and naturalChunk are the pauses between updates: reading speed,
	// and that of a fast model.
	slowChunk    = 120 * time.Millisecond
	naturalChunk = 15 * time.Millisecond
	// maxSleep, maxBurst and maxLong bound what a prompt can ask for: an hour,
	// a transcript of the largest size that is tested, and one full row.
	maxSleep = time.Hour
	maxBurst = 1_000_000
	maxLong  = 8 << 10 // KiB
	// defaultLong is in KiB.
	defaultLong = 64
)

//go:embed sample.md
var sampleMarkdown string

func (t *turn) pace() time.Duration {
	if t.launch.Settings[settingPace] == paceNatural {
		return naturalChunk
	}
	return 0
}

// speak streams a block of the answer. What has arrived when it is stopped
// becomes a partial row.
func (t *turn) speak(text string, pace time.Duration) error {
	if err := t.flush(false); err != nil {
		return err
	}
	part := t.id("text")
	n, err := t.stream(row.KindAssistant, part, text, pace)
	t.said += int64(n)
	if err != nil {
		return t.cutOff(err, n, row.Row{Head: row.Head{PartID: part}, Body: &row.Assistant{Text: text[:n], Partial: true}})
	}
	t.pending = &row.Row{Head: row.Head{PartID: part}, Body: &row.Assistant{Text: text}}
	if t.child != "" {
		// A child's rows are not the turn's answer.
		return t.flush(false)
	}
	return nil
}

// reason streams a block of reasoning.
func (t *turn) reason(text string, pace time.Duration) error {
	if err := t.flush(false); err != nil {
		return err
	}
	part := t.id("thought")
	n, err := t.stream(row.KindReasoning, part, text, pace)
	t.thought += int64(n)
	body := &row.Reasoning{Text: text[:n], Partial: err != nil}
	if err != nil {
		return t.cutOff(err, n, row.Row{Head: row.Head{PartID: part}, Body: body})
	}
	return t.store(row.Row{Head: row.Head{PartID: part}, Body: body})
}

func (t *turn) cutOff(err error, n int, partial row.Row) error {
	if n > 0 {
		if storeErr := t.store(partial); storeErr != nil {
			return storeErr
		}
	}
	return err
}

// stream publishes text as live updates and returns how much went out.
func (t *turn) stream(kind row.Kind, part, text string, pace time.Duration) (n int, err error) {
	size := max(chunkBytes, len(text)/maxChunks)
	for n < len(text) {
		if err := t.sleepFor(pace); err != nil {
			return n, err
		}
		chunk := nextChunk(text[n:], size)
		t.run.Live(row.Live{PartID: part, Child: t.child, Kind: kind, Offset: n, Text: chunk})
		n += len(chunk)
	}
	return n, nil
}

// nextChunk cuts after the first white space past size bytes, or else between
// runes.
func nextChunk(s string, size int) string {
	if len(s) <= size {
		return s
	}
	if i := strings.IndexAny(s[size:min(len(s), 2*size)], " \n"); i >= 0 {
		return s[:size+i+1]
	}
	if cut := row.Prefix(s, 2*size); cut != "" {
		return cut
	}
	return s
}

// attachments says what came with the prompt.
func (t *turn) attachments() error {
	files := t.launch.Prompt.Attachments
	if len(files) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "I got %d picture%s:\n\n", len(files), plural(len(files)))
	for _, f := range files {
		b.WriteString("* " + describe(f) + "\n")
	}
	return t.speak(b.String(), t.pace())
}

func describe(f exec.AttachmentData) string {
	s := fmt.Sprintf("`%s`, %s, %d bytes", strings.ReplaceAll(row.Text(f.Name), "`", "'"), f.MediaType, len(f.Data))
	if cfg, format, err := image.DecodeConfig(bytes.NewReader(f.Data)); err == nil {
		s += fmt.Sprintf(", %d × %d pixels (%s)", cfg.Width, cfg.Height, format)
	}
	return s
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// spoken is what "say" answers.
func spoken(text string) string {
	switch strings.ToLower(strings.Trim(text, " .!")) {
	case "hello", "hi", "hey":
		return "Hello! I am the demo agent, and I am glad to meet you. Ask me for **help** to see what I can do, or for a **tour**."
	}
	return text
}

func (t *turn) help([]string) error { return t.speak(t.c.a.helpText(), t.pace()) }

func (t *turn) say(args []string) error {
	if err := t.ponder("I was asked to say something, so I say it."); err != nil {
		return err
	}
	return t.speak(spoken(args[0]), t.pace())
}

func (t *turn) saySlowly(args []string) error { return t.speak(spoken(args[0]), slowChunk) }

// ponder thinks aloud if the model is one that does.
func (t *turn) ponder(text string) error {
	if t.model() != modelThinker {
		return nil
	}
	if t.launch.Effort == effortHigh {
		text += "\n\nOn second thought, I look at it from the other side as well.\n\nThe result is the same."
	}
	return t.reason(text, t.pace())
}

func (t *turn) think(args []string) error {
	text := args[0]
	if text == "" {
		text = "I weigh the request, look for a shorter way, and find that there is none."
	}
	return t.reason(text, t.pace())
}

// chat answers what asks for nothing in particular.
func (t *turn) chat(args []string) error {
	if err := t.reason("The message asks for nothing on my list. I answer kindly and say what I can do.", t.pace()); err != nil {
		return err
	}
	if strings.Trim(args[0], " .!\n") == "" {
		return t.speak("I am listening. Ask me for **help** to see what I can do.", t.pace())
	}
	if greeting := spoken(args[0]); greeting != args[0] {
		return t.speak(greeting, t.pace())
	}
	quote := "> " + strings.ReplaceAll(row.Cut(args[0], 1<<10), "\n", "\n> ")
	return t.speak("You wrote:\n\n"+quote+"\n\nI am only the demo agent and have no model behind me. Ask me for **help** to see what I can do, or for a **tour** of it.", t.pace())
}

func (t *turn) markdown([]string) error { return t.speak(sampleMarkdown, t.pace()) }

func (t *turn) long(args []string) error {
	kib := defaultLong
	if args[0] != "" {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > maxLong {
			return t.speak(fmt.Sprintf("I write at least 1 and at most %d KiB.", maxLong), t.pace())
		}
		kib = n
	}
	var b strings.Builder
	for i := 1; b.Len() < kib<<10; i++ {
		fmt.Fprintf(&b, "Paragraph %d of a long answer. It says nothing new, in *many* words, so that there is something to scroll through.\n\n", i)
	}
	return t.speak(b.String()[:kib<<10], t.pace())
}

func (t *turn) burst(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil || n > maxBurst {
		return t.speak(fmt.Sprintf("I write at most %d rows.", maxBurst), t.pace())
	}
	for i := range n {
		if err := t.stopped(); err != nil {
			return err
		}
		text := fmt.Sprintf("Row %d of %d.", i+1, n)
		t.said += int64(len(text))
		if err := t.emit(row.Row{Body: &row.Assistant{Text: text}}); err != nil {
			return err
		}
	}
	return t.speak(fmt.Sprintf("That were %d rows.", n), 0)
}

// recall shows that the session holds what was said before.
func (t *turn) recall([]string) error {
	return t.speak("Our conversation began with: "+t.session.name(), t.pace())
}

func (t *turn) sleep(args []string) error {
	seconds, err := strconv.ParseFloat(args[0], 64)
	if err != nil || seconds > maxSleep.Seconds() {
		return t.speak(fmt.Sprintf("I sleep for at most %v.", maxSleep), t.pace())
	}
	if err := t.sleepFor(time.Duration(seconds * float64(time.Second))); err != nil {
		return err
	}
	return t.speak("I slept for "+args[0]+" seconds.", t.pace())
}

// hang waits until text has been steered into the turn, which may have come
// just before.
func (t *turn) hang([]string) error {
	for !t.steered {
		select {
		case <-t.wake:
			t.takeSteers()
		case <-t.ctx.Done():
			return errStopped
		}
	}
	t.steered = false
	return nil
}

func (t *turn) notice(args []string) error {
	return t.emit(row.Row{Body: &row.Notice{Code: "demo", Title: "A notice of the demo agent", Text: args[0]}})
}

// compact replaces the conversation by a summary.
func (t *turn) compact(args []string) error {
	before, entries := t.session.tokens(), t.session.count()
	summary := fmt.Sprintf("The conversation had %d entries. It began with: %s", entries, t.session.name())
	if args[0] != "" {
		summary += "\n\nAsked to keep in mind: " + args[0]
	}
	if err := t.emit(row.Row{Body: &row.Compaction{
		Trigger: "manual", Summary: summary, TokensBefore: before, TokensAfter: int64(len(summary)) / bytesPerToken,
	}}); err != nil {
		return err
	}
	t.said += int64(len(summary))
	return nil
}

// fail ends the turn as a provider's error would.
func (t *turn) fail(args []string) error {
	if err := t.speak("This is about to go wrong", 0); err != nil {
		return err
	}
	code := exec.Code(strings.ToUpper(args[0]))
	if code == "" {
		code = exec.CodeModelError
	}
	e := exec.Errorf(code, "the demo agent was asked to fail").WithHint("Send another message; nothing was lost.").
		WithDetail("demo agent: asked to fail with " + string(code))
	if code == exec.CodeRateLimited || code == exec.CodeOverloaded {
		e = e.WithRetryAfter(30 * time.Second)
	}
	return e
}
