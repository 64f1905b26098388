package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// description heads the program's help.
const description = `Garcon runs, watches, steers and keeps the work of several coding agents.

Start the controller in one terminal, and talk to it from any other.`

// Run runs the command that args name and returns the exit code. grammar is a
// pointer to the program's kong structure, which holds [Global] and may hold
// more commands than this package's; bind are further values for their Run
// methods.
func Run(ctx context.Context, e *Env, grammar any, g *Global, args []string, bind ...any) int {
	// Kong ends the process for --help; here it only ends the parsing.
	type ended struct{ code int }
	code := func() (code int) {
		defer func() {
			switch v := recover().(type) {
			case nil:
			case ended:
				code = v.code
			default:
				panic(v)
			}
		}()
		k, err := kong.New(grammar,
			kong.Name("garcon"), kong.Description(description),
			kong.Writers(e.Stdout, e.Stderr), kong.Exit(func(code int) { panic(ended{code}) }),
			kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
			kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(append([]any{e, g}, bind...)...),
		)
		if err != nil {
			return e.Report(fmt.Errorf("command grammar: %w", err))
		}
		command, err := k.Parse(Arguments(k, args))
		if err != nil {
			return e.Report(parseFailure(err))
		}
		return e.Report(command.Run())
	}()
	return code
}

// parseFailure turns an error of kong into a failure for invalid use.
func parseFailure(err error) error {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	command := "garcon"
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	hint := "See: " + command + " --help"
	if strings.HasPrefix(err.Error(), "unknown flag") {
		hint = "A message that begins with a dash goes after --. " + hint
	}
	return usage(err.Error(), hint)
}

// UnsetEmpty removes empty GARCON_ variables from the environment of this
// process: empty is unset, for every flag that has a variable.
func UnsetEmpty() {
	for _, entry := range os.Environ() {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "GARCON_") && value == "" {
			_ = os.Unsetenv(name)
		}
	}
}
