package ledger

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// BenchmarkAppendFollow streams 200-byte rows from one producer through commits
// to one follower. One iteration is one row.
func BenchmarkAppendFollow(b *testing.B) {
	s := openSet(b, b.TempDir())
	l := create(b, s, "1")
	f, err := l.Follow(0, "")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text := strings.Repeat("x", 120)
	r := row.New("turn", "run", &row.Reasoning{Text: text})
	const rowsPerBatch = 10
	var failed atomic.Pointer[error]
	before := commits(l)
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		for sent := 0; sent < b.N; sent += rowsPerBatch {
			rows := make([]row.Row, min(rowsPerBatch, b.N-sent))
			for i := range rows {
				rows[i] = r
				rows[i].Body = &row.Reasoning{Text: text}
			}
			l.AppendAsync(Batch{Rows: rows}, func(_ Committed, err error) {
				if err != nil {
					failed.Store(&err)
				}
			})
		}
	})
	bytes := 0
	for seen := 0; seen < b.N; {
		rows, err := f.Next(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		seen += len(rows)
		bytes += len(rows[0].JSON) * len(rows)
	}
	wg.Wait()
	took := time.Since(start).Seconds()
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	b.ReportMetric(float64(b.N)/took, "rows/s")
	b.ReportMetric(float64(commits(l)-before)/took, "commits/s")
	b.ReportMetric(float64(bytes)/float64(b.N), "B/row")
}

func commits(l *Ledger) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.head.Commit
}

// buildLedger writes a ledger of n rows, every tenth a message, without waiting
// for the disk.
func buildLedger(tb testing.TB, s *Set, id string, n int) {
	tb.Helper()
	staged, err := boltfile.Stage(s.path(id), s.format, s.faults)
	if err != nil {
		tb.Fatal(err)
	}
	st := newState(id, CreateMeta{View: "v1"})
	if err := staged.Update(s.layout.create); err != nil {
		tb.Fatal(err)
	}
	text := strings.Repeat("x", 120)
	for at := 0; at < n; {
		p := newPlan(s.layout, st)
		for ; at < n && len(p.puts) < 50_000; at++ {
			var body row.Body = &row.ToolResult{CallID: fmt.Sprint("call-", at), Output: text}
			if at%10 == 0 {
				body = &row.Assistant{Text: text}
			}
			e, err := encode(row.New("turn", "run", body), s.now)
			if err != nil {
				tb.Fatal(err)
			}
			p.add(e)
		}
		if err := p.finish(); err != nil {
			tb.Fatal(err)
		}
		if err := staged.Update(p.apply); err != nil {
			tb.Fatal(err)
		}
		st = p.state
	}
	file, err := staged.Publish(false)
	if err != nil {
		tb.Fatal(err)
	}
	if err := file.Close(); err != nil {
		tb.Fatal(err)
	}
}

func benchmarkLastPage(b *testing.B, n int) {
	s := openSet(b, b.TempDir())
	buildLedger(b, s, "1", n)
	l, err := s.Open(b.Context(), "1")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Release()
	through := l.Head().Last
	if through != int64(n-1) {
		b.Fatalf("the newest row is %d", through)
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := l.Page(b.Context(), PageQuery{Through: through, Before: -1, MaxMessages: 20})
		if err != nil || p.Last != through || !p.HasMore || len(p.Rows) != 200 {
			b.Fatalf("%d rows, last %d, %v", len(p.Rows), p.Last, err)
		}
	}
}

// BenchmarkLastPage reads the newest 20 messages, which are 200 rows.
func BenchmarkLastPage100(b *testing.B) { benchmarkLastPage(b, 300) }
func BenchmarkLastPage20k(b *testing.B) { benchmarkLastPage(b, 20_000) }
func BenchmarkLastPage1M(b *testing.B)  { benchmarkLastPage(b, 1_000_000) }

// BenchmarkOpen1M opens a ledger of a million rows and reads its head.
func BenchmarkOpen1M(b *testing.B) {
	s := openSet(b, b.TempDir())
	buildLedger(b, s, "1", 1_000_000)
	for b.Loop() {
		file, st, err := s.openFile("1")
		if err != nil || st.head.Main.Rows != 1_000_000 {
			b.Fatal(err)
		}
		file.Close()
	}
}

// BenchmarkCreate makes a ledger with its first row, durably.
func BenchmarkCreate(b *testing.B) {
	s := openSet(b, b.TempDir())
	i := 0
	for b.Loop() {
		i++
		createAndAppend(b, s, fmt.Sprint(i))
	}
}

// BenchmarkCreateParallel does so for 64 chats at a time.
func BenchmarkCreateParallel(b *testing.B) {
	s := openSet(b, b.TempDir())
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			createAndAppend(b, s, fmt.Sprint(n.Add(1)))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chats/s")
}

func createAndAppend(tb testing.TB, s *Set, id string) {
	l, err := s.Create(context.Background(), id, CreateMeta{View: "v1"})
	if err != nil {
		tb.Error(err)
		return
	}
	defer l.Release()
	_, err = l.Append(context.Background(), Batch{Rows: []row.Row{row.New("turn", "", &row.User{Text: "hello"})}})
	if err != nil {
		tb.Error(err)
	}
}

// BenchmarkAppendIdle appends a row to an idle ledger: the latency of a message.
func BenchmarkAppendIdle(b *testing.B) {
	s := openSet(b, b.TempDir())
	l := create(b, s, "1")
	for b.Loop() {
		_, err := l.Append(b.Context(), Batch{Rows: []row.Row{row.New("turn", "", &row.User{Text: "hello"})}})
		if err != nil {
			b.Fatal(err)
		}
	}
}
