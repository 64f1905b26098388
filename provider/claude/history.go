package claude

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// history implements [exec.History] over the files of the CLI.
type history struct{ *adapter }

// Limits of history.
const (
	// maxSessions bounds a list when the caller does not.
	maxSessions = 500
	// peekSize is how much of the start and of the end of a file is read for
	// its title, in bytes: the first prompt stands behind what was injected
	// with it.
	peekSize = 256 << 10
	// batchRows is how many rows a read returns, if there are so many.
	batchRows = 64
	// batchBytes bounds a batch, in bytes of input.
	batchBytes = 1 << 20
)

// Sessions implements [exec.History].
func (h history) Sessions(ctx context.Context, projectPath string, limit int) ([]exec.NativeSession, error) {
	if limit <= 0 || limit > maxSessions {
		limit = maxSessions
	}
	dir := h.transcripts().project(projectPath)
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, exec.Errorf(exec.CodeInternal, "list sessions of Claude Code: %w", err)
	}
	var sessions []exec.NativeSession
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), transcriptExt)
		info, err := f.Info()
		if !ok || !isUUID(id) || err != nil || !info.Mode().IsRegular() {
			continue
		}
		sessions = append(sessions, exec.NativeSession{ID: id, ProjectPath: projectPath, Updated: info.ModTime().UnixMilli(), Size: info.Size()})
	}
	slices.SortFunc(sessions, func(a, b exec.NativeSession) int {
		return cmp.Or(cmp.Compare(b.Updated, a.Updated), strings.Compare(a.ID, b.ID))
	})
	here := canonical(projectPath)
	kept := sessions[:0]
	for _, s := range sessions {
		if err := ctx.Err(); err != nil {
			return nil, exec.AsError(err)
		}
		title, cwd, said := peek(ctx, filepath.Join(dir, s.ID+transcriptExt))
		// Different projects can share a directory, see projectName.
		if !said || cwd != "" && canonical(cwd) != here {
			continue
		}
		s.Title = title
		if kept = append(kept, s); len(kept) == limit {
			break
		}
	}
	return kept, nil
}

// peek reads the title and the directory of a session without reading all of
// it. said is false for a session in which nothing was said.
func peek(ctx context.Context, path string) (title, cwd string, said bool) {
	f, size, err := openTranscript(path)
	if err != nil {
		return "", "", false
	}
	defer f.Close()
	var prompt, named, generated string
	look := func(line []byte) {
		var e entry
		if decode(line, &e) != nil {
			return
		}
		named = first(e.CustomTitle, e.AgentName, named)
		generated = first(e.AITitle, generated)
		if cwd == "" {
			cwd = e.Cwd
		}
		if e.Type == "user" || e.Type == "assistant" {
			said = true
		}
		if prompt == "" && e.Type == "user" && !e.hidden() {
			for _, b := range e.Message.Content {
				if text, _ := promptText(b.Text); b.Type == "text" && text != "" {
					prompt = oneLine(exec.StripMentions(text))
					break
				}
			}
		}
	}
	// A file that cannot be read has what was read of it.
	_ = entries(ctx, f, min(size, peekSize), look)
	if size > peekSize {
		if _, err := f.Seek(max(peekSize, size-peekSize), io.SeekStart); err == nil {
			_ = entries(ctx, f, peekSize, look)
		}
		said = true
	}
	return oneLine(first(named, generated, prompt)), cwd, said
}

// Revision implements [exec.History].
func (h history) Revision(ctx context.Context, projectPath, native string) (string, error) {
	path, _, err := h.resolve(ctx, projectPath, native)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", exec.Errorf(exec.CodeSessionMissing, "the session is gone: %w", err)
	}
	return fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano()), nil
}

// resolve finds the file of a session or of a fork, and the entry at which a
// fork that was not made yet ends.
func (h history) resolve(ctx context.Context, projectPath, native string) (path, leaf string, err error) {
	ref, err := parseNative(native)
	if err != nil {
		return "", "", err
	}
	session := ref.session
	if ref.fork != nil {
		if session = ref.fork.id; !h.transcripts().has(session) {
			session, leaf = ref.fork.source, ref.fork.at
		}
	}
	h.flushed(ctx, projectPath, session)
	path, err = h.transcripts().find(projectPath, session)
	return path, leaf, err
}

