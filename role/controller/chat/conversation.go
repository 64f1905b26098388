package chat

import (
	"slices"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/ledger"
)

// conversationPage is how many messages are read from the ledger at a time.
const conversationPage = 100

// maxConversationAttachments bounds the bytes of attachments that a carried
// conversation repeats: what the common APIs take in one request.
const maxConversationAttachments = 20 << 20

// conversation returns what was said before the run, for agents that keep no
// conversation of their own: user and assistant texts, oldest first, back to
// the last compaction, at most [exec.MaxConversation] bytes.
func (o *owner) conversation(r *run, m exec.Manifest) ([]exec.Message, error) {
	l, err := o.ledger(r.ctx)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	var (
		newestFirst []exec.Message
		size        int
		images      int64
		before      = int64(-1)
		through     = l.Head().Last
	)
	for {
		page, err := l.Page(r.ctx, ledger.PageQuery{Through: through, Before: before, MaxMessages: conversationPage})
		if err != nil {
			return nil, storageError(err)
		}
		for _, stored := range slices.Backward(page.Rows) {
			msg, attachments, end := asMessage(stored.Row, r)
			if msg.Text == "" && len(attachments) == 0 {
				if end {
					return ordered(newestFirst), nil
				}
				continue
			}
			for _, a := range attachments {
				images += a.Size
				if images > maxConversationAttachments || !m.Attachments.Accepts(a.MediaType) {
					msg.Text += "\n[attachment " + a.Name + " is no longer carried along]"
					continue
				}
				data, err := o.s.load([]row.Attachment{a})
				if err != nil {
					msg.Text += "\n[attachment " + a.Name + " is no longer there]"
					continue
				}
				msg.Attachments = append(msg.Attachments, data...)
			}
			size += len(msg.Text)
			if size > exec.MaxConversation {
				return ordered(newestFirst), nil
			}
			newestFirst = append(newestFirst, msg)
			if end {
				return ordered(newestFirst), nil
			}
		}
		if !page.HasMore || len(page.Rows) == 0 {
			return ordered(newestFirst), nil
		}
		before = page.First
	}
}

// asMessage returns the message a row stands for, if any, and whether the
// conversation begins with it.
func asMessage(r row.Row, current *run) (msg exec.Message, attachments []row.Attachment, end bool) {
	if r.RunID == current.id && r.Kind() == row.KindUser {
		return exec.Message{}, nil, false // the prompt itself
	}
	switch b := r.Body.(type) {
	case *row.User:
		return exec.Message{Role: "user", Text: b.Text}, b.Attachments, false
	case *row.Assistant:
		text := b.Text
		if b.Partial {
			text += "\n[the answer was cut off here]"
		}
		return exec.Message{Role: "assistant", Text: text}, nil, false
	case *row.Compaction:
		if b.Summary == "" {
			return exec.Message{}, nil, true
		}
		return exec.Message{Role: "user", Text: "Summary of the conversation so far:\n\n" + b.Summary}, nil, true
	}
	return exec.Message{}, nil, false
}

// ordered turns the messages round and makes the first one the user's, as the
// APIs demand.
func ordered(newestFirst []exec.Message) []exec.Message {
	slices.Reverse(newestFirst)
	for len(newestFirst) > 0 && newestFirst[0].Role != "user" {
		newestFirst = newestFirst[1:]
	}
	return newestFirst
}
