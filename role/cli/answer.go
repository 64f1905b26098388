package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"garcon/proto/api"
	"garcon/proto/row"
)

type chatsAnswer struct {
	chatArg
	Occurrence string   `help:"Which request, when there is more than one." placeholder:"ID"`
	Answer     []string `help:"Answer to one question, by its id or text; the label or number of an option, or free text. Repeat it for more questions or options." placeholder:"QUESTION=ANSWER" sep:"none"`
	Decline    bool     `help:"Refuse to answer."`
	Message    string   `help:"What to tell the agent when declining." short:"m"`
}

// Help implements kong's interface.
func (*chatsAnswer) Help() string {
	return `Without --answer and --decline the questions are asked on the terminal. The question may be left out when there is only one.

Examples:

    garcon chats answer 1767225600000000
    garcon chats answer 1767225600000000 --answer "Which database?=PostgreSQL"
    garcon chats answer 1767225600000000 --answer 2`
}

// Run answers the question.
func (c *chatsAnswer) Run(ctx context.Context, i *Invocation) error {
	if c.Decline && len(c.Answer) > 0 {
		return usage("--decline and --answer exclude each other", "")
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	pending, err := i.pending(ctx, c.Chat, row.KindQuestion)
	if err != nil {
		return err
	}
	interactive := len(c.Answer) == 0 && !c.Decline
	if interactive && i.StdinFD < 0 {
		return i.listPending(c.Chat, pending, usage("there is no answer", "Add --answer QUESTION=ANSWER or --decline."))
	}
	p, err := i.choose(c.Chat, pending, c.Occurrence)
	if err != nil {
		return err
	}
	var x row.Row
	if err := json.Unmarshal(p.Row, &x); err != nil {
		return unavailable("the question cannot be understood by this version", "Answer it in the browser.", err)
	}
	question, ok := x.Body.(*row.Question)
	if !ok {
		return unavailable("the question cannot be understood by this version", "Answer it in the browser.", nil)
	}
	req := api.AnswerRequest{RunID: p.RunID, ControlID: p.ControlID, Decline: c.Decline, Message: c.Message}
	switch {
	case interactive:
		req.Answers, err = i.ask(ctx, question.Questions)
	case !c.Decline:
		req.Answers, err = parseAnswers(question.Questions, c.Answer)
	}
	if err != nil {
		return err
	}
	var done api.Resolved
	r := request{op: api.OpAnswer, path: []string{c.Chat, p.Occurrence}, body: req}
	if err := i.do(ctx, "answer the question", r, &done); err != nil {
		return err
	}
	return i.printResolved(c.Chat, done)
}

// parseAnswers reads the values of --answer. Every question needs one.
func parseAnswers(items []row.QuestionItem, values []string) (map[string][]string, error) {
	answers := map[string][]string{}
	for _, v := range values {
		item, text, err := split(items, v)
		if err != nil {
			return nil, err
		}
		answer, err := match(item, text)
		if err != nil {
			return nil, err
		}
		if len(answers[item.ID]) > 0 && !item.Multi {
			return nil, usage(fmt.Sprintf("question %q takes one answer", VisibleLine(item.Text)), "")
		}
		if !slices.Contains(answers[item.ID], answer) {
			answers[item.ID] = append(answers[item.ID], answer)
		}
	}
	for _, item := range items {
		if len(answers[item.ID]) == 0 {
			return nil, usage(fmt.Sprintf("question %q has no answer", VisibleLine(item.Text)), fmt.Sprintf("Add --answer %s", shellQuote(VisibleLine(item.ID)+"=ANSWER")))
		}
	}
	return answers, nil
}

// split finds the question that a value answers. Questions may hold equals
// signs, so the value is compared with each of them.
func split(items []row.QuestionItem, value string) (row.QuestionItem, string, error) {
	for _, item := range items {
		for _, name := range []string{item.ID, item.Text, item.Header} {
			if rest, ok := strings.CutPrefix(value, name+"="); ok && name != "" {
				return item, rest, nil
			}
		}
	}
	if len(items) == 1 {
		return items[0], value, nil
	}
	return row.QuestionItem{}, "", usage(fmt.Sprintf("%q names none of the questions", value), "Begin it with the id of a question and an equals sign.")
}

// match returns the label that an answer means: a label, whatever its case, the
// number of an option, or free text where the question takes that.
func match(item row.QuestionItem, text string) (string, error) {
	text = strings.TrimSpace(text)
	for _, o := range item.Options {
		if strings.EqualFold(o.Label, text) {
			return o.Label, nil
		}
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(item.Options) {
		return item.Options[n-1].Label, nil
	}
	if text != "" && (item.FreeText || len(item.Options) == 0) {
		return text, nil
	}
	labels := make([]string, len(item.Options))
	for j, o := range item.Options {
		labels[j] = VisibleLine(o.Label)
	}
	return "", usage(fmt.Sprintf("%q is no answer to %q", text, VisibleLine(item.Text)), "Choose of: "+strings.Join(labels, ", "))
}

// ask asks the questions on the terminal until each has an answer.
func (e *Env) ask(ctx context.Context, items []row.QuestionItem) (map[string][]string, error) {
	answers := map[string][]string{}
	in := bufio.NewReader(e.Stdin)
	for _, item := range items {
		e.note("%s", Visible(item.Text))
		for j, o := range item.Options {
			line := fmt.Sprintf("  %d. %s", j+1, VisibleLine(o.Label))
			if o.Description != "" {
				line += ": " + VisibleLine(o.Description)
			}
			e.note("%s", line)
		}
		for len(answers[item.ID]) == 0 {
			text, err := e.readAnswer(ctx, in, item)
			if err != nil {
				return nil, err
			}
			if answers[item.ID], err = typed(item, text); err != nil {
				e.note("%s", err)
			}
		}
	}
	return answers, nil
}

// typed returns the answers in what a user typed: several, separated by commas,
// where the question takes several.
func typed(item row.QuestionItem, text string) ([]string, error) {
	parts := []string{text}
	if item.Multi {
		parts = strings.Split(text, ",")
	}
	var answers []string
	for _, p := range parts {
		a, err := match(item, p)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func (e *Env) readAnswer(ctx context.Context, in *bufio.Reader, item row.QuestionItem) (text string, err error) {
	fmt.Fprint(e.Stderr, "> ")
	if item.Secret && e.StdinFD >= 0 {
		text, err = e.readHidden(ctx)
	} else {
		text, err = interruptible(ctx, func() (string, error) { return in.ReadString('\n') })
	}
	switch {
	case ctx.Err() != nil:
		return "", &Failure{Exit: ExitInterrupted, Message: "interrupted; nothing was answered", cause: ctx.Err()}
	case err == io.EOF && text == "":
		return "", usage("the input ended before the questions did", "")
	case err != nil && err != io.EOF:
		return "", usage(fmt.Sprintf("read the answer: %v", err), "")
	}
	return text, nil
}
