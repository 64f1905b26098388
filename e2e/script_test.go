package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts of the command line. Beside testscript's own
// commands they have:
//
//	garcon CODE ARG...         runs garcon, which must end with the exit code
//	controller [ARG...]        starts a controller with the demo agent
//	controller-fails CODE ARG... runs one that must end by itself
//	kill-controller            kills it as nothing can prevent
//	stop-controller            asks it to end, which must work
//	nothing-left               fails when a process of the script is left
//	capture NAME REGEXP        sets a variable to what REGEXP's group matches in
//	                           the last standard output
//	json PATH [VALUE]          the last standard output is one JSON document whose
//	                           member at PATH is there, and is VALUE; a path is
//	                           like chats.0.title, and chats.len is a length
//	no-json PATH               the member is not there
//	until REGEXP ARG...        runs garcon until its standard output matches
//	begin NAME ARG...          runs garcon in the background
//	interrupt NAME             interrupts it
//	printed NAME REGEXP        waits until its output matches
//	finish NAME CODE           waits for its end with the exit code
//	file NAME SIZE             makes a text file of the size in bytes
//	mode FILE OCTAL            fails unless the file has the permissions
//	descriptor EDIT...         rewrites the descriptor: a member and its value in
//	                           JSON each
//
// $HOME, $ROOT and $PROJECT are those of the script's [World]; a script begins
// in its project.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "scripts"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			w := New(env.T().(testing.TB))
			s := &script{w: w, background: map[string]*background{}}
			env.Values[scriptKey] = s
			env.Vars = append(slices.DeleteFunc(env.Vars, func(e string) bool {
				return strings.HasPrefix(e, "PATH=") || strings.HasPrefix(e, "HOME=") || strings.HasPrefix(e, "TMPDIR=")
			}), w.Env()...)
			env.Setenv("ROOT", w.Root)
			env.Setenv("PROJECT", w.Project)
			env.Setenv("WORLD", w.Dir)
			env.Cd = w.Project
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"garcon": garcon, "controller": controllerStart, "controller-fails": controllerFails,
			"kill-controller": killController, "stop-controller": stopController, "nothing-left": nothingLeft,
			"capture": capture, "json": jsonPath, "no-json": noJSONPath, "until": untilOutput,
			"begin": begin, "interrupt": interrupt, "printed": printed, "finish": finish,
			"file": makeFile, "mode": fileMode, "descriptor": editDescriptor,
		},
	})
}

type scriptKeyType struct{}

// scriptKey is where a script keeps its [script].
var scriptKey scriptKeyType

// script is the state of one script.
type script struct {
	w          *World
	controller *Role
	background map[string]*background
}

// background is a command that runs beside the script.
type background struct {
	cmd            *exec.Cmd
	stdout, stderr *logBuffer
	done           chan struct{}
}

func state(ts *testscript.TestScript) *script { return ts.Value(scriptKey).(*script) }

// usage fails the script when a command has too few arguments.
func usage(ts *testscript.TestScript, neg bool, args []string, least int) {
	if neg || len(args) < least {
		ts.Fatalf("usage: see TestScripts")
	}
}

func garcon(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1)
	run(ts, args[0], args[1:])
}

func run(ts *testscript.TestScript, code string, args []string) {
	want, err := strconv.Atoi(code)
	ts.Check(err)
	got := 0
	err = ts.Exec(state(ts).w.binary, args...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func controllerStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 0)
	s := state(ts)
	s.controller = s.w.Controller(args...)
	ts.Setenv("URL", s.controller.Descriptor.URL)
	ts.Setenv("PID", strconv.Itoa(s.controller.PID()))
}

func controllerFails(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1)
	run(ts, args[0], append([]string{"controller"}, args[1:]...))
}

func running(ts *testscript.TestScript) *Role {
	c := state(ts).controller
	if c == nil {
		ts.Fatalf("no controller has been started")
	}
	return c
}

func killController(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 0)
	running(ts).Kill()
}

func stopController(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 0)
	c := running(ts)
	if code := c.Stop(); code != 0 {
		ts.Fatalf("the controller ended with %d\n%s", code, c.Logs())
	}
}

