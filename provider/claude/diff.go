package claude

import (
	"fmt"
	"strings"

	"garcon/proto/row"
)

// maxDiff bounds the diff of one tool result in bytes: more cannot be read, and
// drawing it stalls a browser. The whole file is in the project.
const maxDiff = 512 << 10

// hunk is one part of a structuredPatch. The lines have their " ", "-" or "+".
type hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"`
}

// unified returns the hunks as a unified diff, "" without any.
func unified(path string, hunks []hunk) string {
	if len(hunks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", diffName("a", path), diffName("b", path))
	for _, h := range hunks {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return row.Cut(b.String(), maxDiff)
}

// created returns the diff that makes a new file.
func created(path, text string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "--- /dev/null\n+++ %s\n@@ -0,0 +1,%d @@\n", diffName("b", path), len(lines))
	for _, line := range lines {
		b.WriteString("+" + line + "\n")
	}
	if !strings.HasSuffix(text, "\n") {
		b.WriteString("\\ No newline at end of file\n")
	}
	return row.Cut(b.String(), maxDiff)
}

// diffName prefixes a path inside the project as git does, and leaves an
// absolute one.
func diffName(prefix, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return prefix + "/" + path
}
