package demo

import (
	"fmt"
	"slices"
	"strings"
)

// diffContext is how many unchanged lines surround a change.
const diffContext = 3

// unifiedDiff returns the change of a file as one hunk: what differs between
// the lines both texts begin and end with.
func unifiedDiff(path, before, after string) string {
	if before == after {
		return ""
	}
	a, b := splitLines(before), splitLines(after)
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA--
		endB--
	}
	from := max(0, start-diffContext)
	tail := min(diffContext, len(a)-endA)

	var out strings.Builder
	old, renamed := "a/"+path, "b/"+path
	if before == "" {
		old = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", old, renamed)
	fmt.Fprintf(&out, "@@ -%s +%s @@\n", hunkRange(from, endA+tail), hunkRange(from, endB+tail))
	for _, part := range []struct {
		sign  byte
		lines []string
	}{
		{' ', a[from:start]}, {'-', a[start:endA]}, {'+', b[start:endB]}, {' ', a[endA : endA+tail]},
	} {
		for _, line := range part.lines {
			out.WriteByte(part.sign)
			out.WriteString(line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	return out.String()
}

// hunkRange is "line,count" of the lines in [from, to) counted from 0; an empty
// range names the line before.
func hunkRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// splitLines keeps the line feeds.
func splitLines(s string) []string { return slices.Collect(strings.Lines(s)) }
