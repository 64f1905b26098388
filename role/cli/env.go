package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/term"
)

// Schema is the version of the documents that --json prints. Members are only
// ever added within a version.
const Schema = 1

// defaultWidth is the width of a terminal that does not say.
const defaultWidth = 80

// Env is what a command sees of its process. A command uses nothing else, so
// that tests can run it in theirs.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// StdinFD is the descriptor behind Stdin when it is a terminal, else -1.
	StdinFD        int
	StdoutTerminal bool
	StderrTerminal bool
	// Width is the number of columns of the terminal behind Stdout.
	Width  int
	Getenv func(string) string
	// Dir is the current directory, empty when there is none.
	Dir string
	// Home is the user's home directory, empty when there is none.
	Home string

	// json says that the command prints a document, printed that it has.
	json    bool
	printed bool
}

// OSEnv returns the environment of this process.
func OSEnv() *Env {
	e := &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, StdinFD: -1,
		StdoutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		StderrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Width:          defaultWidth,
		Getenv:         os.Getenv,
	}
	if fd := int(os.Stdin.Fd()); term.IsTerminal(fd) {
		e.StdinFD = fd
	}
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		e.Width = w
	}
	e.Dir, _ = os.Getwd()
	e.Home, _ = os.UserHomeDir()
	return e
}

// Root returns the configuration directory as an absolute path: dir, or
// ~/.garcon when it is empty.
func (e *Env) Root(dir string) (string, error) {
	switch {
	case dir != "" && filepath.IsAbs(dir):
		return filepath.Clean(dir), nil
	case dir != "":
		if e.Dir == "" {
			return "", usage("the configuration directory is relative, and there is no current directory", "Give --config-dir an absolute path.")
		}
		return filepath.Join(e.Dir, dir), nil
	case e.Home == "":
		return "", usage("there is no home directory to keep the configuration in", "Set HOME, or give --config-dir.")
	}
	return filepath.Join(e.Home, ".garcon"), nil
}

// Report prints a command's error, if any, and returns the exit code. With
// --json it also prints the document that the command has not printed.
func (e *Env) Report(err error) int {
	if err == nil {
		return ExitOK
	}
	failure, ok := errors.AsType[*Failure](err)
	if !ok {
		failure = &Failure{Exit: ExitCode(err), Message: err.Error()}
	}
	if e.json && !e.printed {
		doc := struct {
			Error errorDocument `json:"error"`
		}{errorDocument{string(failure.Code), failure.Exit, failure.Message, failure.Hint}}
		if err := e.document(doc); err != nil {
			fmt.Fprintf(e.Stderr, "garcon: print the result: %v\n", err)
		}
	}
	fmt.Fprintf(e.Stderr, "garcon: %s\n", Visible(failure.Message))
	if failure.Hint != "" {
		fmt.Fprintf(e.Stderr, "  %s\n", Visible(failure.Hint))
	}
	return failure.Exit
}

// errorDocument is the member "error" of a document.
type errorDocument struct {
	Code    string `json:"code,omitempty"`
	Exit    int    `json:"exit"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// document prints v, which encodes as an object, with the schema number and
// indentation.
func (e *Env) document(v any) error {
	e.printed = true
	doc, err := encode(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, doc, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	return e.write(out.Bytes())
}

// line prints v as [Env.document] does, on one line.
func (e *Env) line(v any) error {
	e.printed = true
	doc, err := encode(v)
	if err != nil {
		return err
	}
	return e.write(append(doc, '\n'))
}

// encode returns v as one JSON object that begins with the schema number and
// holds no character that a terminal would act on.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	// HTML escapes would make source code hard to read.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the result: %w", err)
	}
	body := bytes.TrimSpace(buf.Bytes())
	doc := fmt.Appendf(nil, `{"schema":%d`, Schema)
	if len(body) > len("{}") {
		doc = append(doc, ',')
	}
	return visibleJSON(append(doc, body[1:]...)), nil
}

// write writes a result. A reader that went away, as head does, is an error
// like any other.
func (e *Env) write(p []byte) error {
	if _, err := e.Stdout.Write(p); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// printf prints a result.
func (e *Env) printf(format string, args ...any) error {
	return e.write(fmt.Appendf(nil, format, args...))
}

// note prints a remark for people.
func (e *Env) note(format string, args ...any) {
	fmt.Fprintf(e.Stderr, format+"\n", args...)
}
