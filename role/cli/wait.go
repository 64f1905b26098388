package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"garcon/proto/api"
	"garcon/proto/row"
)

// Timings of following a chat.
const (
	// pollWait is how long the server may keep a long poll.
	pollWait = api.MaxWait
	// quietPause is the least time between two polls that gave nothing new, so
	// that no server can make this a busy loop.
	quietPause = 250 * time.Millisecond
)

// waitFlags are the flags of commands that wait for a turn.
type waitFlags struct {
	Timeout seconds `help:"Stop waiting after this time and leave the turn running (exit code 3); 90, 90s or 5m." placeholder:"TIME"`
}

type chatsWait struct {
	chatArg
	Turn string `arg:"" optional:"" help:"Id of the turn, default the one that is going, else the latest."`
	waitFlags
}

// Help implements kong's interface.
func (*chatsWait) Help() string {
	return `The exit code is 0 when the turn completed, 1 when it failed and 4 when it was stopped or removed.

Examples:

    garcon chats wait 1767225600000000
    garcon chats wait --timeout 10m --json 1767225600000000`
}

// Run waits for a turn.
func (c *chatsWait) Run(ctx context.Context, i *Invocation) error {
	if err := i.connect(ctx); err != nil {
		return err
	}
	turn := c.Turn
	if turn == "" {
		var err error
		if turn, err = i.latestTurn(ctx, c.Chat); err != nil {
			return err
		}
	}
	w := newTurnWaiter(i, c.Chat, turn, c.Turn == "")
	return w.finish(ctx, submitted{ChatID: c.Chat, TurnID: turn}, c.waitFlags)
}

// latestTurn returns the turn that is going, or the last one of the transcript.
func (i *Invocation) latestTurn(ctx context.Context, chat string) (string, error) {
	var shown api.Chat
	if err := i.do(ctx, "look at the chat", request{op: api.OpChatsShow, path: []string{chat}}, &shown); err != nil {
		return "", err
	}
	if shown.State.TurnID != "" {
		return shown.State.TurnID, nil
	}
	var page api.Page
	r := request{op: api.OpChatsPage, path: []string{chat}, query: url.Values{"max": {"1"}}}
	if err := i.do(ctx, "read the transcript", r, &page); err != nil {
		return "", err
	}
	for n := len(page.Rows) - 1; n >= 0; n-- {
		var head row.Head
		if err := json.Unmarshal(page.Rows[n], &head); err == nil && head.TurnID != "" {
			return head.TurnID, nil
		}
	}
	return "", unavailable("the chat has no turn to wait for", "Send it a message: "+i.command("chats", "resume", chat)+" MESSAGE", nil)
}

// waitAccepted prints the ids of an accepted submission at once, so that they
// are known whatever happens next, then waits for the turn and prints how it
// ended.
func (i *Invocation) waitAccepted(ctx context.Context, a api.Accepted, flags waitFlags) error {
	text := acceptedText(a)
	if i.json {
		i.note("%s", text[:len(text)-1])
	} else if err := i.printf("%s", text); err != nil {
		return err
	}
	w := newTurnWaiter(i, a.ChatID, a.TurnID, true)
	return w.finish(ctx, submitted{ChatID: a.ChatID, TurnID: a.TurnID, Disposition: a.Disposition, Replayed: a.Replayed}, flags)
}

// turnWaiter waits for one turn and tells the user what the agent asks.
type turnWaiter struct {
	*Invocation
	chat, turn string
	// after and control are how far the chat's changes have been read.
	after   int64
	control uint64
	// asked holds the requests the user has been told of, by control id.
	asked map[string]bool
	show  renderer
	phase api.Phase
	// known says that the chat was there: if it is not, it has been deleted.
	known bool
}

func newTurnWaiter(i *Invocation, chat, turn string, known bool) *turnWaiter {
	return &turnWaiter{Invocation: i, chat: chat, turn: turn, known: known, after: noRow, asked: map[string]bool{}}
}

// noRow is the ordinal before the first.
const noRow = -1

// finish waits and prints the result.
func (w *turnWaiter) finish(ctx context.Context, doc submitted, flags waitFlags) error {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if flags.Timeout > 0 {
		waiting, cancel = context.WithTimeoutCause(ctx, time.Duration(flags.Timeout), errTimeout)
	}
	defer cancel()
	receipt, err := w.wait(waiting)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return w.detached()
	case context.Cause(waiting) == errTimeout:
		return unavailable(fmt.Sprintf("the turn is not over after %s; it goes on", time.Duration(flags.Timeout)),
			"Wait on: "+w.waitCommand(), errTimeout)
	default:
		return err
	}
	if w.json {
		doc.Receipt = &receipt
		if err := w.document(doc); err != nil {
			return err
		}
	} else if receipt.FinalText != "" {
		if err := w.printf("%s\n", Visible(receipt.FinalText)); err != nil {
			return err
		}
	}
	if receipt.FinalTextSize > 0 {
		w.note("The answer is cut: it has %d bytes. Read it all: %s", receipt.FinalTextSize, w.command("chats", "read", w.chat))
	}
	return outcomeError(receipt, w.command("chats", "read", w.chat))
}

var errTimeout = errors.New("the time to wait is over")

// detached is the failure of an interrupted wait.
func (w *turnWaiter) detached() error {
	return &Failure{
		Exit: ExitInterrupted, Message: "interrupted; the turn goes on",
		Hint: "Wait on: " + w.waitCommand() + "\n  Stop it: " + w.command("chats", "stop", w.chat), cause: context.Canceled,
	}
}

