package feed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"garcon/proto/api"
)

// BenchmarkFanOut measures how long it takes from what an agent says until
// every follower has it, over real sockets on loopback: a live update, which
// touches no disk. The interval between two updates of a part is no part of it.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("1to%d", n), func(b *testing.B) { benchmarkLive(b, n) })
	}
}

func benchmarkLive(b *testing.B, followers int) {
	s := newSite(b)
	a, r := s.start("hello")
	arrived := make(chan int, followers)
	for range followers {
		c := s.dial(b)
		must(b, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"open","stream":1,"name":"$events"}`)))
		must(b, c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"type":"open","stream":2,"name":"chat.follow","args":{"chatId":%q,"maxMessages":5}}`, a.ChatID)))
		go func() {
			for {
				_, m, err := c.ReadMessage()
				if err != nil {
					return
				}
				var f struct {
					Value struct {
						Type string `json:"type"`
						Live []struct {
							Offset int    `json:"offset"`
							Text   string `json:"text"`
						} `json:"live"`
					} `json:"value"`
				}
				if json.Unmarshal(m, &f) == nil && f.Value.Type == api.ItemLive && len(f.Value.Live) > 0 {
					l := f.Value.Live[0]
					arrived <- l.Offset + len(l.Text)
				}
			}
		}()
	}
	const piece = " token"
	sent := 0
	pause := time.NewTicker(20 * time.Millisecond) // longer than the interval of live parts
	defer pause.Stop()
	say := func() time.Duration {
		<-pause.C
		start := time.Now()
		r.live("p", sent, piece)
		sent += len(piece)
		for got := 0; got < followers; {
			if <-arrived == sent {
				got++
			}
		}
		return time.Since(start)
	}
	for range 5 {
		say()
	}
	var all []time.Duration
	for b.Loop() {
		all = append(all, say())
	}
	slices.Sort(all)
	b.ReportMetric(0, "ns/op") // it holds the pause
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "µs/p50")
	b.ReportMetric(float64(all[len(all)*95/100].Microseconds()), "µs/p95")
	r.end()
	s.idle(a.ChatID)
}

// BenchmarkRows measures rows through the ledger to followers that read as fast
// as they can, until the last of them has the last row. A follower that is left
// behind by more than its bound is sent another snapshot, which is counted.
func BenchmarkRows(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("1to%d", n), func(b *testing.B) { benchmarkRows(b, n) })
	}
}

func benchmarkRows(b *testing.B, followers int) {
	w := newWorld(b)
	a, r := w.start("hello")
	text := strings.Repeat("x", 1000)
	last := int64(b.N + 2) // beside the user row and the run's two
	var all sync.WaitGroup
	var snapshots atomic.Int64
	for range followers {
		c, _ := w.ready()
		stream := c.open(api.StreamChat, fmt.Sprintf(`{"chatId":%q,"maxMessages":5}`, a.ChatID))
		var item api.FollowItem
		c.item(stream, &item)
		all.Go(func() {
			for cursor := int64(-1); cursor < last; {
				item := struct {
					Type   string `json:"type"`
					Cursor int64  `json:"cursor"`
				}{}
				c.item(stream, &item)
				cursor = max(cursor, item.Cursor)
				if item.Type == api.ItemSnapshot {
					snapshots.Add(1)
				}
			}
		})
	}
	b.SetBytes(int64(len(text) * followers))
	b.ResetTimer()
	for range b.N {
		r.say(text)
	}
	r.end()
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(snapshots.Load())/float64(followers), "snapshots/follower")
}
