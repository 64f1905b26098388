package demo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"garcon/proto/row"
)

const (
	// maxFile is the largest file the agent reads, in bytes.
	maxFile = 1 << 20
	// maxListed is how many names a listing has.
	maxListed = 200
)

// errNotText is why a file is not shown.
var errNotText = errors.New("it is not a text file")

// project opens the project directory; nothing outside of it is touched, links
// included.
func (t *turn) project() (*os.Root, error) { return os.OpenRoot(t.launch.ProjectPath) }

func readFile(root *os.Root, path string) (string, error) {
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errNotText
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if !utf8.Valid(data) || strings.ContainsRune(string(data), 0) {
		return "", errNotText
	}
	return string(data), nil
}

func (t *turn) read(args []string) error {
	call, err := t.call(toolCall{Tool: row.Tool{Tool: row.ToolRead, Name: "read", Title: args[0], Input: row.ToolInput{Path: args[0]}}})
	if err != nil {
		return err
	}
	text, err := t.readProjectFile(args[0])
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	if err := t.result(call, row.ToolResult{Output: text}); err != nil {
		return err
	}
	return t.speak(fmt.Sprintf("`%s` has %d lines.", args[0], len(splitLines(text))), t.pace())
}

func (t *turn) readProjectFile(path string) (string, error) {
	root, err := t.project()
	if err != nil {
		return "", err
	}
	defer root.Close()
	return readFile(root, path)
}

func (t *turn) list([]string) error {
	call, err := t.call(toolCall{Tool: row.Tool{Tool: row.ToolList, Name: "list", Title: "List the project", Input: row.ToolInput{Path: "."}}})
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(t.launch.ProjectPath)
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	var b strings.Builder
	for _, e := range entries[:min(len(entries), maxListed)] {
		b.WriteString(e.Name())
		if e.IsDir() {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	if err := t.result(call, row.ToolResult{Output: b.String(), Truncated: len(entries) > maxListed}); err != nil {
		return err
	}
	return t.speak(fmt.Sprintf("The project has %d entr%s.", len(entries), map[bool]string{true: "y", false: "ies"}[len(entries) == 1]), t.pace())
}

// change is a new content of a file that is to be approved.
func (t *turn) change(call toolCall, path string, make func(before string) (string, error)) error {
	call.edits, call.rule, call.label = true, "edits", "Allow changes of files in the project for the session"
	call, err := t.call(call)
	if err != nil {
		return err
	}
	root, err := t.project()
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	defer root.Close()
	before, err := readFile(root, path)
	if errors.Is(err, fs.ErrNotExist) && call.Tool.Tool == row.ToolWrite {
		before, err = "", nil
	}
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	after, err := make(before)
	if err != nil {
		return t.resultOfFailure(call, err)
	}
	if ok, err := t.approve(call); !ok {
		return err
	}
	if err := writeFile(root, path, after); err != nil {
		return t.resultOfFailure(call, err)
	}
	if err := t.result(call, row.ToolResult{Diff: unifiedDiff(path, before, after), Output: fmt.Sprintf("%s now has %d bytes.", path, len(after))}); err != nil {
		return err
	}
	return t.speak("I changed `"+path+"`.", t.pace())
}

func writeFile(root *os.Root, path, text string) error {
	if dir := filepath.Dir(path); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	return root.WriteFile(path, []byte(text), 0o666)
}

func (t *turn) write(args []string) error {
	path, text := args[0], args[1]+"\n"
	call := toolCall{Tool: row.Tool{Tool: row.ToolWrite, Name: "write", Title: path, Input: row.ToolInput{Path: path, Content: text}}}
	return t.change(call, path, func(string) (string, error) { return text, nil })
}

func (t *turn) edit(args []string) error {
	path, before, after := args[0], args[1], args[2]
	call := toolCall{Tool: row.Tool{Tool: row.ToolEdit, Name: "edit", Title: path, Input: row.ToolInput{
		Path: path, Edits: []row.Edit{{Old: before, New: after}},
	}}}
	return t.change(call, path, func(text string) (string, error) {
		if !strings.Contains(text, before) {
			return "", fmt.Errorf("%s does not contain %q", path, before)
		}
		return strings.Replace(text, before, after, 1), nil
	})
}
