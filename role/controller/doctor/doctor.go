// Package doctor checks a running controller: its files, its executors, their
// agents and what earlier processes left behind. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/role/controller/chat"
	"garcon/store"
)

// Doctor knows what to look at.
type Doctor struct {
	Root      *store.Root
	Workspace *store.Workspace
	Chats     *chat.Service
	Runtimes  []exec.Runtime
	Version   string
}

// lowSpace is how many bytes free make a warning: a day of busy transcripts.
const lowSpace = 512 << 20

// Run makes all checks. Those of different executors run side by side.
func (d *Doctor) Run(ctx context.Context) api.Doctor {
	checks := []api.Check{
		{Name: "controller", State: api.CheckOK, Text: "garcon " + d.Version + " holds the lease of " + d.Root.Dir()},
		d.space(),
	}
	checks = append(checks, d.ledgers()...)
	found := make([][]api.Check, len(d.Runtimes))
	var wg sync.WaitGroup
	for i, rt := range d.Runtimes {
		wg.Go(func() { found[i] = d.executor(ctx, rt) })
	}
	wg.Wait()
	return api.Doctor{Checks: slices.Concat(append([][]api.Check{checks}, found...)...)}
}

func (d *Doctor) space() api.Check {
	var fs unix.Statfs_t
	if err := unix.Statfs(d.Root.Dir(), &fs); err != nil {
		return api.Check{Name: "disk", State: api.CheckWarning, Text: "free space is not known: " + err.Error()}
	}
	free := uint64(fs.Bavail) * uint64(fs.Bsize)
	c := api.Check{Name: "disk", State: api.CheckOK, Text: fmt.Sprintf("%d MiB free for %s", free>>20, d.Root.Dir())}
	if free < lowSpace {
		c.State, c.Hint = api.CheckWarning, "Free some space: when the disk is full, turns fail."
	}
	return c
}

func (d *Doctor) ledgers() []api.Check {
	bad := d.Workspace.Quarantined()
	if len(bad) == 0 {
		return []api.Check{{Name: "transcripts", State: api.CheckOK, Text: fmt.Sprintf("%d chats, none set aside as damaged", len(d.Chats.List(chat.Filter{Archived: true})))}}
	}
	var out []api.Check
	for _, q := range bad {
		out = append(out, api.Check{
			Name: "transcripts", State: api.CheckProblem,
			Text: fmt.Sprintf("chat %s: damaged (%s), kept as %s", q.ChatID, q.Reason, q.Path),
			Hint: "The other chats are not affected. Restore the file from a backup, or delete the chat.",
		})
	}
	return out
}

func (d *Doctor) executor(ctx context.Context, rt exec.Runtime) []api.Check {
	name := "executor " + rt.ID()
	if a := rt.Availability(); a != exec.Ready {
		return []api.Check{{Name: name, State: api.CheckProblem, Text: "it is " + string(a)}}
	}
	info, err := rt.Info(ctx)
	if err != nil {
		return []api.Check{{Name: name, State: api.CheckProblem, Text: err.Error()}}
	}
	out := []api.Check{{Name: name, State: api.CheckOK, Text: fmt.Sprintf("ready on %s (%s/%s), projects below %s", info.Hostname, info.OS, info.Arch, info.ProjectBase)}}
	if n := len(info.Swept); n > 0 {
		commands := make([]string, n)
		for i, p := range info.Swept {
			commands[i] = fmt.Sprintf("%s (pid %d)", p.Command, p.PID)
		}
		out = append(out, api.Check{
			Name: name, State: api.CheckWarning,
			Text: fmt.Sprintf("%d processes of an earlier run were ended at start: %s", n, strings.Join(commands, ", ")),
		})
	}
	list, err := d.Chats.Agents(ctx, rt.ID())
	if err != nil {
		return append(out, api.Check{Name: name, State: api.CheckProblem, Text: err.Error()})
	}
	for _, a := range list.Agents {
		out = append(out, agentCheck(name, a))
	}
	return out
}

// agentCheck describes one agent. One that is not installed is no problem:
// nobody uses them all.
func agentCheck(executor string, a api.Agent) api.Check {
	c := api.Check{Name: executor + " agent " + a.ID, State: api.CheckOK}
	switch s := a.Auth; {
	case a.Problem != "":
		c.State, c.Text = api.CheckProblem, a.Problem
	case s == nil:
		c.Text = "available"
	case !s.Installed:
		c.State, c.Text, c.Hint = api.CheckWarning, "not installed", s.Install
	case !s.Supported:
		c.State, c.Text, c.Hint = api.CheckProblem, "version "+s.Version+" is not supported", s.Install
		if s.Problem != "" {
			c.Text = s.Problem
		}
	case s.SignedIn == "no":
		c.State, c.Text, c.Hint = api.CheckProblem, "version "+s.Version+", not signed in", s.SignIn
	default:
		c.Text = strings.TrimSpace("version " + s.Version + " " + s.Method)
		if s.Version == "" {
			c.Text = firstOf(s.Method, "available")
		}
		if s.Problem != "" {
			c.State, c.Text = api.CheckWarning, s.Problem
		}
	}
	return c
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
