package cli

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
)

type chatsWatch struct {
	chatArg
	Last      int    `help:"Messages of before to print first." short:"n" default:"10" placeholder:"N"`
	All       bool   `help:"Print all there is first." xor:"from"`
	After     *int64 `help:"Print what comes after this ordinal." placeholder:"ORDINAL" xor:"from"`
	UntilIdle bool   `help:"End when nothing is running and nothing waits in the queue."`
	Reasoning bool   `help:"Print the agent's thinking, too."`
	Full      bool   `help:"Print tool inputs and outputs whole."`
}

// Help implements kong's interface.
func (*chatsWatch) Help() string {
	return `Rows are printed when they have been stored. On a terminal the text that the agent is writing appears as it comes. With --json each line is one object whose member "type" is row, control or deleted.

Examples:

    garcon chats watch 1767225600000000
    garcon chats watch --all --json 1767225600000000 | jq -r 'select(.type=="row").row.kind'`
}

// watchEvent is one line of watch --json.
type watchEvent struct {
	Type    string          `json:"type"`
	Row     json.RawMessage `json:"row,omitempty"`
	Control *api.Control    `json:"control,omitempty"`
}

// Run prints rows until the chat is deleted or the user has seen enough.
func (c *chatsWatch) Run(ctx context.Context, i *Invocation) error {
	if c.Last < 0 || c.Last > api.MaxPageMessages {
		return usage("--last is from 0 to "+strconv.Itoa(api.MaxPageMessages), "Use --all to print everything.")
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	w := &watcher{Invocation: i, chat: c.Chat, after: noRow, untilIdle: c.UntilIdle}
	w.show = renderer{full: c.Full, reasoning: c.Reasoning, answerHint: func(kind row.Kind, occurrence string) string {
		return i.answerCommand(c.Chat, kind, occurrence)
	}}
	var err error
	switch {
	case c.After != nil:
		w.after = *c.After
	case !c.All:
		err = w.tail(ctx, c.Last)
	}
	if err == nil {
		err = w.begin(ctx)
	}
	for err == nil && !w.ended {
		err = w.next(ctx)
	}
	switch {
	case ctx.Err() != nil:
		w.endPart()
		return &Failure{
			Exit: ExitInterrupted, Message: "interrupted; nothing was stopped", cause: context.Canceled,
			Hint: "Watch on: " + i.command("chats", "watch", "--after="+strconv.FormatInt(w.after, 10), c.Chat),
		}
	case hasCode(err, api.CodeChatNotFound) && w.polled:
		return w.deleted()
	}
	return err
}

// watcher prints a chat's changes.
type watcher struct {
	*Invocation
	chat      string
	after     int64
	control   uint64
	live      uint64
	untilIdle bool
	// polled says that the chat was there, ended that watching is over.
	polled, ended bool
	show          renderer
	// part is the live part that is being printed, shown how much of it.
	part  string
	shown string
}

// tail prints the newest messages and moves to the end of the transcript.
func (w *watcher) tail(ctx context.Context, messages int) error {
	var page api.Page
	query := url.Values{"max": {strconv.Itoa(max(messages, 1))}}
	if err := w.do(ctx, "read the transcript", request{op: api.OpChatsPage, path: []string{w.chat}, query: query}, &page); err != nil {
		return err
	}
	w.after = page.Through
	if messages == 0 {
		return nil
	}
	return w.rows(page.Rows)
}

// next waits for changes and prints them.
func (w *watcher) next(ctx context.Context) error {
	var c api.Changes
	began := time.Now()
	query := changesQuery(w.after, w.control)
	if w.showsLive() {
		query.Set("live", strconv.FormatUint(w.live, 10))
	}
	r := request{op: api.OpChatsChanges, path: []string{w.chat}, query: query}
	if err := w.do(ctx, "watch the chat", r, &c); err != nil {
		return err
	}
	w.polled = true
	if err := w.rows(c.Rows); err != nil {
		return err
	}
	// Only now: what was not printed is asked for again.
	w.after = c.After
	if c.Deleted {
		return w.deleted()
	}
	if err := w.parts(c.Live); err != nil {
		return err
	}
	w.live = max(w.live, c.LiveRevision)
	if c.Control != nil {
		return w.state(ctx, c.Control)
	}
	if len(c.Rows) == 0 && len(c.Live) == 0 {
		return pause(ctx, quietPause-time.Since(began))
	}
	return nil
}

// begin prints the state that watching begins with: a chat that nothing has
// happened to since the controller started has no change to report.
func (w *watcher) begin(ctx context.Context) error {
	var control api.Control
	if err := w.do(ctx, "look at the chat", request{op: api.OpChatsControl, path: []string{w.chat}}, &control); err != nil {
		return err
	}
	w.polled = true
	return w.state(ctx, &control)
}

// state prints the chat's state and ends watching when it is the one to wait
// for.
func (w *watcher) state(ctx context.Context, c *api.Control) error {
	w.control = c.Revision
	if w.json {
		if err := w.line(watchEvent{Type: "control", Control: c}); err != nil {
			return err
		}
	}
	if w.untilIdle && c.Phase == api.PhaseIdle && (len(c.Queue.Entries) == 0 || c.Queue.Paused) {
		w.ended = true
		return w.flush(ctx)
	}
	return nil
}

// flush prints the rows that are there and were in no answer yet, without
// waiting for more.
func (w *watcher) flush(ctx context.Context) error {
	for {
		var c api.Changes
		query := changesQuery(w.after, w.control)
		query.Set("wait", "0")
		r := request{op: api.OpChatsChanges, path: []string{w.chat}, query: query}
		if err := w.do(ctx, "watch the chat", r, &c); err != nil {
			return err
		}
		if len(c.Rows) == 0 {
			return nil
		}
		if err := w.rows(c.Rows); err != nil {
			return err
		}
		w.after = c.After
	}
}

func (w *watcher) deleted() error {
	w.endPart()
	if w.json {
		if err := w.line(watchEvent{Type: "deleted"}); err != nil {
			return err
		}
	}
	return &Failure{Exit: ExitStopped, Message: "the chat was deleted"}
}

// rows prints committed rows.
func (w *watcher) rows(rows []json.RawMessage) error {
	for _, raw := range rows {
		if w.json {
			if kindOf(raw) == row.KindSession {
				continue
			}
			if err := w.line(watchEvent{Type: "row", Row: raw}); err != nil {
				return err
			}
			continue
		}
		var x row.Row
		if err := json.Unmarshal(raw, &x); err != nil {
			w.note("a row cannot be understood: %v", err)
			continue
		}
		if err := w.row(x); err != nil {
			return err
		}
	}
	return nil
}

// row prints a row, or the rest of it when its live part has been printed.
func (w *watcher) row(x row.Row) error {
	if x.PartID != "" && x.PartID == w.part {
		if text, ok := partText(x); ok {
			if rest, ok := strings.CutPrefix(text, w.shown); ok {
				w.part, w.shown = "", ""
				return w.printf("%s\n\n", Visible(rest))
			}
		}
	}
	w.endPart()
	text := w.show.row(x)
	if text == "" {
		return nil
	}
	return w.printf("%s\n\n", text)
}

// partText returns the text of a row that a live part may have shown already.
func partText(x row.Row) (string, bool) {
	switch b := x.Body.(type) {
	case *row.Assistant:
		return b.Text, !b.Partial
	case *row.Reasoning:
		return b.Text, !b.Partial
	}
	return "", false
}

// showsLive says whether text is printed before it has become a row: a pipe
// gets rows only.
func (w *watcher) showsLive() bool { return w.StdoutTerminal && !w.json }

// parts prints the text that is being written. One part is
// printed at a time; others wait for their row.
func (w *watcher) parts(live []row.Live) error {
	for _, p := range live {
		if p.Child != "" || !(p.Kind == row.KindAssistant || p.Kind == row.KindReasoning && w.show.reasoning) {
			continue
		}
		if w.part == "" {
			w.part = p.PartID
			if err := w.printf("%s\n", heading(string(p.Kind), time.Now().UnixMilli())); err != nil {
				return err
			}
		}
		if p.PartID != w.part {
			continue
		}
		rest, ok := strings.CutPrefix(p.Text, w.shown)
		if !ok {
			// The agent took back what it wrote; the row will say it right.
			w.endPart()
			continue
		}
		w.shown = p.Text
		if err := w.printf("%s", Visible(rest)); err != nil {
			return err
		}
	}
	if w.part != "" && !slices.ContainsFunc(live, func(p row.Live) bool { return p.PartID == w.part }) && len(live) > 0 {
		w.endPart()
	}
	return nil
}

// endPart ends the line of a part that is being printed.
func (w *watcher) endPart() {
	if w.part != "" {
		w.part, w.shown = "", ""
		_ = w.printf("\n")
	}
}
