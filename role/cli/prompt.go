package cli

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"garcon/proto/api"
)

// promptArg is the name of positional arguments that hold a prompt.
const promptArg = "prompt"

// Prompt is the argument of commands that send a message.
type Prompt struct {
	Prompt []string `arg:"" optional:"" help:"The message; several words are joined by spaces. - reads it from standard input. Put a message that begins with a dash after --."`
}

// text returns the message.
func (p *Prompt) text(ctx context.Context, e *Env) (string, error) {
	if len(p.Prompt) == 0 {
		return "", usage("there is no message", "Give it as the last argument, or - to read it from standard input.")
	}
	text := strings.Join(p.Prompt, " ")
	if len(p.Prompt) == 1 && p.Prompt[0] == "-" {
		var err error
		if text, err = e.readText(ctx, "message", api.MaxPrompt); err != nil {
			return "", err
		}
	}
	switch {
	case len(text) > api.MaxPrompt:
		return "", usage(fmt.Sprintf("the message is over the limit of %d MiB", api.MaxPrompt>>20), "Put the text in a file and name the file in the message.")
	case !utf8.ValidString(text):
		return "", usage("the message is not UTF-8 text", "Convert it first, for example with iconv.")
	case strings.TrimSpace(text) == "":
		return "", usage("the message is empty", "")
	}
	return text, nil
}

// readText reads standard input as UTF-8 text of at most max bytes, without the
// line feed at its end. what names the text in errors.
func (e *Env) readText(ctx context.Context, what string, max int) (string, error) {
	data, err := interruptible(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(e.Stdin, int64(max)+1)) })
	if ctx.Err() != nil {
		return "", &Failure{Exit: ExitInterrupted, Message: "interrupted; nothing was sent", cause: ctx.Err()}
	}
	if err != nil {
		return "", usage(fmt.Sprintf("read the %s from standard input: %v", what, err), "")
	}
	switch {
	case len(data) > max:
		return "", usage(fmt.Sprintf("the %s on standard input is over the limit of %d bytes", what, max), "Put the text in a file and name the file in the message.")
	case !utf8.Valid(data):
		return "", usage(fmt.Sprintf("the %s on standard input is not UTF-8 text", what), "Convert it first, for example with iconv.")
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
}

// Arguments returns args with -- before a last argument that begins with a dash
// and cannot be a flag: one with white space before any equals sign, given to a
// command that takes a message. What looks like a flag is left alone, so that a
// misspelled flag stays an error and never becomes part of a message.
func Arguments(k *kong.Kong, args []string) []string {
	last := len(args) - 1
	if last < 1 || !looksLikeText(args[last]) {
		return args
	}
	for _, a := range args[:last] {
		if a == "--" {
			return args
		}
	}
	// What comes before says whether the last argument is a flag's value: then
	// the arguments do not parse without it.
	trace, err := kong.Trace(k, args[:last])
	if err != nil || trace.Error != nil {
		return args
	}
	node := trace.Selected()
	if node == nil || len(node.Positional) == 0 || node.Positional[len(node.Positional)-1].Name != promptArg {
		return args
	}
	out := append([]string{}, args[:last]...)
	return append(out, "--", args[last])
}

func looksLikeText(arg string) bool {
	if !strings.HasPrefix(arg, "-") {
		return false
	}
	name, _, _ := strings.Cut(arg, "=")
	return strings.ContainsAny(name, " \t\n\r")
}

// Attach is the flag of commands that send files along.
type Attach struct {
	Attach []string `help:"File to send along; may be repeated." placeholder:"FILE" sep:"none" short:"a"`
}

// upload sends the files to the server and returns how a submission names
// them. All are checked before the first is sent.
func (a *Attach) upload(ctx context.Context, i *Invocation) ([]api.AttachmentRef, error) {
	for _, name := range a.Attach {
		if err := checkAttachment(name); err != nil {
			return nil, err
		}
	}
	var refs []api.AttachmentRef
	for _, name := range a.Attach {
		ref, err := i.uploadFile(ctx, name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func checkAttachment(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return usage(fmt.Sprintf("attach: %v", err), "")
	case !info.Mode().IsRegular():
		return usage(fmt.Sprintf("attach %s: not a regular file", name), "")
	case info.Size() > api.MaxAttachment:
		return usage(fmt.Sprintf("attach %s: over the limit of %d MiB", name, api.MaxAttachment>>20), "Put the file into the project and name it in the message.")
	}
	return nil
}

func (i *Invocation) uploadFile(ctx context.Context, name string) (api.AttachmentRef, error) {
	f, err := os.Open(name)
	if err != nil {
		return api.AttachmentRef{}, usage(fmt.Sprintf("attach: %v", err), "")
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return api.AttachmentRef{}, usage(fmt.Sprintf("attach: %v", err), "")
	}
	mediaType, err := mediaTypeOf(f)
	if err != nil {
		return api.AttachmentRef{}, usage(fmt.Sprintf("attach %s: %v", name, err), "")
	}
	base := filepath.Base(name)
	var done api.Uploaded
	r := request{
		op: api.OpAttachmentsPut, query: url.Values{"name": {base}},
		raw: f, rawType: mediaType, rawSize: info.Size(),
	}
	if err := i.do(ctx, "send "+base, r, &done); err != nil {
		return api.AttachmentRef{}, err
	}
	return api.AttachmentRef{Name: done.Name, MediaType: done.MediaType, Digest: done.Digest}, nil
}

// mediaTypeOf returns the media type of the file: by its content where that is
// telling, else by its name. It leaves the file at its beginning.
func mediaTypeOf(f *os.File) (string, error) {
	head := make([]byte, 512) // what DetectContentType looks at
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sniffed := http.DetectContentType(head[:n])
	if !strings.HasPrefix(sniffed, "text/plain") && sniffed != "application/octet-stream" {
		return sniffed, nil
	}
	found := sniffed
	if byName := mime.TypeByExtension(filepath.Ext(f.Name())); byName != "" {
		found = byName
	}
	// Agents say what they take without parameters such as a charset.
	bare, _, err := mime.ParseMediaType(found)
	return bare, err
}
