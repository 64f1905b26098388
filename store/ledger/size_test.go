//go:build unix

package ledger

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"garcon/proto/row"
)

// TestSizeOnDisk appends a long chat in many commits and looks what the disk
// holds for it.
func TestSizeOnDisk(t *testing.T) {
	s := openSet(t, t.TempDir())
	l := create(t, s, "1")
	const turns, rowsPerTurn = 400, 25
	for turn := range turns {
		rows := []row.Row{user(fmt.Sprint("turn ", turn))}
		for i := range rowsPerTurn - 1 {
			rows = append(rows, answer(strings.Repeat("word ", 40+i*10)))
		}
		for _, half := range [][]row.Row{rows[:10], rows[10:]} {
			if _, err := l.Append(t.Context(), Batch{Rows: half, Urgent: true, ClientID: fmt.Sprint(turn, len(half))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(s.path("1"))
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no block count")
	}
	disk, payload := st.Blocks*512, l.Head().Bytes
	ratio := float64(disk) / float64(payload)
	t.Logf("%d rows, %d bytes of rows, %d bytes on disk: %.2f", l.Head().Rows, payload, disk, ratio)
	if ratio > 1.3 {
		t.Fatalf("%.2f times the rows on disk", ratio)
	}
}