// Open implements [exec.History].
func (h history) Open(ctx context.Context, projectPath, native string) (exec.HistoryReader, error) {
	path, leaf, err := h.resolve(ctx, projectPath, native)
	if err != nil {
		return nil, err
	}
	r := &historyReader{dir: strings.TrimSuffix(path, transcriptExt), mapper: newMapper(projectPath), seen: map[string]bool{}}
	r.agents = readAgents(filepath.Join(r.dir, subagentDir))
	if err := r.open(ctx, path, leaf); err != nil {
		return nil, err
	}
	return r, nil
}

// subagentDir holds the transcripts of a session's subagents.
const subagentDir = "subagents"

// readAgents reads which call started which subagent.
func readAgents(dir string) map[string]string {
	agents := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		return agents
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".meta.json")
		if !ok || !f.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		var meta struct {
			ToolUseID string `json:"toolUseId"`
		}
		if err == nil && decode(data, &meta) == nil && meta.ToolUseID != "" {
			agents[meta.ToolUseID] = strings.TrimPrefix(id, "agent-")
		}
	}
	return agents
}

// historyReader reads one session. It is for one goroutine.
type historyReader struct {
	// dir holds the side files of the session.
	dir string
	// agents are the subagents by the call that started them, as far as the
	// CLI noted that.
	agents map[string]string
	mapper mapper
	// files are open files, the one being read last: a subagent's transcript
	// is read where it reported.
	files []*historyFile
	// seen are the children that were read.
	seen map[string]bool

	rows []row.Row
}

// historyFile is one file being read.
type historyFile struct {
	f     *os.File
	lines func() ([]byte, error)
	// members are the entries to take.
	members map[string]bool
	child   string
	// held is the newest answer: the next entry tells whether it is the last
	// of its turn.
	held    *row.Row
	ended   bool // the held answer ended its turn
	compact *row.Row
}

// open begins a file. An empty leaf means the end of the conversation.
func (r *historyReader) open(ctx context.Context, path, leaf string) error {
	f, size, err := openTranscript(path)
	if err != nil {
		return err
	}
	ix, err := buildIndex(ctx, f, size)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return exec.AsError(err)
	}
	r.files = append(r.files, &historyFile{
		f: f, lines: lineSource(f, size), members: ix.chain(first(leaf, ix.tip())),
	})
	return nil
}

// openChild begins the transcript of a subagent.
func (r *historyReader) openChild(id string) {
	if r.seen[id] || !safeName(id) {
		return
	}
	r.seen[id] = true
	f, size, err := openTranscript(filepath.Join(r.dir, subagentDir, "agent-"+id+transcriptExt))
	if err != nil {
		// A subagent without a transcript is still named by its row.
		return
	}
	r.files = append(r.files, &historyFile{f: f, lines: lineSource(f, size), child: id})
}

