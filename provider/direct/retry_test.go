package direct

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// inMemory returns a rig for Chat Completions whose server is a handler. It is
// for bubbles: time in it is not real.
func inMemory(t *testing.T, p Protocol, h http.HandlerFunc) *rig {
	t.Helper()
	return newRig(t, p, memoryBase, memoryServer(t, h))
}

func sse(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		_, _ = io.WriteString(w, e)
		_ = http.NewResponseController(w).Flush()
	}
}

func chatText(s string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", s)
}

const (
	chatStop = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	chatDone = "data: [DONE]\n\n"
)

// failFirst answers n times with fail and then well.
func failFirst(n int, fail http.HandlerFunc) (http.HandlerFunc, *atomic.Int64) {
	var asked atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) <= int64(n) {
			fail(w, r)
			return
		}
		sse(w, chatText("ok"), chatStop, chatDone)
	}, &asked
}

func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

const slowDown = `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`

func TestWhatIsTriedAgain(t *testing.T) {
	cut := func(events ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			sse(w, events...)
			panic(http.ErrAbortHandler)
		}
	}
	for _, tt := range []struct {
		name string
		fail http.HandlerFunc
		code exec.Code
	}{
		{"408", status(408, "{}"), exec.CodeModelError},
		{"409", status(409, "{}"), exec.CodeModelError},
		{"429", status(429, slowDown), exec.CodeRateLimited},
		{"500", status(500, `{"error":{"message":"boom"}}`), exec.CodeModelError},
		{"HTML 502", status(502, "<html><title>Bad gateway</title></html>", "Content-Type", "text/html"), exec.CodeModelError},
		{"503", status(503, ""), exec.CodeOverloaded},
		{"504", status(504, ""), exec.CodeModelError},
		{"529", status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), exec.CodeOverloaded},
		{"the server says so", status(404, "{}", "X-Should-Retry", "true"), exec.CodeUnreachable},
		{"cut before the header", cutEarly, exec.CodeUnreachable},
		{"cut before the first text", cut(chatText(""), ": hi\n\n"), exec.CodeTruncated},
		{"empty stream", func(w http.ResponseWriter, _ *http.Request) { sse(w) }, exec.CodeTruncated},
		{"error before the first text", func(w http.ResponseWriter, _ *http.Request) {
			sse(w, chatText(""), "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n")
		}, exec.CodeOverloaded},
		{"error as JSON with status 200", status(200, `{"error":{"message":"boom","code":"server_error"}}`, "Content-Type", "application/json"), exec.CodeModelError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, asked := failFirst(2, tt.fail)
				r := inMemory(t, OpenAIChat, handler)
				began := time.Now()
				rec := r.ask("hi")
				rec.expect(t, "notice(retrying)", "notice(retrying)", "assistant(ok) final")
				if n := asked.Load(); n != 3 {
					t.Errorf("asked %d times", n)
				}
				// 0.5 s and 1 s, a quarter more or less.
				if d := time.Since(began); d < 1125*time.Millisecond || d > 2*time.Second {
					t.Errorf("it took %v", d)
				}
				for i, n := range rec.notices("retrying") {
					if !strings.Contains(n.Text, fmt.Sprintf("try %d of 3", i+2)) || !strings.Contains(n.Text, " s, ") {
						t.Errorf("notice %q", n.Text)
					}
				}
			})
		})
		t.Run(tt.name+" for good", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, asked := failFirst(1000, tt.fail)
				rec := inMemory(t, OpenAIChat, handler).ask("hi")
				rec.failed(t, tt.code, "tried 3 times")
				rec.expectRows(t, "notice(retrying)", "notice(retrying)")
				if n := asked.Load(); n != 3 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

func cutEarly(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestServerMaySayNotToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, asked := failFirst(1000, status(500, "{}", "X-Should-Retry", "false"))
		inMemory(t, OpenAIChat, handler).ask("hi").failed(t, exec.CodeModelError)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header func() []string
		want   time.Duration
	}{
		{"seconds", func() []string { return []string{"Retry-After", "7"} }, 7 * time.Second},
		{"fraction", func() []string { return []string{"Retry-After", "2.5"} }, 2500 * time.Millisecond},
		{"milliseconds", func() []string { return []string{"Retry-After-Ms", "3200", "Retry-After", "100"} }, 3200 * time.Millisecond},
		{"date", func() []string {
			return []string{"Retry-After", time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)}
		}, 20 * time.Second},
		{"the longest", func() []string { return []string{"Retry-After", "60"} }, 60 * time.Second},
		{"zero", func() []string { return []string{"Retry-After", "0"} }, 375 * time.Millisecond},
		{"reset of OpenAI", func() []string {
			return []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "4s"}
		}, 4 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, _ := failFirst(1, func(w http.ResponseWriter, r *http.Request) {
					status(429, slowDown, tt.header()...)(w, r)
				})
				began := time.Now()
				rec := inMemory(t, OpenAIChat, handler).ask("hi")
				rec.expect(t, "notice(retrying)", "assistant(ok) final")
				// A date has no fractions of a second.
				if d := time.Since(began); d < tt.want-time.Second && tt.name == "date" || tt.name != "date" && d < tt.want || d > tt.want+time.Second {
					t.Errorf("it waited %v, want %v", d, tt.want)
				}
			})
		})
	}
	t.Run("too long", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			handler, asked := failFirst(1000, status(429, slowDown, "Retry-After", "3600"))
			began := time.Now()
			rec := inMemory(t, OpenAIChat, handler).ask("hi")
			err := rec.failed(t, exec.CodeRateLimited, "asks to wait 1 h.", "Try again at ")
			rec.expectRows(t)
			if err.RetryAfterMs != 3600_000 || asked.Load() != 1 || time.Since(began) > time.Second {
				t.Errorf("retry after %d ms, asked %d times, in %v", err.RetryAfterMs, asked.Load(), time.Since(began))
			}
		})
	})
	t.Run("overloaded with a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			handler, _ := failFirst(1, status(503, "", "Retry-After", "5"))
			began := time.Now()
			inMemory(t, OpenAIChat, handler).ask("hi").expect(t, "notice(retrying)", "assistant(ok) final")
			if d := time.Since(began); d < 5*time.Second || d > 6*time.Second {
				t.Errorf("it waited %v", d)
			}
		})
	})
}

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		header []string
		want   time.Duration
		ok     bool
	}{
		{nil, 0, false},
		{[]string{"Retry-After", "2"}, 2 * time.Second, true},
		{[]string{"Retry-After", " 1.5 "}, 1500 * time.Millisecond, true},
		{[]string{"Retry-After", "-1"}, 0, false},
		{[]string{"Retry-After", "NaN"}, 0, false},
		{[]string{"Retry-After", "soon"}, 0, false},
		{[]string{"Retry-After", "1e300"}, 365 * 24 * time.Hour, true},
		{[]string{"Retry-After", "+Inf"}, 365 * 24 * time.Hour, true},
		{[]string{"Retry-After", "Sun, 01 Mar 2026 12:00:30 GMT"}, 30 * time.Second, true},
		{[]string{"Retry-After", "Sun, 01 Mar 2026 11:00:00 GMT"}, 0, true},
		{[]string{"Retry-After-Ms", "250"}, 250 * time.Millisecond, true},
		{[]string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s"}, 6 * time.Minute, true},
		{[]string{"X-Ratelimit-Remaining-Tokens", "5", "X-Ratelimit-Reset-Tokens", "6m0s"}, 0, false},
		{[]string{"Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", "2026-03-01T12:00:09Z"}, 9 * time.Second, true},
		{[]string{"X-Ratelimit-Reset", "1772366405000"}, 5 * time.Second, true},
		{[]string{"X-Ratelimit-Reset", "1772366405"}, 5 * time.Second, true},
		{[]string{"X-Ratelimit-Reset", "12"}, 12 * time.Second, true},
	} {
		h := http.Header{}
		for i := 0; i < len(tt.header); i += 2 {
			h.Set(tt.header[i], tt.header[i+1])
		}
		if got, ok := retryAfter(h, now); got != tt.want || ok != tt.ok {
			t.Errorf("%q: %v, %v, want %v, %v", tt.header, got, ok, tt.want, tt.ok)
		}
	}
}

