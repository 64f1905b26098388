package model

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// stream writes server-sent events the way the script's [Wire] says.
type stream struct {
	ctx  context.Context
	w    http.ResponseWriter
	rc   *http.ResponseController
	zip  *gzip.Writer
	wire Wire
	eol  string
}

func newStream(ctx context.Context, w http.ResponseWriter, wire Wire, n int) *stream {
	s := &stream{ctx: ctx, w: w, rc: http.NewResponseController(w), wire: wire, eol: first(wire.LineEnd, "\n")}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("Request-Id", fmt.Sprintf("req_scripted_%d", n))
	setHeaders(h, wire.Headers)
	if wire.Gzip {
		h.Set("Content-Encoding", "gzip")
		s.zip = gzip.NewWriter(w)
	}
	w.WriteHeader(http.StatusOK)
	if wire.BOM {
		_ = s.write([]byte("\ufeff"))
	}
	return s
}

func setHeaders(h http.Header, values map[string]string) {
	for name, v := range values {
		h.Set(name, v)
	}
}

// event sends one event; name may be empty.
func (s *stream) event(name string, data any) error {
	text, ok := data.(string)
	if !ok {
		var err error
		if text, err = encode(data); err != nil {
			return err
		}
	}
	var buf bytes.Buffer
	if name != "" && !s.wire.NoEvent {
		buf.WriteString("event: " + name + s.eol)
	}
	buf.WriteString("data: " + text + s.eol + s.eol)
	return s.write(buf.Bytes())
}

func encode(v any) (string, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// write sends bytes at once, or dripping.
func (s *stream) write(data []byte) error {
	step := len(data)
	if s.wire.Drip > 0 {
		step = s.wire.Drip
	}
	for len(data) > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		n := min(step, len(data))
		if err := s.flush(data[:n]); err != nil {
			return err
		}
		data = data[n:]
		if s.wire.DripMs > 0 {
			select {
			case <-time.After(time.Duration(s.wire.DripMs) * time.Millisecond):
			case <-s.ctx.Done():
				return s.ctx.Err()
			}
		}
	}
	return nil
}

func (s *stream) flush(data []byte) error {
	var err error
	if s.zip != nil {
		if _, err = s.zip.Write(data); err == nil {
			err = s.zip.Flush()
		}
	} else {
		_, err = s.w.Write(data)
	}
	if err != nil {
		return err
	}
	return s.rc.Flush()
}

func (s *stream) close() {
	if s.zip != nil {
		// A client that is gone does not need the trailer.
		_ = s.zip.Close()
	}
}