// safeName reports whether an id from a file can be part of a file name.
func safeName(id string) bool {
	return id != "" && len(id) <= 100 && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// Next implements [exec.HistoryReader].
func (r *historyReader) Next(ctx context.Context) ([]row.Row, error) {
	r.rows = nil
	read := 0
	for len(r.files) > 0 && len(r.rows) < batchRows && read < batchBytes {
		if err := ctx.Err(); err != nil {
			return nil, exec.AsError(err)
		}
		hf := r.files[len(r.files)-1]
		line, err := hf.lines()
		if err == io.EOF {
			r.settle(hf, true)
			hf.f.Close()
			r.files = slices.DeleteFunc(r.files, func(f *historyFile) bool { return f == hf })
			continue
		}
		if err != nil {
			return nil, exec.Errorf(exec.CodeInternal, "read the session: %w", err)
		}
		read += len(line)
		if bytes.Contains(line, uuidKey) {
			var e entry
			if decode(line, &e) == nil && r.wanted(hf, &e) {
				r.entry(hf, &e)
			}
		}
	}
	if len(r.rows) == 0 && len(r.files) == 0 {
		return nil, io.EOF
	}
	return r.rows, nil
}

// Close implements [io.Closer].
func (r *historyReader) Close() error {
	var err error
	for _, f := range r.files {
		err = cmp.Or(err, f.f.Close())
	}
	r.files = nil
	return err
}

// wanted reports whether an entry is part of what the file is read for. Each is
// taken once: a CLI that resumed may have written some again.
func (r *historyReader) wanted(hf *historyFile, e *entry) bool {
	if !e.conversational() {
		return false
	}
	if hf.child != "" {
		return true
	}
	ok := hf.members[e.UUID]
	delete(hf.members, e.UUID)
	return ok
}

// add appends a row of an entry.
func (r *historyReader) add(hf *historyFile, native, timestamp string, b row.Body) {
	r.settle(hf, false)
	r.rows = append(r.rows, hf.row(native, timestamp, b))
}

func (hf *historyFile) row(native, timestamp string, b row.Body) row.Row {
	return row.Row{Head: row.Head{NativeID: native, Time: unixMilli(timestamp), Child: hf.child, Imported: true}, Body: b}
}

// settle appends what was held back. last says that a turn is over.
func (r *historyReader) settle(hf *historyFile, last bool) {
	if hf.compact != nil {
		r.rows = append(r.rows, *hf.compact)
		hf.compact = nil
	}
	if hf.held != nil {
		hf.held.Body.(*row.Assistant).Final = last && hf.ended && hf.child == ""
		r.rows = append(r.rows, *hf.held)
		hf.held = nil
	}
}

// entry turns one entry into rows.
func (r *historyReader) entry(hf *historyFile, e *entry) {
	switch e.Type {
	case "system":
		if e.Subtype == "compact_boundary" {
			r.settle(hf, true)
			c := hf.row(e.UUID, e.Timestamp, &row.Compaction{
				Trigger: e.Compact.Trigger, TokensBefore: e.Compact.PreTokens, TokensAfter: e.Compact.PostTokens,
			})
			hf.compact = &c
		}
	case "attachment":
		// A message that was taken into a running turn.
		if a := &e.Attachment; a.Type == "queued_command" && a.CommandMode == "prompt" {
			r.prompt(hf, first(a.SourceUUID, e.UUID), e.Timestamp, a.Prompt, true)
		}
	case "assistant":
		r.assistant(hf, e)
	case "user":
		r.user(hf, e)
	}
}

func (r *historyReader) assistant(hf *historyFile, e *entry) {
	if e.IsAPIError {
		failure := apiFailure{kind: e.errorKind(), status: e.APIErrorStatus, reason: e.Message.StopReason, text: e.Message.Content.text()}.err()
		r.add(hf, e.UUID, e.Timestamp, &row.Error{Code: string(failure.Code), Title: "The turn failed", Text: failure.Message})
		return
	}
	for i, b := range e.Message.Content {
		id := nativeID(e.UUID, i)
		switch {
		case b.Type == "text":
			if text := strings.TrimSpace(b.Text); text == "" || e.Message.Model == syntheticModel && (text == noResponse || text == noContent) {
				continue
			}
			r.settle(hf, false)
			held := hf.row(id, e.Timestamp, &row.Assistant{Text: b.Text})
			hf.held, hf.ended = &held, e.Message.StopReason != "tool_use"
		case b.Type == "thinking" && b.Thinking != "":
			r.add(hf, id, e.Timestamp, &row.Reasoning{Text: b.Thinking})
		case blockKind(b.Type) == row.KindTool:
			r.add(hf, id, e.Timestamp, r.mapper.call(b, hf.child))
		case b.ToolUseID != "":
			r.add(hf, id, e.Timestamp, r.mapper.result(b, nil, ""))
		}
	}
}

func (r *historyReader) user(hf *historyFile, e *entry) {
	if e.IsCompactSummary {
		if summary, ok := compactSummary(e.Message.Content.text()); ok && hf.compact != nil {
			hf.compact.Body.(*row.Compaction).Summary = summary
			r.settle(hf, false)
		}
		return
	}
	if e.hidden() {
		return
	}
	var said content
	for i, b := range e.Message.Content {
		if b.Type != "tool_result" {
			said = append(said, b)
			continue
		}
		call := r.mapper.calls[b.ToolUseID]
		res := r.mapper.result(b, e.ToolUseResult, e.denial())
		r.add(hf, nativeID(e.UUID, i), e.Timestamp, res)
		r.child(hf, e, b.ToolUseID, call, res)
	}
	if len(said) > 0 {
		r.prompt(hf, e.UUID, e.Timestamp, said, false)
	}
}

// hidden reports whether nobody wrote the texts of a user entry.
func (e *entry) hidden() bool { return e.IsMeta || e.Origin.Kind == "task-notification" }

func (e *entry) denial() string {
	if e.ToolDenialKind == "" && string(e.ToolUseResult) == `"User rejected tool use"` {
		return denialByUser
	}
	return e.ToolDenialKind
}

// child writes the subagent that a call started, and reads its transcript next.
func (r *historyReader) child(hf *historyFile, e *entry, callID string, call callInfo, res *row.ToolResult) {
	if call.tool != row.ToolTask {
		return
	}
	var s structured
	// Without it there is the note beside the subagent's transcript.
	_ = decode(e.ToolUseResult, &s)
	id := first(s.AgentID, r.agents[callID])
	if id == "" {
		return
	}
	sub := &row.Subagent{ChildID: id, CallID: callID, Mode: modeForeground, Type: s.AgentType, Title: oneLine(call.title), Status: res.Status}
	if call.background {
		// What became of it is not in this entry.
		sub.Mode = modeBackground
	} else {
		sub.Summary = res.Output
	}
	r.add(hf, "", e.Timestamp, sub)
	r.openChild(id)
}

// prompt writes what a person wrote, if anything.
func (r *historyReader) prompt(hf *historyFile, native, timestamp string, c content, steered bool) {
	var texts []string
	var files []row.Attachment
	interrupted := false
	for _, b := range c {
		switch {
		case b.Type == "text":
			text, stopped := promptText(b.Text)
			interrupted = interrupted || stopped
			if text != "" {
				texts = append(texts, text)
			}
		case b.Source != nil:
			files = append(files, attachment(b))
		}
	}
	if interrupted {
		r.add(hf, native, timestamp, &row.Notice{Code: "INTERRUPTED", Title: "Interrupted"})
	}
	if len(texts) == 0 && len(files) == 0 {
		return
	}
	r.settle(hf, !steered)
	user := &row.User{Text: strings.Join(texts, "\n"), Attachments: files, Steered: steered}
	if hf.child != "" {
		user.Origin = row.OriginAgent
	}
	r.rows = append(r.rows, hf.row(native, timestamp, user))
}

// attachment describes a file in a message; its bytes stay in the session.
func attachment(b block) row.Attachment {
	a := row.Attachment{Name: first(b.Title, b.Type), MediaType: b.Source.MediaType}
	data := []byte(b.Source.Data)
	if b.Source.Type == "base64" {
		if decoded, err := base64.StdEncoding.DecodeString(b.Source.Data); err == nil {
			data = decoded
		}
	}
	sum := sha256.Sum256(data)
	a.Size, a.Digest = int64(len(data)), "sha256-"+hex.EncodeToString(sum[:])
	return a
}

// machineTexts are the beginnings of user texts that nobody wrote.
var machineTexts = []string{
	"<command-message>", "<command-args>", "<local-command-", "<system-reminder>", "<task-notification>", "Caveat:",
}

// promptText returns what a person wrote of a user text, and whether it says
// that the turn was interrupted. A slash command is kept in several tags.
func promptText(text string) (said string, interrupted bool) {
	trimmed := strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(trimmed, "[Request interrupted by user"):
		return "", true
	case trimmed == "Continue from where you left off.":
		return "", false
	}
	if name, ok := tag(trimmed, "command-name"); ok && strings.HasPrefix(trimmed, "<command-") {
		if name == "/compact" {
			// Its effect has a row of its own.
			return "", false
		}
		args, _ := tag(trimmed, "command-args")
		return strings.TrimSpace(name + " " + args), false
	}
	for _, m := range machineTexts {
		if strings.HasPrefix(trimmed, m) {
			return "", false
		}
	}
	return text, false
}

// tag returns what stands between <name> and </name>.
func tag(text, name string) (string, bool) {
	_, rest, ok := strings.Cut(text, "<"+name+">")
	if !ok {
		return "", false
	}
	inner, _, ok := strings.Cut(rest, "</"+name+">")
	return strings.TrimSpace(inner), ok
}
