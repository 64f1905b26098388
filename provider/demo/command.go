package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"garcon/proto/row"
	"garcon/provider"
)

const (
	// maxOutput is how much of a command's output a result keeps, in bytes:
	// more than anybody reads.
	maxOutput = 256 << 10
	// commandGrace is how long a command may take to end when it is stopped.
	commandGrace = time.Second
	// outputChunk is how much output is read at a time.
	outputChunk = 32 << 10
)

// output collects what a command writes: all of it is counted, the start kept.
type output struct {
	mu   sync.Mutex
	kept strings.Builder
	size int64
}

// add takes in text and returns the part that was kept and its offset.
func (o *output) add(text string) (kept string, offset int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size += int64(len(text))
	offset = o.kept.Len()
	kept = row.Prefix(text, maxOutput-offset)
	o.kept.WriteString(kept)
	return kept, offset
}

func (o *output) result() row.ToolResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := row.ToolResult{Output: o.kept.String()}
	if int64(len(r.Output)) < o.size {
		r.Truncated, r.FullSize = true, o.size
	}
	return r
}

// readText reads a stream as storable text, whole runes at a time, until it
// ends.
func readText(r io.Reader, take func(string)) {
	buf := make([]byte, outputChunk)
	held := 0
	for {
		n, err := r.Read(buf[held:])
		n += held
		whole := n
		if err == nil {
			whole = n - cutRune(buf[:n])
		}
		if whole > 0 {
			take(row.Text(string(buf[:whole])))
		}
		held = copy(buf, buf[whole:n])
		if err != nil {
			return
		}
	}
}

// cutRune returns how many bytes at the end of b begin a rune that goes on in
// what has not been read.
func cutRune(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}

func bash(command string, background bool) toolCall {
	return toolCall{
		Tool: row.Tool{
			Tool: row.ToolBash, Name: "shell", Title: title(command),
			Input: row.ToolInput{Command: command, Background: background},
		},
		rule:  "command:" + command,
		label: "Allow exactly this command for the session",
	}
}

func (t *turn) shell(ctx context.Context, command string) (*provider.Process, error) {
	p, err := t.c.a.host.Processes.Start(ctx, provider.Command{
		Name: "the command", Path: "/bin/sh", Args: []string{"-c", command}, Dir: t.launch.ProjectPath, Env: t.c.a.host.Env,
	})
	if err != nil {
		return nil, err
	}
	return p, p.Stdin().Close()
}

// shellCommand runs a command in the foreground.
func (t *turn) shellCommand(args []string) error {
	command := commandOf(args)
	call, err := t.call(bash(command, false))
	if err != nil {
		return err
	}
	if ok, err := t.approve(call); !ok {
		return err
	}
	begun := time.Now()
	p, err := t.shell(t.ctx, command)
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	part := t.id("output")
	var out output
	read := make(chan struct{})
	go func() {
		defer close(read)
		readText(p.Stdout(), func(text string) {
			if kept, offset := out.add(text); kept != "" {
				t.run.Live(row.Live{PartID: part, Child: t.child, Kind: row.KindToolResult, Title: call.Title, Offset: offset, Text: kept})
			}
		})
	}()
	_, stopped := pause(t, p.Done())
	if stopped != nil {
		if err := p.Stop(context.WithoutCancel(t.ctx), commandGrace); err != nil {
			t.c.a.host.Log.Error("command", "err", err)
		}
	}
	<-read
	r := out.result()
	r.Stderr, r.DurationMs = p.StderrTail(), time.Since(begun).Milliseconds()
	if stopped != nil {
		r.IsError, r.Status = true, row.ToolCancelled
		if err := t.resultPart(call, part, r); err != nil {
			return err
		}
		return stopped
	}
	exit := p.Exit()
	words := "It ended well."
	if exit.Signal != 0 || exit.Code != 0 {
		r.IsError, r.Status = true, row.ToolFailed
		words = "It failed: " + exit.String() + "."
	}
	if exit.Signal == 0 {
		r.ExitCode = &exit.Code
	}
	if err := t.resultPart(call, part, r); err != nil {
		return err
	}
	return t.speak(words, t.pace())
}

// resultOfFailure tells that a call could not be made.
func (t *turn) resultOfFailure(call toolCall, err error) error {
	if stopped := t.stopped(); stopped != nil {
		return t.cancelled(call, stopped)
	}
	if err := t.result(call, row.ToolResult{Output: err.Error(), IsError: true, Status: row.ToolFailed}); err != nil {
		return err
	}
	return t.speak("That did not work: "+err.Error()+".", t.pace())
}

// background starts a command that goes on after the turn.
func (t *turn) background(args []string) error {
	command := commandOf(args)
	call, err := t.call(bash(command, true))
	if err != nil {
		return err
	}
	if ok, err := t.approve(call); !ok {
		return err
	}
	p, err := t.shell(t.ctx, command)
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	t.c.follow(call, p)
	if err := t.result(call, row.ToolResult{Output: fmt.Sprintf("Started in the background as process %d.", p.PID())}); err != nil {
		return err
	}
	return t.speak("It runs in the background; I will tell you when it ends.", t.pace())
}

// follow makes a process a job and tells its end.
func (c *conversation) follow(call toolCall, p *provider.Process) {
	one := &job{Job: newJob(call, "command")}
	one.stop = func(ctx context.Context) {
		if err := p.Stop(ctx, commandGrace); err != nil {
			c.a.host.Log.Error("background command", "err", err)
		}
	}
	if !c.startWork() {
		one.stop(c.life)
		return
	}
	c.jobs.add(one)
	go func() {
		defer c.work.Done()
		var out output
		readText(p.Stdout(), func(text string) { out.add(text) })
		<-p.Done()
		c.jobs.remove(one)
		c.tell(step{phrase: &phrase{do: func(t *turn, _ []string) error {
			r := out.result()
			text := fmt.Sprintf("The background command `%s` ended: %s.", strings.ReplaceAll(one.Title, "`", "'"), p.Exit())
			if said := strings.TrimSpace(row.Cut(r.Output, maxTold)); said != "" {
				text += "\n\n```\n" + strings.ReplaceAll(said, "```", "'''") + "\n```"
			}
			return t.speak(text, t.pace())
		}}})
	}()
}

// maxTold is how much of a background command's output is told, in bytes.
const maxTold = 2 << 10

// startWork counts a goroutine that Close waits for; it is false when the
// conversation is closed.
func (c *conversation) startWork() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Add(1)
	return true
}

func (t *turn) stopJobs([]string) error {
	n := t.c.jobs.stopAll(t.ctx)
	return t.speak(fmt.Sprintf("I stopped %d background job%s.", n, plural(n)), t.pace())
}

// crash lets a process die in the middle of the turn, as an agent's would.
func (t *turn) crash([]string) error {
	if err := t.speak("I start something that will", 0); err != nil {
		return err
	}
	p, err := t.shell(t.ctx, `echo "demo agent: out of luck" >&2; exit 70`)
	if err != nil {
		return err
	}
	if _, err := pause(t, p.Done()); err != nil {
		p.Stop(context.WithoutCancel(t.ctx), 0)
		return err
	}
	return p.Failure()
}
