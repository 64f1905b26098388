package ledger

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"garcon/proto/row"
)

// killedEnv makes the test binary the process that is killed.
const killedEnv = "GARCON_TEST_LEDGER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedEnv); dir != "" {
		appendUntilKilled(dir)
		return
	}
	os.Exit(m.Run())
}

// appendUntilKilled appends to two chats and prints each row once it has been
// told that it is committed.
func appendUntilKilled(dir string) {
	s := must(OpenSet(dir, Options{}))
	ctx := context.Background()
	var ledgers []*Ledger
	for _, id := range []string{"1", "2"} {
		l, err := s.Open(ctx, id)
		if err != nil {
			l = must(s.Create(ctx, id, CreateMeta{View: "v"}))
		}
		ledgers = append(ledgers, l)
	}
	for n := ledgers[0].Head().Rows; ; n++ {
		for _, l := range ledgers {
			c := must(l.Append(ctx, Batch{
				Rows: []row.Row{user(fmt.Sprint("row ", l.Head().Rows, " ", strings.Repeat("x", int(n*37%3000))))}, ClientID: fmt.Sprint(n),
			}))
			fmt.Println(l.id, c.First)
		}
	}
}

// TestKill kills a writing process at many points: whatever it was told is
// committed must be there afterwards, once, and the file must be whole.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	confirmed := map[string]int64{"1": -1, "2": -1}
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var id string
			var ordinal int64
			if _, err := fmt.Sscan(lines.Text(), &id, &ordinal); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
			confirmed[id] = ordinal
			if n == 5+round*7 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("the writer ended by itself: %v", cmd.ProcessState)
		}
		s := openSet(t, dir)
		for id, last := range confirmed {
			l := open(t, s, id)
			rows, err := allRows(t.Context(), l, "")
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(rows)) <= last || int64(len(rows)) > last+3 {
				t.Fatalf("chat %s has %d rows, %d were confirmed", id, len(rows), last+1)
			}
			for i, r := range rows {
				if !strings.HasPrefix(text(r.Row), fmt.Sprint("row ", i, " ")) {
					t.Fatalf("chat %s: row %d is %.20s", id, i, text(r.Row))
				}
			}
			l.Release()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if len(s.Quarantined()) != 0 {
			t.Fatalf("set aside: %+v", s.Quarantined())
		}
	}
}
