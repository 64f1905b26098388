package demo

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// todo keeps a list and works through it.
func (t *turn) todo(args []string) error {
	var items []row.Todo
	for text := range strings.SplitSeq(args[0], ";") {
		if text = strings.TrimSpace(text); text != "" {
			items = append(items, row.Todo{Text: text, Status: "pending"})
		}
	}
	// Every state of the list is a call of its own, as with real agents.
	for i := 0; i <= len(items); i++ {
		if i > 0 {
			items[i-1].Status = "completed"
		}
		if i < len(items) {
			items[i].Status = "in-progress"
		}
		call, err := t.call(toolCall{Tool: row.Tool{
			Tool: row.ToolTodo, Name: "todo", Title: fmt.Sprintf("%d of %d done", i, len(items)),
			Input: row.ToolInput{Todos: slices.Clone(items)},
		}})
		if err != nil {
			return err
		}
		if err := t.result(call, row.ToolResult{Output: "The list was updated."}); err != nil {
			return err
		}
		if err := t.sleepFor(t.pace()); err != nil {
			return err
		}
	}
	return t.speak(fmt.Sprintf("All %d items are done.", len(items)), t.pace())
}

func task(description string, background bool) toolCall {
	return toolCall{Tool: row.Tool{
		Tool: row.ToolTask, Name: "delegate", Title: title(description),
		Input: row.ToolInput{Description: description, Prompt: description, Agent: "helper", Background: background},
	}}
}

// delegate has a subagent work while the turn waits.
func (t *turn) delegate(args []string) error {
	call, err := t.call(task(args[0], false))
	if err != nil {
		return err
	}
	child := row.Subagent{ChildID: t.id("child"), CallID: call.id, Mode: "foreground", Type: "helper", Title: call.Title, Status: row.ToolRunning}
	running := child
	if err := t.emit(row.Row{Body: &running}); err != nil {
		return err
	}
	t.child = child.ChildID
	err = t.childWork(args[0])
	t.child = ""
	child.Status, child.Summary = row.ToolCompleted, report(args[0])
	if err != nil {
		child.Status, child.Summary = row.ToolCancelled, ""
	}
	if storeErr := t.emit(row.Row{Body: &child}); storeErr != nil {
		return storeErr
	}
	if err != nil {
		return t.cancelled(call, err)
	}
	if err := t.result(call, row.ToolResult{Output: child.Summary}); err != nil {
		return err
	}
	return t.speak("My helper reports: "+child.Summary, t.pace())
}

func report(task string) string { return "I looked into it: " + task }

// childWork is what a subagent does.
func (t *turn) childWork(task string) error {
	if err := t.emit(row.Row{Body: &row.User{Text: task, Origin: row.OriginAgent}}); err != nil {
		return err
	}
	if err := t.reason("I am a helper with a conversation of my own.", t.pace()); err != nil {
		return err
	}
	if err := t.list(nil); err != nil {
		return err
	}
	return t.speak(report(task), t.pace())
}

// backgroundStep is how long a background helper takes for each of its steps:
// long enough to be seen in a list of jobs.
const backgroundStep = 100 * time.Millisecond

// delegateInBackground has a subagent work after the turn.
func (t *turn) delegateInBackground(args []string) error {
	call, err := t.call(task(args[0], true))
	if err != nil {
		return err
	}
	child := row.Subagent{ChildID: t.id("child"), CallID: call.id, Mode: "background", Type: "helper", Title: call.Title, Status: row.ToolRunning}
	running := child
	if err := t.emit(row.Row{Body: &running}); err != nil {
		return err
	}
	if err := t.result(call, row.ToolResult{Output: "The helper has started."}); err != nil {
		return err
	}
	t.c.help(call, child, args[0], t.session.hold())
	return t.speak("A helper works on it in the background.", t.pace())
}

