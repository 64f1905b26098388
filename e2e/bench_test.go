package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"garcon/proto/api"
)

// The benchmarks print the figures that this project holds itself to, as they
// are on the machine that runs them; none fails for being slow. What depends on
// the machine most is printed beside a baseline of the same run.

// report prints the median and the 95th percentile of durations.
func report(b *testing.B, name string, all []time.Duration) {
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(all[len(all)/2]), name+"-p50-ms")
	b.ReportMetric(ms(all[len(all)*95/100]), name+"-p95-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkColdStart is from starting the process to its first answer on a
// fresh root, beside the time of a process that only prints its version.
func BenchmarkColdStart(b *testing.B) {
	var starts, baseline []time.Duration
	for b.Loop() {
		w := New(b)
		begin := time.Now()
		r := w.StartController("--log-level", "error")
		r.waitAnswer(b)
		starts = append(starts, time.Since(begin))
		r.Stop()
		begin = time.Now()
		w.Must("version")
		baseline = append(baseline, time.Since(begin))
	}
	report(b, "start", starts)
	report(b, "version", baseline)
}

var listening = regexp.MustCompile(`listening on (http://[0-9.:]+)`)

// waitAnswer waits for the first answer of the role's listener, with as little
// delay as can be.
func (r *Role) waitAnswer(b *testing.B) {
	deadline := time.After(readyTimeout)
	look := time.NewTicker(200 * time.Microsecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-deadline:
			b.Fatalf("no answer\n%s", r.Logs())
		}
		m := listening.FindStringSubmatch(r.stdout.String())
		if m == nil {
			continue
		}
		reply, err := http.Get(m[1] + api.Base + "/runtime?challenge=" + fmt.Sprintf("%064d", 0))
		if err != nil {
			b.Fatal(err)
		}
		_ = reply.Body.Close()
		return
	}
}

// BenchmarkIdleMemory is the resident memory of a controller and its guard that
// do nothing, and of a controller after 20 chats.
func BenchmarkIdleMemory(b *testing.B) {
	for b.Loop() {
		w := New(b)
		r := w.Controller("--log-level", "error")
		b.ReportMetric(resident(b, r.PID()), "idle-MiB")
		for range 20 {
			w.Must("chats", "start", "--agent", "demo", "burst 100")
		}
		b.ReportMetric(resident(b, r.PID()), "20-chats-MiB")
		r.Stop()
	}
	b.ReportMetric(0, "ns/op")
}

var residentLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

func resident(b *testing.B, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("this system has no /proc")
	}
	kb, err := strconv.Atoi(string(residentLine.FindSubmatch(status)[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}

// BenchmarkChatsList is `garcon chats list` as a process with 100 chats, beside
// the time of a process that only prints its version.
func BenchmarkChatsList(b *testing.B) {
	w := New(b)
	r := w.Controller("--log-level", "error")
	for range 100 {
		if _, err := r.start(b.Context(), w.Project, "say hello"); err != nil {
			b.Fatal(err)
		}
	}
	var list, baseline []time.Duration
	for b.Loop() {
		begin := time.Now()
		w.Must("chats", "list")
		list = append(list, time.Since(begin))
		begin = time.Now()
		w.Must("version")
		baseline = append(baseline, time.Since(begin))
	}
	report(b, "list", list)
	report(b, "version", baseline)
}

var requestIDs atomic.Int64

// start starts a demo chat through the interface.
func (r *Role) start(ctx context.Context, project, prompt string) (api.Accepted, error) {
	var a api.Accepted
	err := r.Call(ctx, api.OpChatsStart, nil, nil, api.StartRequest{
		RequestID: fmt.Sprint("bench ", requestIDs.Add(1)), Agent: "demo", ProjectPath: project, Prompt: prompt,
	}, &a)
	return a, err
}

// BenchmarkStartAccepted is from the request that starts a chat to its
// acceptance, one after another.
func BenchmarkStartAccepted(b *testing.B) {
	w := New(b)
	r := w.Controller("--log-level", "error")
	var all []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := r.start(b.Context(), w.Project, "say hello"); err != nil {
			b.Fatal(err)
		}
		all = append(all, time.Since(begin))
	}
	report(b, "accepted", all)
}

// BenchmarkStartsTogether is how many chats a second are accepted from 32
// clients at once, each with a demo turn behind it.
func BenchmarkStartsTogether(b *testing.B) {
	const clients, chats = 32, 1000
	rate := 0.0
	for b.Loop() {
		w := New(b)
		r := w.Controller("--log-level", "error")
		var (
			wg   sync.WaitGroup
			next atomic.Int64
		)
		begin := time.Now()
		for range clients {
			wg.Go(func() {
				for next.Add(1) <= chats {
					if _, err := r.start(b.Context(), w.Project, "say hello"); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		rate = chats / time.Since(begin).Seconds()
		r.Stop()
	}
	b.ReportMetric(rate, "accepted/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRowsToFollower is how many rows a second of a demo burst reach a
// client that follows the chat over HTTP.
func BenchmarkRowsToFollower(b *testing.B) {
	const rows = 50_000
	rate := 0.0
	for b.Loop() {
		w := New(b)
		r := w.Controller("--log-level", "error")
		begin := time.Now()
		a, err := r.start(b.Context(), w.Project, fmt.Sprint("burst ", rows))
		if err != nil {
			b.Fatal(err)
		}
		seen := follow(b, r, a.ChatID, rows)
		rate = float64(seen) / time.Since(begin).Seconds()
		r.Stop()
	}
	b.ReportMetric(rate, "rows/s")
	b.ReportMetric(0, "ns/op")
}

// follow reads a chat's changes until it has seen so many rows.
func follow(b *testing.B, r *Role, chat string, rows int) int {
	after, seen := int64(-1), 0
	for seen < rows {
		var c api.Changes
		err := r.Call(b.Context(), api.OpChatsChanges, []string{chat}, url.Values{
			"after": {strconv.FormatInt(after, 10)}, "wait": {"10000"}, "live": {"off"},
		}, nil, &c)
		if err != nil {
			b.Fatal(err)
		}
		for _, raw := range c.Rows {
			if !json.Valid(raw) {
				b.Fatal("a row is not JSON")
			}
		}
		seen += len(c.Rows)
		after = c.After
	}
	return seen
}

// BenchmarkBinarySize is the size of the stripped static binary.
func BenchmarkBinarySize(b *testing.B) {
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "garcon")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
		cmd.Dir, cmd.Env = Source(b), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, "MB")
	}
	b.ReportMetric(0, "ns/op")
}
