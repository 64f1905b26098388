package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"garcon/proto/exec"
	"garcon/provider"
)

// entry is one line of a session file.
type entry struct {
	Type        string `json:"type"`
	Subtype     string `json:"subtype"`
	UUID        string `json:"uuid"`
	Parent      string `json:"parentUuid"`
	Logical     string `json:"logicalParentUuid"`
	IsSidechain bool   `json:"isSidechain"`
	IsMeta      bool   `json:"isMeta"`
	Timestamp   string `json:"timestamp"`
	Cwd         string `json:"cwd"`

	Message          apiMessage      `json:"message"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	ToolUseResult    json.RawMessage `json:"toolUseResult"`
	ToolDenialKind   string          `json:"toolDenialKind"`
	ToolAssistant    string          `json:"sourceToolAssistantUUID"`
	Origin           struct {
		Kind string `json:"kind"`
	} `json:"origin"`

	// of API errors; Error is an object in entries of another type.
	IsAPIError     bool            `json:"isApiErrorMessage"`
	Error          json.RawMessage `json:"error"`
	APIErrorStatus int             `json:"apiErrorStatus"`

	Compact struct {
		Trigger    string `json:"trigger"`
		PreTokens  int64  `json:"preTokens"`
		PostTokens int64  `json:"postTokens"`
	} `json:"compactMetadata"`

	Attachment struct {
		Type        string  `json:"type"`
		Prompt      content `json:"prompt"`
		CommandMode string  `json:"commandMode"`
		SourceUUID  string  `json:"source_uuid"`
	} `json:"attachment"`

	// of titles
	CustomTitle string `json:"customTitle"`
	AITitle     string `json:"aiTitle"`
	AgentName   string `json:"agentName"`
}

// conversational reports whether an entry is part of the tree that is the
// conversation. Records of other types are the CLI's bookkeeping.
func (e *entry) conversational() bool {
	switch e.Type {
	case "user", "assistant", "system", "attachment":
		return e.UUID != ""
	}
	return false
}

// errorKind is the CLI's word for the API error of an assistant entry.
func (e *entry) errorKind() string {
	var kind string
	if len(e.Error) > 0 && json.Unmarshal(e.Error, &kind) != nil {
		return ""
	}
	return kind
}

// lineSource returns the lines of the first size bytes of a session file: a live
// session grows while it is read. Lines that are too long are left out.
func lineSource(r io.Reader, size int64) func() ([]byte, error) {
	lines := provider.NewLineReader(io.LimitReader(r, size), 0)
	return func() ([]byte, error) {
		for {
			line, err := lines.Next()
			if _, tooLong := errors.AsType[*provider.LineTooLongError](err); !tooLong {
				return line, err
			}
		}
	}
}

// entries calls f with each line of a session file. A torn last line, or one
// that is no JSON, is for f to skip.
func entries(ctx context.Context, r io.Reader, size int64, f func(line []byte)) error {
	next := lineSource(r, size)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(line)
	}
}

// openTranscript opens a session file and tells how much of it there is.
func openTranscript(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, exec.Errorf(exec.CodeSessionMissing, "the session is gone: %w", err)
	}
	if err != nil {
		return nil, 0, exec.Errorf(exec.CodeInternal, "open the session: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, exec.Errorf(exec.CodeInternal, "open the session: %w", err)
	}
	return f, info.Size(), nil
}

// node is what the index keeps of an entry.
type node struct {
	uuid, parent, logical string
	assistant, failure    bool
	boundary, summary     bool // of a compaction
	message               string
	toolAssistant         string
	results               []string
}

// index is the tree of a session, in the order of the file.
type index struct {
	nodes []node
	at    map[string]int
}

// readIndex reads the tree of a session file.
func readIndex(ctx context.Context, path string) (*index, error) {
	f, size, err := openTranscript(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ix, err := buildIndex(ctx, f, size)
	if err != nil {
		return nil, exec.Errorf(exec.CodeInternal, "read the session: %w", err)
	}
	return ix, nil
}

var uuidKey = []byte(`"uuid"`)

func buildIndex(ctx context.Context, r io.Reader, size int64) (*index, error) {
	ix := &index{at: map[string]int{}}
	err := entries(ctx, r, size, func(line []byte) {
		// Newer CLIs store whole requests: most of a file has no part in the
		// tree.
		if !bytes.Contains(line, uuidKey) {
			return
		}
		var e entry
		if decode(line, &e) != nil || !e.conversational() || e.IsSidechain || ix.has(e.UUID) {
			return
		}
		n := node{
			uuid: e.UUID, parent: e.Parent, logical: e.Logical, assistant: e.Type == "assistant", failure: e.IsAPIError,
			boundary: e.Subtype == "compact_boundary", summary: e.IsCompactSummary,
			message: e.Message.ID, toolAssistant: e.ToolAssistant,
		}
		if e.Type == "user" {
			for _, b := range e.Message.Content {
				if b.ToolUseID != "" {
					n.results = append(n.results, b.ToolUseID)
				}
			}
		}
		ix.at[e.UUID] = len(ix.nodes)
		ix.nodes = append(ix.nodes, n)
	})
	return ix, err
}

func (ix *index) has(uuid string) bool {
	_, ok := ix.at[uuid]
	return ok
}

// tip is the last entry of the conversation, "" when there is none.
func (ix *index) tip() string {
	if len(ix.nodes) == 0 {
		return ""
	}
	return ix.nodes[len(ix.nodes)-1].uuid
}

// chain returns the entries of the conversation that ends at leaf. That is the
// way from leaf to the root, over compactions, and beside it the blocks of the
// same answers, the results of their calls (calls that ran side by side are
// branches of the tree), and what is put aside: errors, and a compaction after
// which a part of the conversation was kept.
func (ix *index) chain(leaf string) map[string]bool {
	members := map[string]bool{}
	messages := map[string]bool{}
	results := map[string]bool{}
	last, ok := ix.at[leaf]
	for i := last; ok; {
		n := ix.nodes[i]
		if members[n.uuid] {
			break
		}
		ix.join(n, members, messages, results)
		next := n.parent
		if next == "" {
			next = n.logical
		}
		if next == "" {
			break
		}
		if i2, found := ix.at[next]; found {
			i = i2
			continue
		}
		// The parent is missing: a damaged line. What stands before is the
		// best guess.
		i--
		ok = i >= 0
	}
	for i, n := range ix.nodes {
		if i > last {
			break
		}
		if n.assistant && n.message != "" && messages[n.message] {
			ix.join(n, members, messages, results)
		}
	}
	for i, n := range ix.nodes {
		switch {
		case members[n.uuid]:
		case i > last:
		case n.boundary && members[n.logical], (n.failure || n.summary) && members[n.parent]:
			ix.join(n, members, messages, results)
		case len(n.results) > 0 && members[first(n.toolAssistant, n.parent)] && !results[n.results[0]]:
			ix.join(n, members, messages, results)
		}
	}
	return members
}

func (ix *index) join(n node, members, messages, results map[string]bool) {
	members[n.uuid] = true
	if n.assistant {
		messages[n.message] = true
	}
	for _, id := range n.results {
		results[id] = true
	}
}