func TestRetryInWords(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Rate limit reached. Please try again in 11.054s.": 11054 * time.Millisecond,
		"Please try again in 250ms":                        250 * time.Millisecond,
		"Please try again in 3 days":                       0,
		"Please try again in 5seconds":                     0,
		"Try later":                                        0,
	} {
		if got, ok := retryInWords(message); got != want || ok != (want > 0) {
			t.Errorf("%q: %v, %v", message, got, ok)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		handler, _ := failFirst(1, func(w http.ResponseWriter, _ *http.Request) {
			sse(w, "data: {\"error\":{\"message\":\"Please try again in 12s.\",\"code\":\"rate_limit_exceeded\"}}\n\n")
		})
		began := time.Now()
		inMemory(t, OpenAIChat, handler).ask("hi").expect(t, "notice(retrying)", "assistant(ok) final")
		if d := time.Since(began); d < 12*time.Second || d > 13*time.Second {
			t.Errorf("it waited %v", d)
		}
	})
}

func TestWaitText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		600 * time.Millisecond:             "0.6 s",
		45*time.Second + 400e6:             "45 s",
		119 * time.Second:                  "119 s",
		12 * time.Minute:                   "12 min",
		59*time.Minute + 40*time.Second:    "1 h",
		65 * time.Minute:                   "1 h 5 min",
		25*time.Hour + 10*time.Millisecond: "25 h",
	} {
		if got := waitText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestBackoffHasJitter(t *testing.T) {
	var waits []time.Duration
	for range 50 {
		w := backoff(2)
		if w < 750*time.Millisecond || w > 1250*time.Millisecond {
			t.Fatalf("second wait is %v", w)
		}
		waits = append(waits, w)
	}
	if slices.Min(waits) == slices.Max(waits) {
		t.Error("every wait is the same")
	}
}

func TestNothingIsTriedAgainOnceTextWasShown(t *testing.T) {
	for name, end := range map[string]http.HandlerFunc{
		"cut":       func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
		"truncated": func(http.ResponseWriter, *http.Request) {},
		"error": func(w http.ResponseWriter, _ *http.Request) {
			sse(w, "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler, asked := failFirst(1000, func(w http.ResponseWriter, r *http.Request) {
					sse(w, chatText("Hel"))
					end(w, r)
				})
				rec := inMemory(t, OpenAIChat, handler).ask("hi")
				if rec.terminal.Phase != row.RunFailed || asked.Load() != 1 {
					t.Errorf("ended as %s after %d requests", rec.terminal.Phase, asked.Load())
				}
				rec.expectRows(t, "assistant(Hel) partial")
			})
		})
	}
}

func TestStopWhileWaitingToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, asked := failFirst(1000, status(429, slowDown, "Retry-After", "50"))
		r := inMemory(t, OpenAIChat, handler)
		rec, active := r.start(r.launch("hi"))
		<-time.After(10 * time.Second)
		began := time.Now()
		if err := active.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec.wait(t)
		if rec.terminal.Phase != row.RunInterrupted || rec.terminal.Error != nil || time.Since(began) > time.Second || asked.Load() != 1 {
			t.Errorf("ended as %+v after %v, asked %d times", rec.terminal, time.Since(began), asked.Load())
		}
	})
}

func TestServersThatCannotBeReached(t *testing.T) {
	for _, tt := range []struct {
		name  string
		dial  error
		code  exec.Code
		tries int
		words string
	}{
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, exec.CodeUnreachable, 3, "Nothing answers at 127.0.0.1:1"},
		{"unknown host", &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, exec.CodeUnreachable, 1, "is not known"},
		{"slow name server", &net.DNSError{Err: "timeout", Name: "x", IsTimeout: true}, exec.CodeUnreachable, 3, "is not known"},
		{"no route", &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, exec.CodeUnreachable, 3, "cannot be reached"},
		{"broken", io.ErrUnexpectedEOF, exec.CodeUnreachable, 3, "broke before an answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				r := newRig(t, OpenAIChat, memoryBase, func(context.Context, string, string) (net.Conn, error) {
					tries++
					return nil, tt.dial
				})
				r.ask("hi").failed(t, tt.code, tt.words)
				if tries != tt.tries {
					t.Errorf("%d tries", tries)
				}
			})
		})
	}
}

func TestConnectingTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := newRig(t, OpenAIChat, memoryBase, func(ctx context.Context, _, _ string) (net.Conn, error) {
			tries++
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
		})
		began := time.Now()
		r.ask("hi").failed(t, exec.CodeUnreachable, "cannot be reached at 127.0.0.1:1")
		// Three times ten seconds, and the waits between.
		if d := time.Since(began); tries != 3 || d < 30*time.Second || d > 33*time.Second {
			t.Errorf("%d tries in %v", tries, d)
		}
	})
}