func (w *turnWaiter) waitCommand() string { return w.command("chats", "wait", w.chat, w.turn) }

// outcomeError returns the failure that a receipt stands for, nil for a turn
// that completed.
func outcomeError(r api.Receipt, read string) error {
	switch r.Outcome {
	case api.TurnCompleted:
		return nil
	case api.TurnInterrupted:
		return &Failure{Exit: ExitStopped, Message: "the turn was stopped" + because(r.Error), Hint: "Read what there is: " + read}
	case api.TurnRemoved:
		return &Failure{Exit: ExitStopped, Message: "the message was taken from the queue, or its chat was deleted" + because(r.Error)}
	}
	f := &Failure{Exit: ExitFailed, Message: "the turn failed" + because(r.Error), Hint: "Read what there is: " + read}
	if r.Error != nil {
		f.Code = r.Error.Code
		if r.Error.Hint != "" {
			f.Hint = r.Error.Hint
		}
	}
	return f
}

func because(e *api.Error) string {
	if e == nil || e.Message == "" {
		return ""
	}
	return ": " + e.Message
}

// wait returns the receipt of the turn once it has ended. A chat that is
// deleted meanwhile counts as a removed turn.
func (w *turnWaiter) wait(ctx context.Context) (api.Receipt, error) {
	receipt, err := w.follow(ctx)
	if w.known && hasCode(err, api.CodeChatNotFound) {
		return api.Receipt{ChatID: w.chat, TurnID: w.turn, State: api.TurnEnded, Outcome: api.TurnRemoved}, nil
	}
	return receipt, err
}

func (w *turnWaiter) follow(ctx context.Context) (api.Receipt, error) {
	for first := true; ; first = false {
		receipt, err := w.receipt(ctx)
		if err != nil || receipt.State == api.TurnEnded {
			return receipt, err
		}
		w.known = true
		if first {
			// Rows that were there before are of no interest.
			if err := w.skip(ctx); err != nil {
				return api.Receipt{}, err
			}
		}
		if err := w.changes(ctx, receipt.State); err != nil {
			return api.Receipt{}, err
		}
	}
}

func (w *turnWaiter) receipt(ctx context.Context) (api.Receipt, error) {
	var receipt api.Receipt
	err := w.do(ctx, "wait for the turn", request{op: api.OpTurnsReceipt, path: []string{w.chat, w.turn}}, &receipt)
	if hasCode(err, api.CodeTurnNotFound) {
		err = &Failure{
			Exit: ExitUsage, Code: api.CodeTurnNotFound, cause: err, Message: err.Error(),
			Hint: "What became of a turn is kept until the controller ends. Read the transcript: " + w.command("chats", "read", w.chat),
		}
	}
	return receipt, err
}

// skip moves to the newest row of the transcript.
func (w *turnWaiter) skip(ctx context.Context) error {
	var page api.Page
	r := request{op: api.OpChatsPage, path: []string{w.chat}, query: url.Values{"max": {"1"}}}
	if err := w.do(ctx, "read the transcript", r, &page); err != nil {
		return err
	}
	w.after = page.Through
	return nil
}

// changes waits for something new and tells the user what matters of it.
func (w *turnWaiter) changes(ctx context.Context, state api.TurnState) error {
	var c api.Changes
	began := time.Now()
	r := request{op: api.OpChatsChanges, path: []string{w.chat}, query: changesQuery(w.after, w.control)}
	if err := w.do(ctx, "wait for the turn", r, &c); err != nil {
		return err
	}
	w.after = c.After
	w.progress(c.Rows)
	if c.Control != nil {
		w.control = c.Control.Revision
		w.tell(c.Control, state)
		return nil
	}
	if len(c.Rows) > 0 {
		return nil
	}
	return pause(ctx, quietPause-time.Since(began))
}

// changesQuery asks for what is new, without live parts.
func changesQuery(after int64, control uint64) url.Values {
	return url.Values{
		"after":   {strconv.FormatInt(after, 10)},
		"control": {strconv.FormatUint(control, 10)},
		"live":    {"off"},
		"wait":    {strconv.FormatInt(pollWait.Milliseconds(), 10)},
	}
}

// pause waits for d or until ctx ends; then it returns nil, as the next request
// fails by itself.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return nil
}

// progress prints what the agent does, on a terminal: the answer itself comes
// at the end.
func (w *turnWaiter) progress(rows []json.RawMessage) {
	if !w.StderrTerminal {
		return
	}
	for _, raw := range rows {
		var x row.Row
		if err := json.Unmarshal(raw, &x); err != nil || x.TurnID != w.turn {
			continue
		}
		switch x.Body.(type) {
		case *row.Tool, *row.Notice, *row.Error, *row.Subagent, *row.Compaction:
			if text := w.show.row(x); text != "" {
				w.note("%s", text)
			}
		}
	}
}

// tell says what the turn waits for.
func (w *turnWaiter) tell(c *api.Control, state api.TurnState) {
	if state == api.TurnQueued && c.Queue.Paused && w.phase != "paused" {
		w.phase = "paused"
		w.note("The queue of the chat is paused (%s). Let it go on: %s", VisibleLine(c.Queue.Reason), w.command("chats", "queue", "resume", w.chat))
	}
	if c.TurnID != w.turn {
		return
	}
	if c.Phase == api.PhaseReconnecting && w.phase != c.Phase {
		w.note("The executor is away; the turn may still be running there.")
	}
	w.phase = c.Phase
	for _, p := range c.Pending {
		if !w.asked[p.ControlID] && !p.Answering {
			w.asked[p.ControlID] = true
			w.note("%s", w.pendingText(w.chat, p))
		}
	}
}
