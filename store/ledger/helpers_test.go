package ledger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

func open(tb testing.TB, s *Set, id string) *Ledger {
	tb.Helper()
	l, err := s.Open(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Release)
	return l
}

func appendRows(tb testing.TB, l *Ledger, rows ...row.Row) Committed {
	tb.Helper()
	c, err := l.Append(tb.Context(), Batch{Rows: rows, Urgent: true})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func notice(text string) row.Row { return row.New("", "", &row.Notice{Code: "test", Text: text}) }

func user(text string) row.Row { return row.New("", "", &row.User{Text: text}) }

func answer(text string) row.Row { return row.New("", "", &row.Assistant{Text: text}) }

func ofSubagent(child string, r row.Row) row.Row {
	r.Child = child
	return r
}

// text returns what the constructors above were given.
func text(r row.Row) string {
	switch b := r.Body.(type) {
	case *row.Notice:
		return b.Text
	case *row.User:
		return b.Text
	case *row.Assistant:
		return b.Text
	}
	return fmt.Sprintf("%T", r.Body)
}

func texts(rows []Stored) string {
	out := make([]string, len(rows))
	for i, s := range rows {
		out[i] = text(s.Row)
	}
	return strings.Join(out, " ")
}

// allRows reads a transcript by following it from the start.
func allRows(ctx context.Context, l *Ledger, child string) ([]Stored, error) {
	n := int64(0)
	for _, c := range must(l.Children(ctx)) {
		if c.ID == child {
			n = c.Rows
		}
	}
	if child == "" {
		n = l.Head().Rows
	}
	f, err := l.Follow(0, child)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []Stored
	for int64(len(out)) < n {
		rows, err := f.Next(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// must is for calls that fail only with their context.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func copyDir(tb testing.TB, from, to string) {
	tb.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), data, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}
