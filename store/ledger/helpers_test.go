package ledger

import (
	"testing"

	"garcon/proto/row"
)

func openSet(tb testing.TB, dir string) *Set {
	tb.Helper()
	s, err := OpenSet(dir, Options{Version: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func create(tb testing.TB, s *Set, id string) *Ledger {
	tb.Helper()
	l, err := s.Create(tb.Context(), id, CreateMeta{View: "v1"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Release)
	return l
}

func notice(text string) row.Row { return row.New("", "", &row.Notice{Code: "test", Text: text}) }

func user(text string) row.Row { return row.New("", "", &row.User{Text: text}) }
