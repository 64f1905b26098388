package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"garcon/proto/api"
	"garcon/proto/row"
)

type chatsRead struct {
	chatArg
	Last      int    `help:"Messages to print, newest last." short:"n" default:"20" placeholder:"N"`
	Before    *int64 `help:"Print what came before this ordinal." placeholder:"ORDINAL"`
	All       bool   `help:"Print the whole transcript."`
	Child     string `help:"Transcript of this subagent instead." placeholder:"ID"`
	Reasoning bool   `help:"Print the agent's thinking, too."`
	Full      bool   `help:"Print tool inputs and outputs whole."`
}

// Help implements kong's interface.
func (*chatsRead) Help() string {
	return `Examples:

    garcon chats read 1767225600000000
    garcon chats read --all --full --reasoning 1767225600000000 | less
    garcon chats read --json -n 1 1767225600000000`
}

// readDocument is the document of chats read.
type readDocument struct {
	api.Page
}

// Run prints a part of the transcript.
func (c *chatsRead) Run(ctx context.Context, i *Invocation) error {
	if c.Last < 1 || c.Last > api.MaxPageMessages {
		return usage("--last is from 1 to "+strconv.Itoa(api.MaxPageMessages), "Use --all to print everything.")
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	page, err := c.pages(ctx, i)
	if err != nil {
		return err
	}
	if i.json {
		page.Rows = slices.DeleteFunc(page.Rows, func(raw json.RawMessage) bool { return kindOf(raw) == row.KindSession })
		return i.document(readDocument{page})
	}
	show := renderer{full: c.Full, reasoning: c.Reasoning}
	for _, raw := range page.Rows {
		var x row.Row
		if err := json.Unmarshal(raw, &x); err != nil {
			i.note("a row cannot be understood: %v", err)
			continue
		}
		if text := show.row(x); text != "" {
			if err := i.printf("%s\n\n", text); err != nil {
				return err
			}
		}
	}
	if page.HasMore && len(page.Rows) > 0 {
		i.note("There is more before it: %s", i.command("chats", "read", "--before", strconv.FormatInt(firstOrdinal(page), 10), c.Chat))
	}
	return nil
}

// pages reads the messages that were asked for; a page of the server may stop
// earlier.
func (c *chatsRead) pages(ctx context.Context, i *Invocation) (api.Page, error) {
	left := c.Last
	if c.All {
		left = api.MaxPageMessages
	}
	var out api.Page
	before := c.Before
	for {
		query := url.Values{"max": {strconv.Itoa(left)}}
		if before != nil {
			query.Set("before", strconv.FormatInt(*before, 10))
		}
		if c.Child != "" {
			query.Set("child", c.Child)
		}
		if out.View != "" {
			query.Set("through", strconv.FormatInt(out.Through, 10))
		}
		var page api.Page
		if err := i.do(ctx, "read the transcript", request{op: api.OpChatsPage, path: []string{c.Chat}, query: query}, &page); err != nil {
			return api.Page{}, err
		}
		if out.View != "" && page.View != out.View {
			return api.Page{}, unavailable("the transcript was replaced while it was being read", "Read it again.", nil)
		}
		page.Rows = append(page.Rows, out.Rows...)
		if out.View != "" {
			page.Through = out.Through
		}
		out = page
		if !c.All {
			left = c.Last - messages(out.Rows)
		}
		if !out.HasMore || left <= 0 || len(out.Rows) == 0 {
			return out, nil
		}
		first := firstOrdinal(out)
		if before != nil && *before <= first {
			return out, nil
		}
		before = &first
	}
}

// messages counts the user and assistant rows.
func messages(rows []json.RawMessage) int {
	n := 0
	for _, raw := range rows {
		if k := kindOf(raw); k == row.KindUser || k == row.KindAssistant {
			n++
		}
	}
	return n
}

// kindOf returns the kind of an encoded row. Session rows are for support and
// never shown, not even to programs.
func kindOf(raw json.RawMessage) row.Kind {
	var head struct{ Kind row.Kind }
	if err := json.Unmarshal(raw, &head); err != nil {
		return ""
	}
	return head.Kind
}

func firstOrdinal(p api.Page) int64 {
	var head row.Head
	if err := json.Unmarshal(p.Rows[0], &head); err != nil {
		return 0
	}
	return head.Ordinal
}

type chatsExport struct {
	chatArg
	Output string `help:"File to write, default standard output." short:"o" placeholder:"FILE"`
	Format string `help:"markdown for people, json for programs." default:"markdown" enum:"markdown,json"`
	Force  bool   `help:"Replace the file if it is there."`
}

// Help implements kong's interface.
func (*chatsExport) Help() string {
	return `The file appears when it is complete.

Examples:

    garcon chats export -o chat.md 1767225600000000
    garcon chats export --format json 1767225600000000 | gzip > chat.json.gz`
}

// exportDocument is the document of chats export to a file.
type exportDocument struct {
	ChatID string `json:"chatId"`
	File   string `json:"file"`
	Format string `json:"format"`
	Bytes  int64  `json:"bytes"`
}

// Run writes the transcript.
func (c *chatsExport) Run(ctx context.Context, i *Invocation) error {
	if i.json && c.Output == "" {
		return usage("--json describes a written file", "Add -o FILE, or use --format json for the transcript itself.")
	}
	file := c.Output
	if file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(i.Dir, file)
		}
		if _, err := os.Lstat(file); err == nil && !c.Force {
			return usage(c.Output+" is there already", "Add --force to replace it.")
		}
	}
	if err := i.connect(ctx); err != nil {
		return err
	}
	r := request{op: api.OpChatsExport, path: []string{c.Chat}, query: url.Values{"format": {c.Format}}}
	reply, err := i.client.send(ctx, r)
	if err != nil {
		return i.explain(err, "export the chat")
	}
	defer func() { _ = reply.Body.Close() }()
	if file == "" {
		return i.copyOut(reply.Body)
	}
	n, err := writeFile(file, reply.Body)
	if err != nil {
		return i.explain(&transportError{true, err}, "export the chat to "+c.Output)
	}
	if i.json {
		return i.document(exportDocument{c.Chat, file, c.Format, n})
	}
	return i.printf("%s\n", VisibleLine(file))
}

// copyOut copies foreign bytes to standard output: as they are into a pipe,
// visibly to a terminal.
func (i *Invocation) copyOut(r io.Reader) error {
	if !i.StdoutTerminal {
		if _, err := io.Copy(i.Stdout, r); err != nil {
			return i.explain(&transportError{true, err}, "export the chat")
		}
		return nil
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if printErr := i.printf("%s", Visible(line)); printErr != nil {
			return printErr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return i.explain(&transportError{true, err}, "export the chat")
		}
	}
}

// writeFile writes what r gives to the file and returns its size. The file
// appears when it is complete, readable by its owner only.
func writeFile(file string, r io.Reader) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if n, err = io.Copy(f, r); err != nil {
		return 0, err
	}
	if err = f.Sync(); err != nil {
		return 0, err
	}
	if err = f.Close(); err != nil {
		return 0, err
	}
	return n, os.Rename(f.Name(), file)
}