func nothingLeft(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 0)
	s := state(ts)
	left := s.w.WaitNothingLeft()
	if len(left) > 0 {
		ts.Fatalf("processes are left over: %v", left)
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) != 2 {
		ts.Fatalf("no match of %s with one group in:\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}

// lookup returns the member of the last document at a path such as
// chats.0.title.
func lookup(ts *testscript.TestScript, path string) (any, bool) {
	var value any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	ts.Check(dec.Decode(&value))
	if dec.More() {
		ts.Fatalf("standard output holds more than one document")
	}
	if m, ok := value.(map[string]any); !ok || fmt.Sprint(m["schema"]) != "1" {
		ts.Fatalf("the document has no schema 1")
	}
	for _, name := range strings.Split(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			member, ok := v[name]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			if name == "len" {
				value = json.Number(strconv.Itoa(len(v)))
				continue
			}
			n, err := strconv.Atoi(name)
			if err != nil || n >= len(v) {
				return nil, false
			}
			value = v[n]
		default:
			return nil, false
		}
	}
	return value, true
}

func jsonPath(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1)
	value, ok := lookup(ts, args[0])
	if !ok {
		ts.Fatalf("the document has no %s", args[0])
	}
	if len(args) > 1 && fmt.Sprint(value) != args[1] {
		ts.Fatalf("%s is %q, want %q", args[0], fmt.Sprint(value), args[1])
	}
}

func noJSONPath(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1)
	if value, ok := lookup(ts, args[0]); ok {
		ts.Fatalf("%s is %v", args[0], value)
	}
}

func untilOutput(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	want := regexp.MustCompile("(?m)" + args[0])
	deadline := time.Now().Add(goneTimeout)
	for {
		err := ts.Exec(state(ts).w.binary, args[1:]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no match of %s: %v", args[0], err)
		}
	}
}

func begin(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	s := state(ts)
	b := &background{cmd: exec.Command(s.w.binary, args[1:]...), stdout: &logBuffer{}, stderr: &logBuffer{}, done: make(chan struct{})}
	b.cmd.Env, b.cmd.Dir = s.w.Env(), s.w.Project
	b.cmd.Stdout, b.cmd.Stderr = b.stdout, b.stderr
	ts.Check(b.cmd.Start())
	go func() {
		_ = b.cmd.Wait() // the exit code says it
		close(b.done)
	}()
	ts.Defer(func() {
		_ = b.cmd.Process.Kill()
		<-b.done
	})
	s.background[args[0]] = b
}

func named(ts *testscript.TestScript, name string) *background {
	b := state(ts).background[name]
	if b == nil {
		ts.Fatalf("nothing is running as %s", name)
	}
	return b
}

func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 1)
	ts.Check(named(ts, args[0]).cmd.Process.Signal(os.Interrupt))
}

func printed(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	b, want := named(ts, args[0]), regexp.MustCompile("(?m)"+args[1])
	deadline := time.After(goneTimeout)
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for !want.MatchString(b.stdout.String()) && !want.MatchString(b.stderr.String()) {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s did not print %s\n%s\n%s", args[0], args[1], b.stdout, b.stderr)
		}
	}
	publish(ts, args[0], b)
}

// publish writes what a background command printed to files.
func publish(ts *testscript.TestScript, name string, b *background) {
	ts.Check(os.WriteFile(ts.MkAbs(name+".out"), []byte(b.stdout.String()), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(name+".err"), []byte(b.stderr.String()), 0o600))
}

func finish(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	b := named(ts, args[0])
	select {
	case <-b.done:
	case <-time.After(stopTimeout):
		ts.Fatalf("%s did not end\n%s\n%s", args[0], b.stdout, b.stderr)
	}
	publish(ts, args[0], b)
	if code := strconv.Itoa(shellCode(b.cmd.ProcessState)); code != args[1] {
		ts.Fatalf("%s ended with %s, want %s\n%s\n%s", args[0], code, args[1], b.stdout, b.stderr)
	}
}

// shellCode returns the exit code as a shell says it. An interrupt may arrive
// before the program has begun to listen for it.
func shellCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

func makeFile(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	line := []byte("All work and no play makes a long message for a patient agent.\n")
	text := bytes.Repeat(line, size/len(line)+1)[:size]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

func fileMode(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	info, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[1] {
		ts.Fatalf("%s has mode %s, want %s", args[0], got, args[1])
	}
}

func editDescriptor(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, args, 2)
	file := filepath.Join(state(ts).w.Root, "runtime.json")
	data, err := os.ReadFile(file)
	ts.Check(err)
	members := map[string]json.RawMessage{}
	ts.Check(json.Unmarshal(data, &members))
	for n := 0; n+1 < len(args); n += 2 {
		if args[n+1] == "-" {
			delete(members, args[n])
			continue
		}
		members[args[n]] = json.RawMessage(args[n+1])
	}
	data, err = json.Marshal(members)
	ts.Check(err)
	ts.Check(os.WriteFile(file, data, 0o600))
}
