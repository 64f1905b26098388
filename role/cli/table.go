package cli

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// minFlex is the width below which the flexible column is not squeezed: a
// narrower one says nothing, so a very narrow terminal wraps instead.
const minFlex = 12

// columnGap separates columns on a terminal.
const columnGap = "  "

// table is a list with columns. Cells are foreign text.
type table struct {
	head []string
	rows [][]string
	// flex is the column that is cut when the terminal is too narrow.
	flex int
	// empty is said on standard error when there are no rows.
	empty string
}

// table prints t: aligned under its head on a terminal, tab-separated and
// without the head when piped.
func (e *Env) table(t table) error {
	if len(t.rows) == 0 {
		if t.empty != "" {
			e.note("%s", t.empty)
		}
		return nil
	}
	cells := make([][]string, len(t.rows))
	for i, r := range t.rows {
		cells[i] = make([]string, len(r))
		for j, cell := range r {
			cells[i][j] = VisibleLine(cell)
		}
	}
	var b strings.Builder
	if !e.StdoutTerminal {
		for _, r := range cells {
			b.WriteString(strings.Join(r, "\t"))
			b.WriteByte('\n')
		}
		return e.printf("%s", b.String())
	}
	widths := t.widths(cells, e.Width)
	writeAligned(&b, t.head, widths)
	for _, r := range cells {
		writeAligned(&b, r, widths)
	}
	return e.printf("%s", b.String())
}

// widths returns the width of each column, in terminal cells; that of a column
// without any text is zero, and it is left out.
func (t table) widths(cells [][]string, screen int) []int {
	widths := make([]int, len(t.head))
	for _, r := range cells {
		for j, cell := range r {
			widths[j] = max(widths[j], runewidth.StringWidth(cell))
		}
	}
	total := -len(columnGap)
	for j, w := range widths {
		if w > 0 {
			widths[j] = max(w, runewidth.StringWidth(t.head[j]))
			total += widths[j] + len(columnGap)
		}
	}
	if total > screen {
		widths[t.flex] = max(min(widths[t.flex], minFlex), widths[t.flex]-(total-screen))
	}
	return widths
}

func writeAligned(b *strings.Builder, cells []string, widths []int) {
	var line strings.Builder
	for j, cell := range cells {
		if widths[j] == 0 {
			continue
		}
		if line.Len() > 0 {
			line.WriteString(columnGap)
		}
		cell = runewidth.Truncate(cell, widths[j], "…")
		line.WriteString(runewidth.FillRight(cell, widths[j]))
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}
