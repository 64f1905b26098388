package direct

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestCommentsKeepAnAnswerAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, OpenAIChat, func(w http.ResponseWriter, req *http.Request) {
			// Ten minutes of comments only, then the answer.
			for range 20 {
				sse(w, ": keep-alive\n\n")
				<-time.After(30 * time.Second)
			}
			sse(w, chatText("ok"), chatStop, chatDone)
		})
		began := time.Now()
		r.ask("hi").expect(t, "assistant(ok) final")
		if d := time.Since(began); d != 10*time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}

func TestAnswerThatStalls(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first []string
		rows  []string
	}{
		{"after text", []string{chatText("Hel")}, []string{"assistant(Hel) partial"}},
		{"before text", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := make(chan struct{})
				r := inMemory(t, OpenAIChat, func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
					sse(w, tt.first...)
					<-req.Context().Done()
					close(gone)
				})
				began := time.Now()
				rec := r.ask("hi")
				rec.failed(t, exec.CodeTruncated, "said nothing for 3 minutes")
				rec.expectRows(t, tt.rows...)
				if d := time.Since(began); d != idleTimeout {
					t.Errorf("it took %v", d)
				}
				<-gone
			})
		})
	}
}

func TestServerThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := inMemory(t, OpenAIChat, func(w http.ResponseWriter, req *http.Request) {
			asked++
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
		})
		began := time.Now()
		rec := r.ask("hi")
		rec.failed(t, exec.CodeUnreachable, "did not begin to answer within 5 minutes")
		rec.expectRows(t)
		if d := time.Since(began); d != headerTimeout || asked != 1 {
			t.Errorf("it took %v and %d requests", d, asked)
		}
	})
}

// A large request over a slow line is progress, not silence.
func TestSlowUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, OpenAIChat, func(w http.ResponseWriter, req *http.Request) {
			buf := make([]byte, 64<<10)
			for {
				n, err := io.ReadFull(req.Body, buf)
				if err != nil {
					break
				}
				_ = n
				<-time.After(time.Minute)
			}
			sse(w, chatText("ok"), chatStop, chatDone)
		})
		l := r.launch("hi")
		l.Conversation = []exec.Message{{Role: "user", Text: longText(1 << 20)}}
		began := time.Now()
		r.run(l).expect(t, "assistant(ok) final")
		if d := time.Since(began); d < 2*headerTimeout {
			t.Errorf("it took only %v", d)
		}
	})
}

func longText(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}

// An answer that is complete does not wait for the end of a stream that never
// comes.
func TestAnswerWithoutEndOfStream(t *testing.T) {
	for _, tt := range []struct {
		protocol Protocol
		events   []string
	}{
		{OpenAIChat, []string{chatText("ok"), chatStop}},
		{Anthropic, []string{
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"ok\"}}\n\n",
			"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n",
		}},
	} {
		t.Run(string(tt.protocol), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, tt.protocol, func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					sse(w, tt.events...)
					<-req.Context().Done()
				})
				began := time.Now()
				r.ask("hi").expect(t, "assistant(ok) final")
				if d := time.Since(began); d != tailTimeout {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}

// While the controller is behind nobody reads, and that is not the server's
// silence.
func TestSlowControllerIsNotASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, OpenAIChat, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			sse(w, chatText("one "), chatText("two"), chatStop, chatDone)
		})
		rec := newRecorder()
		slow := &slowRun{recorder: rec, delay: 2 * idleTimeout}
		if _, err := r.chat.Launch(t.Context(), r.launch("hi"), slow); err != nil {
			t.Fatal(err)
		}
		rec.wait(t)
		rec.expect(t, "assistant(one two) final")
	})
}

// slowRun is a run whose controller takes its time.
type slowRun struct {
	*recorder
	delay time.Duration
}

func (s *slowRun) Live(l row.Live) {
	<-time.After(s.delay)
	s.recorder.Live(l)
}
