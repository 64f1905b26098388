package demo

import (
	"regexp"
	"strings"

	"garcon/proto/exec"
)

// phrase is one thing the agent understands.
type phrase struct {
	usage, help string
	// command is the name of the slash command that does it, "" for none.
	command string
	pattern *regexp.Regexp
	// mutates marks what changes files or runs programs; it waits for an
	// approved plan in plan mode.
	mutates bool
	do      func(t *turn, args []string) error
}

// step is a phrase with its arguments.
type step struct {
	*phrase
	line string
	args []string
}

// phrases returns the vocabulary. The first match wins.
func phrases() []*phrase {
	line := func(pattern string) *regexp.Regexp {
		return regexp.MustCompile(`^(?i:please )?(?i:` + pattern + `)$`)
	}
	return []*phrase{
		{usage: "help", help: "what I understand", command: "help", pattern: line(`/?help[.!?]?`), do: (*turn).help},
		{usage: "tour", help: "a bit of everything, in your project", command: "tour", pattern: line(`/?tour[.!]?`), do: (*turn).tour},
		{usage: "say TEXT", help: "answers TEXT", pattern: line(`say (.+)`), do: (*turn).say},
		{usage: "slowly say TEXT", help: "the same, at reading speed", pattern: line(`slowly(?: say)? (.+)`), do: (*turn).saySlowly},
		{usage: "think: TEXT", help: "streams reasoning", pattern: line(`think(?:[: ]+(.+))?`), do: (*turn).think},
		{usage: "markdown", help: "a sample of every kind of Markdown", command: "markdown", pattern: line(`/?markdown[.!]?`), do: (*turn).markdown},
		{usage: "long N", help: "an answer of N KiB", pattern: line(`long(?: (\d+))?`), do: (*turn).long},
		{usage: "burst N", help: "N short rows as fast as they are taken", pattern: line(`burst (\d+)`), do: (*turn).burst},
		{usage: "recall", help: "quotes how the conversation began", command: "recall", pattern: line(`/?recall[.!]?`), do: (*turn).recall},
		{usage: "sleep N", help: "waits N seconds", pattern: line(`sleep (\d+(?:\.\d+)?)`), do: (*turn).sleep},
		{usage: "hang", help: "waits until it is stopped or steered", pattern: line(`hang[.!]?`), do: (*turn).hang},
		{usage: "run: COMMAND", help: "runs a shell command after asking", pattern: line("run(?:: *(.+)| +(`[^`]+`))"), mutates: true, do: (*turn).shellCommand},
		{usage: "background: COMMAND", help: "starts one that outlives the turn", pattern: line(`background: *(.+)`), mutates: true, do: (*turn).background},
		{usage: "stop jobs", help: "ends background work", command: "stop-jobs", pattern: line(`/?stop[ -]jobs[.!]?`), do: (*turn).stopJobs},
		{usage: "read FILE", help: "reads a file of the project", pattern: line(`read (\S+)`), do: (*turn).read},
		{usage: "list", help: "lists the project", pattern: line(`list(?: files)?[.!]?`), do: (*turn).list},
		{usage: "write FILE: TEXT", help: "creates a file after asking", pattern: line(`write (\S+): ?(.*)`), mutates: true, do: (*turn).write},
		{usage: "edit FILE: OLD => NEW", help: "replaces text in a file after asking", pattern: line(`edit (\S+): ?(.+?) => ?(.*)`), mutates: true, do: (*turn).edit},
		{usage: "ask me: QUESTION? A, B", help: "asks you", command: "ask-me", pattern: line(`/?ask[ -]me(?:[.!]|: *([^?]+\?) *(.*))?`), do: (*turn).question},
		{usage: "todo: A; B", help: "keeps a todo list while working through it", pattern: line(`todo: *(.+)`), do: (*turn).todo},
		{usage: "plan: TEXT", help: "asks for approval of a plan", pattern: line(`plan: *(.+)`), do: (*turn).plan},
		{usage: "delegate: TASK", help: "a subagent works in the foreground", pattern: line(`delegate: *(.+)`), do: (*turn).delegate},
		{usage: "delegate in background: TASK", help: "a subagent that outlives the turn", pattern: line(`delegate in background: *(.+)`), do: (*turn).delegateInBackground},
		{usage: "show tools", help: "one call of every kind of tool, made up", command: "show-tools", pattern: line(`/?show[ -]tools[.!]?`), do: (*turn).showTools},
		{usage: "draw", help: "a picture in a tool result", command: "draw", pattern: line(`/?draw[.!]?`), do: (*turn).draw},
		{usage: "notice TEXT", help: "a durable remark", pattern: line(`notice (.+)`), do: (*turn).notice},
		{usage: "fail with CODE", help: "ends the turn with an error", pattern: line(`fail(?: with ([A-Z_]+))?[.!]?`), do: (*turn).fail},
		{usage: "crash", help: "ends it with the death of a process", pattern: line(`crash[.!]?`), do: (*turn).crash},
	}
}

// steps reads a prompt. Files that were mentioned in it are not asked for.
func (a *Adapter) steps(prompt string) []step {
	var list []step
	prompt = exec.StripMentions(prompt)
	for line := range strings.Lines(prompt) {
		line = strings.TrimSpace(line)
		for _, p := range a.phrases {
			if m := p.pattern.FindStringSubmatch(line); m != nil {
				list = append(list, step{p, line, m[1:]})
				break
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	chat := &phrase{do: (*turn).chat}
	return []step{{chat, strings.TrimSpace(prompt), []string{strings.TrimSpace(prompt)}}}
}

// commandOf is the command line that the arguments of a phrase hold, without
// the backticks that mark it as code. Any others are the shell's.
func commandOf(args []string) string {
	line := strings.Join(args, "")
	if inner, ok := strings.CutPrefix(line, "`"); ok {
		if inner, ok = strings.CutSuffix(inner, "`"); ok && inner != "" && !strings.Contains(inner, "`") {
			return inner
		}
	}
	return line
}

// helpText lists the vocabulary in Markdown.
func (a *Adapter) helpText() string {
	var b strings.Builder
	b.WriteString("I am the demo agent. I need no account, and nothing leaves this machine. ")
	b.WriteString("I do what the lines of a message ask for:\n\n| write | and I |\n| --- | --- |\n")
	for _, p := range a.phrases {
		b.WriteString("| `" + p.usage + "` | " + p.help + " |\n")
	}
	return b.String()
}
