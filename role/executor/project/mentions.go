package project

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"garcon/proto/exec"
)

// The bounds of one prompt's mentions, in files and bytes: what fits a model's
// context beside the conversation.
const (
	maxMentions     = 8
	maxMentionBytes = 128 << 10
	maxAllMentions  = 384 << 10
	// maxCandidates bounds how many distinct @words of a prompt are looked up
	// at all: a pasted log may hold thousands.
	maxCandidates = 64
)

// ExpandMentions implements [exec.Project]: it returns the text files inside
// the project that the prompt names as @path, each once, in order. A path with
// spaces is written @"a b". Links that leave the project are not followed.
func (s *Service) ExpandMentions(ctx context.Context, path, prompt string) ([]exec.Mention, error) {
	candidates := mentions(prompt)
	if len(candidates) == 0 {
		return nil, nil
	}
	dir, err := s.absolute(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, exec.Errorf(exec.CodeProjectPath, "the project cannot be opened: %w", err)
	}
	defer root.Close()
	var found []exec.Mention
	left := maxAllMentions
	seen := map[string]bool{}
	for _, written := range candidates {
		if err := ctx.Err(); err != nil {
			return nil, exec.AsError(err)
		}
		if len(found) == maxMentions {
			break
		}
		text, name, ok := readMention(root, written, min(left, maxMentionBytes))
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		left -= len(text)
		found = append(found, exec.Mention{Path: written, Text: text})
	}
	return found, nil
}

// readMention reads the file a mention names. Punctuation after the name may
// belong to the sentence, so the name is tried with it and without.
func readMention(root *os.Root, written string, limit int) (text, name string, ok bool) {
	name = written
	for {
		if text, ok := readText(root, name, limit); ok {
			return text, filepath.Clean(name), true
		}
		shorter := strings.TrimRightFunc(name, func(r rune) bool { return strings.ContainsRune(".,;:!?)]}>'\"", r) })
		if shorter == name || shorter == "" {
			return "", "", false
		}
		name = shorter
	}
}

// readText reads a regular file of valid text up to limit bytes.
func readText(root *os.Root, name string, limit int) (string, bool) {
	if !filepath.IsLocal(name) {
		return "", false
	}
	// Without O_NONBLOCK opening a named pipe would wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > int64(limit) {
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil || len(data) > limit || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", false
	}
	return string(data), true
}

// mentions returns the distinct @words of a prompt in order. An @ inside a word,
// as in an address, is none.
func mentions(prompt string) []string {
	var list []string
	seen := map[string]bool{}
	before := ' '
	for i, r := range prompt {
		starts := r == '@' && (unicode.IsSpace(before) || strings.ContainsRune("([{<\"'`,;:", before))
		before = r
		if !starts {
			continue
		}
		word := mentionAt(prompt[i+1:])
		if word == "" || seen[word] {
			continue
		}
		seen[word] = true
		if list = append(list, word); len(list) == maxCandidates {
			break
		}
	}
	return list
}

func mentionAt(s string) string {
	if quoted, ok := strings.CutPrefix(s, `"`); ok {
		word, _, closed := strings.Cut(quoted, `"`)
		if !closed || strings.ContainsRune(word, '\n') {
			return ""
		}
		return word
	}
	if end := strings.IndexFunc(s, unicode.IsSpace); end >= 0 {
		return s[:end]
	}
	return s
}
