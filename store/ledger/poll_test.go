package ledger

import (
	"errors"
	"testing"
)

func TestPollGivesRowsOnceAndThenSomethingToWaitFor(t *testing.T) {
	l := create(t, openSet(t, t.TempDir()), "1")
	f, err := l.Follow(0, "")
	if err != nil {
		t.Fatal(err)
	}
	rows, wait, err := f.Poll()
	if err != nil || len(rows) != 0 || wait == nil {
		t.Fatalf("an empty ledger gave %d rows, %v", len(rows), err)
	}
	appendRows(t, l, answer("a"))
	<-wait
	if rows, _, err = f.Poll(); err != nil || len(rows) != 1 || rows[0].Row.Ordinal != 0 {
		t.Fatalf("got %d rows, %v", len(rows), err)
	}
	if rows, _, err = f.Poll(); err != nil || len(rows) != 0 {
		t.Fatalf("the row came twice: %d, %v", len(rows), err)
	}
	f.Close()
	if _, _, err := f.Poll(); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed follower gave %v", err)
	}
}
