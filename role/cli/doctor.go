package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"garcon/proto/api"
)

// Doctor checks an installation.
type Doctor struct{ Connection }

// Help implements kong's interface.
func (*Doctor) Help() string {
	return `The running controller is asked about its workspace, agents and transcripts; without one only the configuration directory is checked. The exit code is 1 when there is a problem.

Examples:

    garcon doctor
    garcon doctor --json | jq '.checks[] | select(.state != "ok")'`
}

// Run checks the configuration directory here and asks the server for the
// rest.
func (d *Doctor) Run(ctx context.Context, i *Invocation) error {
	checks := []api.Check{i.checkRoot()}
	report, err := i.askDoctor(ctx)
	if err != nil {
		if ExitCode(err) == ExitInterrupted {
			return err
		}
		checks = append(checks, checkOf("runtime", err))
	} else {
		checks = append(checks, api.Check{Name: "runtime", State: api.CheckOK, Text: fmt.Sprintf("the %s answers at %s and has proved itself", i.role, i.client.base)})
		checks = append(checks, report.Checks...)
	}
	if i.json {
		if err := i.document(api.Doctor{Checks: checks}); err != nil {
			return err
		}
	} else if err := i.printChecks(checks); err != nil {
		return err
	}
	problems := 0
	for _, c := range checks {
		if c.State == api.CheckProblem {
			problems++
		}
	}
	if problems > 0 {
		return &Failure{Exit: ExitFailed, Message: fmt.Sprintf("%d of %d checks found a problem", problems, len(checks))}
	}
	return nil
}

func (i *Invocation) askDoctor(ctx context.Context) (api.Doctor, error) {
	var report api.Doctor
	if err := i.connect(ctx); err != nil {
		return report, err
	}
	err := i.do(ctx, "ask for the report", request{op: api.OpDoctor}, &report)
	return report, err
}

// checkRoot checks the configuration directory: who can write there can have
// garcon run anything.
func (i *Invocation) checkRoot() api.Check {
	check := api.Check{Name: "configuration directory", State: api.CheckOK, Text: i.root}
	info, err := os.Stat(i.root)
	switch {
	case errors.Is(err, os.ErrNotExist):
		check.State, check.Text = api.CheckWarning, i.root+" does not exist yet"
		check.Hint = "The first garcon controller makes it."
	case err != nil:
		check.State, check.Text = api.CheckProblem, err.Error()
	case !info.IsDir():
		check.State, check.Text = api.CheckProblem, i.root+" is not a directory"
	case info.Mode().Perm()&0o022 != 0 && os.PathSeparator == '/':
		check.State, check.Text = api.CheckProblem, i.root+" can be written by other users"
		check.Hint = "chmod go-w " + shellQuote(i.root)
	}
	return check
}

// checkOf is the check of something that failed.
func checkOf(name string, err error) api.Check {
	check := api.Check{Name: name, State: api.CheckProblem, Text: err.Error()}
	if f, ok := errors.AsType[*Failure](err); ok {
		check.Hint = f.Hint
	}
	return check
}

func (i *Invocation) printChecks(checks []api.Check) error {
	for _, c := range checks {
		if !i.StdoutTerminal {
			if err := i.printf("%s\t%s\t%s\t%s\n", c.State, VisibleLine(c.Name), VisibleLine(c.Text), VisibleLine(c.Hint)); err != nil {
				return err
			}
			continue
		}
		if err := i.printf("%-8s %s: %s\n", c.State, VisibleLine(c.Name), VisibleLine(c.Text)); err != nil {
			return err
		}
		if c.Hint != "" {
			if err := i.printf("         %s\n", VisibleLine(c.Hint)); err != nil {
				return err
			}
		}
	}
	return nil
}