// help makes a subagent a job. It owns the session it is given.
func (c *conversation) help(call toolCall, child row.Subagent, task string, s *session) {
	release := func() {
		if err := s.release(); err != nil {
			c.a.host.Log.Error("background helper", "err", err)
		}
	}
	if !c.startWork() {
		release()
		return
	}
	ctx, cancel := context.WithCancel(c.life)
	ended := make(chan struct{})
	one := &job{Job: newJob(call, "subagent"), stop: func(ctx context.Context) {
		cancel()
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}}
	c.jobs.add(one)
	go func() {
		defer c.work.Done()
		defer release()
		defer close(ended)
		defer cancel()
		err := c.helperWork(ctx, s, &child, task)
		c.jobs.remove(one)
		if err != nil {
			return
		}
		c.tell(step{phrase: &phrase{do: func(t *turn, _ []string) error {
			return t.speak("My background helper reports: "+child.Summary, t.pace())
		}}})
	}()
}

func newJob(call toolCall, kind string) exec.Job {
	return exec.Job{ID: call.id, Kind: kind, Title: call.Title}
}

// helperWork publishes the rows of a background subagent, which belong to no
// run.
func (c *conversation) helperWork(ctx context.Context, s *session, child *row.Subagent, task string) error {
	head := row.Head{Child: child.ChildID}
	rows := []row.Row{
		{Head: head, Body: &row.User{Text: task, Origin: row.OriginAgent}},
		{Head: head, Body: &row.Reasoning{Text: "I work while the others talk."}},
		{Head: head, Body: &row.Assistant{Text: report(task)}},
	}
	var err error
	for _, r := range rows {
		timer := time.NewTimer(backgroundStep)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			err = errStopped
		}
		if err == nil {
			err = c.store(s, r)
		}
		if err != nil {
			break
		}
	}
	child.Status, child.Summary = row.ToolCompleted, report(task)
	if err != nil {
		child.Status, child.Summary = row.ToolCancelled, ""
	}
	ended := *child
	if storeErr := c.store(s, row.Row{Body: &ended}); err == nil {
		err = storeErr
	}
	return err
}

// store keeps and publishes a row of no run.
func (c *conversation) store(s *session, r row.Row) error {
	if err := s.append(entry{Row: &r}); err != nil {
		return err
	}
	c.b.Rows(r)
	return nil
}

// sample is one made-up tool call.
type sample struct {
	tool   row.ToolName
	title  string
	input  row.ToolInput
	result row.ToolResult
}

func samples() []sample {
	zero := 0
	arguments := json.RawMessage(`{"depth":2,"names":["a","b"]}`)
	return []sample{
		{row.ToolBash, "make test", row.ToolInput{Command: "make test", Description: "Run the tests"}, row.ToolResult{Output: "\x1b[32mok\x1b[0m  all of it\n", ExitCode: &zero}},
		{row.ToolRead, "main.go", row.ToolInput{Path: "main.go", Offset: 1, Limit: 3}, row.ToolResult{Output: "package main\n\nfunc main() {}\n"}},
		{row.ToolWrite, "new.txt", row.ToolInput{Path: "new.txt", Content: "new\n"}, row.ToolResult{Diff: unifiedDiff("new.txt", "", "new\n")}},
		{row.ToolEdit, "main.go", row.ToolInput{Path: "main.go", Edits: []row.Edit{{Old: "func main() {}", New: "func main() { run() }"}}}, row.ToolResult{Diff: unifiedDiff("main.go", "package main\n\nfunc main() {}\n", "package main\n\nfunc main() { run() }\n")}},
		{row.ToolPatch, "2 files", row.ToolInput{Patch: "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\n", Paths: []string{"a", "b"}}, row.ToolResult{Output: "Done."}},
		{row.ToolGlob, "**/*.go", row.ToolInput{Pattern: "**/*.go"}, row.ToolResult{Output: "main.go\n"}},
		{row.ToolGrep, "func main", row.ToolInput{Pattern: "func main", Path: ".", Glob: "*.go"}, row.ToolResult{Output: "main.go:7:func main() {\n"}},
		{row.ToolList, ".", row.ToolInput{Path: "."}, row.ToolResult{Output: "main.go\n"}},
		{row.ToolWebSearch, "weather", row.ToolInput{Query: "weather"}, row.ToolResult{Output: "1. https://example.com/weather\n"}},
		{row.ToolWebFetch, "example.com", row.ToolInput{URL: "https://example.com/", Prompt: "What is it?"}, row.ToolResult{Output: "An example.\n"}},
		{row.ToolTodo, "Todo list", row.ToolInput{Todos: []row.Todo{{Text: "one", Status: "completed"}, {Text: "two", Status: "pending"}}}, row.ToolResult{Output: "Updated."}},
		{row.ToolTask, "Look around", row.ToolInput{Description: "Look around", Prompt: "Look around.", Agent: "helper"}, row.ToolResult{Output: "Nothing to see."}},
		{row.ToolQuestion, "Which?", row.ToolInput{Questions: []row.QuestionItem{{ID: "q", Text: "Which?", Options: []row.QuestionOption{{Label: "This"}, {Label: "That"}}}}}, row.ToolResult{Output: "This"}},
		{row.ToolPlan, "Plan", row.ToolInput{Plan: "1. Think\n2. Act\n"}, row.ToolResult{Output: "Approved."}},
		{row.ToolMCP, "tickets: list", row.ToolInput{Server: "tickets", Method: "list", Arguments: arguments}, row.ToolResult{Output: `[{"id":1}]`}},
		{row.ToolOther, "juggle", row.ToolInput{Arguments: arguments}, row.ToolResult{Output: "dropped one", IsError: true, Status: row.ToolFailed}},
	}
}

// showTools publishes one call of every canonical tool.
func (t *turn) showTools([]string) error {
	for _, s := range samples() {
		call, err := t.call(toolCall{Tool: row.Tool{Tool: s.tool, Name: "sample " + string(s.tool), Title: s.title, Input: s.input}})
		if err != nil {
			return err
		}
		if err := t.result(call, s.result); err != nil {
			return err
		}
		if err := t.sleepFor(t.pace()); err != nil {
			return err
		}
	}
	return t.speak("These were made up: no tool was really called.", t.pace())
}

// drawSize is the side of the picture, in pixels.
const drawSize = 128

// draw gives a picture as the result of a tool.
func (t *turn) draw([]string) error {
	call, err := t.call(toolCall{Tool: row.Tool{Tool: row.ToolOther, Name: "draw", Title: "Draw a picture", Input: row.ToolInput{Arguments: json.RawMessage(`{"what":"a gradient"}`)}}})
	if err != nil {
		return err
	}
	img := image.NewRGBA(image.Rect(0, 0, drawSize, drawSize))
	for y := range drawSize {
		for x := range drawSize {
			img.Set(x, y, color.RGBA{R: uint8(2 * x), G: uint8(2 * y), B: 128, A: 255})
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		return err
	}
	picture := row.Image{MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(buf.Bytes()), Size: int64(buf.Len())}
	if err := t.result(call, row.ToolResult{Output: "A picture.", Images: []row.Image{picture}}); err != nil {
		return err
	}
	return t.speak("I drew a gradient.", t.pace())
}

// tourPrompt shows the agent to somebody who has never seen one.
const tourPrompt = `think: A newcomer wants to see what an agent does here. I look around first, then show each thing once.
say Welcome! I look around in your project first.
list
todo: look around; run a command; change a file; ask a question
run: echo "Hello from a real shell in $(basename "$PWD")"
write garcon-demo.txt: This file was written by the demo agent.
edit garcon-demo.txt: written => written and then edited
ask me
say That was the tour. You can stop me while I work, or write to me in the middle of it. Ask me for **help** to see the rest.`

// tour puts the steps of the tour before what else was asked for.
func (t *turn) tour([]string) error {
	if t.launch.Settings[settingPace] == "" {
		t.launch.Settings = map[string]string{settingPace: paceNatural}
	}
	t.steps = append(t.c.a.steps(tourPrompt), t.steps...)
	return nil
}
