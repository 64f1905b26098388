package direct

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

const (
	connectTimeout = 10 * time.Second
	// headerTimeout is how long a server may take to begin its answer, counted
	// from the last byte of the request: local servers load the model first.
	headerTimeout = 5 * time.Minute
	// idleTimeout is how long a server may say nothing in the middle of an
	// answer. Comments count, and servers that think for long send them.
	idleTimeout = 3 * time.Minute
	// tailTimeout is how long an answer that is complete may keep the
	// connection open without the protocol's end.
	tailTimeout = 10 * time.Second
	// errorBodyTimeout bounds the reading of an error answer.
	errorBodyTimeout = 10 * time.Second
	// keepAliveTimeout is how long a connection is kept for the next turn.
	keepAliveTimeout = 90 * time.Second
	// pingInterval and pingTimeout find out that an HTTP/2 connection is dead,
	// which a read alone never notices.
	pingInterval = 30 * time.Second
	pingTimeout  = 15 * time.Second
	// maxResponseHeader bounds the header of an answer.
	maxResponseHeader = 256 << 10
	// maxAdaptations bounds how often one request is changed to suit a server;
	// it is the number of things that can be left out, and one more.
	maxAdaptations = 6
)

// client makes the calls of one protocol.
type client struct {
	codec codec
	// transport is used without an [http.Client]: following redirects is what
	// must be done differently here, and there is nothing else in it.
	transport *http.Transport
	log       *slog.Logger
	memory    *memory
}

// dialer opens network connections; nil is the real network.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func newTransport(dial dialer) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return &http.Transport{
		// It never names a proxy for localhost and loopback addresses.
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			// The time is shared by the addresses of a name; the dialer gives
			// each its part.
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingInterval, PingTimeout: pingTimeout},
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        keepAliveTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

// call is one turn at one endpoint.
type call struct {
	endpoint   exec.Endpoint
	credential exec.Credential
	turn       turn
	sink       sink
	// notice tells the user what happens meanwhile.
	notice func(row.Notice)
	// omitted tells the user what is not as asked. It may be told the same more
	// than once; nil tells nobody.
	omitted func(notes []string)
}

// do asks until there is an answer or a reason to stop. Attempts after the
// first are made only while nothing was shown. A cancelled ctx ends it with an
// error that is to be read as such by the caller, who knows why.
func (c *client) do(ctx context.Context, k call) (finish, *exec.Error) {
	base, bad := baseURL(k.endpoint)
	if bad != nil {
		return finish{}, bad
	}
	address := c.codec.address(base)
	q := c.memory.get(k.endpoint, k.turn.model)
	adapted := 0
	for try := 1; ; {
		if notes := c.codec.omits(k.turn, q, address.Host); len(notes) > 0 && k.omitted != nil {
			k.omitted(notes)
		}
		out, f := c.attempt(ctx, k, address, q)
		if f == nil {
			return out, nil
		}
		if ctx.Err() != nil || k.sink.shown() {
			return out, f.err
		}
		k.sink.reset()
		if f.api != nil && adapted < maxAdaptations {
			if l, ok := c.codec.adapt(k.turn, q, address.Host, *f.api); ok {
				adapted++
				c.memory.learn(k.endpoint, k.turn.model, l)
				q = q.learn(l)
				continue
			}
		}
		if !f.retry {
			return out, f.err
		}
		if try == maxTries {
			return out, tried(f.err, try)
		}
		wait := backoff(try)
		if f.told {
			wait = max(wait, spread(f.after))
		}
		if f.told && f.after > maxWait {
			return out, comeBack(f.err, f.after)
		}
		c.log.Info("model request is repeated", "endpoint", k.endpoint.ID, "code", f.err.Code, "try", try, "wait", wait)
		k.notice(row.Notice{Code: "retrying", Title: "Trying again", Text: fmt.Sprintf(
			"%s Trying again in %s, try %d of %d.", withStop(f.err.Message), waitText(wait), try+1, maxTries)})
		try++
		if !sleep(ctx, wait) {
			return out, f.err
		}
	}
}

// waitText prints a wait for people: "1.5 s", "45 s", "12 min", "1 h 5 min".
func waitText(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Round(time.Second).Seconds()))
	}
	minutes := int(d.Round(time.Minute).Minutes())
	switch hours := minutes / 60; {
	case hours == 0:
		return fmt.Sprintf("%d min", minutes)
	case minutes%60 == 0:
		return fmt.Sprintf("%d h", hours)
	default:
		return fmt.Sprintf("%d h %d min", hours, minutes%60)
	}
}

func withStop(s string) string {
	if s != "" && (s[len(s)-1] == '.' || s[len(s)-1] == '!' || s[len(s)-1] == '?') {
		return s
	}
	return s + "."
}

// tried says how often it was tried.
func tried(err *exec.Error, n int) *exec.Error {
	e := *err
	e.Message = fmt.Sprintf("%s It was tried %d times.", withStop(err.Message), n)
	return &e
}

// comeBack says when to try again.
func comeBack(err *exec.Error, after time.Duration) *exec.Error {
	e := *err
	e.Message = fmt.Sprintf("%s It asks to wait %s.", withStop(err.Message), waitText(after))
	return e.WithHint("Try again at %s, or choose another model.", time.Now().Add(after).Format("15:04 MST on 2 January"))
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one request and reads the answer.
func (c *client) attempt(ctx context.Context, k call, address *url.URL, q quirks) (finish, *failure) {
	body, err := marshal(c.codec.body(k.turn, q, address.Host))
	if err != nil {
		return finish{}, fatal(exec.Errorf(exec.CodeInternal, "encode the request: %w", err))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	if k.turn.stream {
		header.Set("Accept", "text/event-stream, application/json;q=0.9")
	}
	c.codec.authorize(header, k.credential.Reveal(), q)
	resp, f := c.send(ctx, cancel, k.endpoint, http.MethodPost, address, header, body)
	if f != nil {
		return finish{}, f
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return finish{}, c.refusal(ctx, cancel, k, resp)
	}
	idle := &idleReader{src: resp.Body, limit: idleTimeout, expired: func() { cancel(errIdle) }}
	out, f := c.decode(idle, resp.Header, k)
	if f == nil {
		return out, nil
	}
	if f.err == nil {
		e := *f.api
		e.message = clean(redact(e.message, k.credential.Reveal()), maxMessage)
		f = judge(k.endpoint, k.turn.model, e, nil, time.Now())
	}
	if context.Cause(ctx) == errIdle {
		f = fatal(silent(k.endpoint))
	}
	return out, f
}

// errIdle and errNoAnswer are causes of a cancelled attempt.
var (
	errIdle     = errors.New("nothing arrived for too long")
	errNoAnswer = errors.New("no answer began")
)

func silent(ep exec.Endpoint) *exec.Error {
	return exec.Errorf(exec.CodeTruncated, "%s said nothing for %d minutes in the middle of the answer.",
		capital(endpointName(ep)), int(idleTimeout.Minutes())).
		WithHint("Send the message again.").WithDispatched(exec.WasDispatched)
}

// refusal makes a failure of an answer that is none.
func (c *client) refusal(ctx context.Context, cancel context.CancelCauseFunc, k call, resp *http.Response) *failure {
	timer := time.AfterFunc(errorBodyTimeout, func() { cancel(errIdle) })
	defer timer.Stop()
	// What could be read is enough.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	e := parseAPIError(resp.StatusCode, body, k.credential.Reveal())
	f := judge(k.endpoint, k.turn.model, e, resp.Header, time.Now())
	if resp.StatusCode == http.StatusUnauthorized && k.credential.Reveal() == "" {
		f.err = f.err.WithHint("The endpoint needs an API key; add one in the settings.")
	}
	return f
}

// send makes a request and follows redirects within the server. The caller
// closes the body of the answer.
func (c *client) send(ctx context.Context, cancel context.CancelCauseFunc, ep exec.Endpoint,
	method string, address *url.URL, header http.Header, body []byte,
) (*http.Response, *failure) {
	header.Set("User-Agent", userAgent)
	for range maxRedirects + 1 {
		deadline := newDeadline(headerTimeout, func() { cancel(errNoAnswer) })
		resp, err := c.roundTrip(ctx, method, address, header, body, deadline)
		deadline.stop()
		if err != nil {
			if context.Cause(ctx) == errNoAnswer {
				err = errNoAnswer
			}
			return nil, unreachable(ep, err)
		}
		if resp.StatusCode < 300 || resp.StatusCode >= 400 {
			return resp, nil
		}
		_ = resp.Body.Close()
		to, bad := redirect(ep, address, resp.Header.Get("Location"), resp.StatusCode)
		if bad != nil {
			return nil, fatal(bad)
		}
		// Only 307 and 308 say that a POST stays one.
		if method != http.MethodGet && resp.StatusCode != http.StatusTemporaryRedirect && resp.StatusCode != http.StatusPermanentRedirect {
			return nil, fatal(exec.Errorf(exec.CodeUnreachable, "%s moved to %s (HTTP %d).", capital(endpointName(ep)),
				clean(to.Redacted(), maxIDBytes), resp.StatusCode).
				WithHint("Set the new address as the base URL of the endpoint.").WithDispatched(exec.WasDispatched))
		}
		address = to
	}
	return nil, fatal(exec.Errorf(exec.CodeUnreachable, "%s redirects without end.", capital(endpointName(ep))).
		WithHint("Check the base URL of the endpoint.").WithDispatched(exec.WasDispatched))
}

const userAgent = "garcon"

func (c *client) roundTrip(ctx context.Context, method string, address *url.URL, header http.Header,
	body []byte, deadline *deadline,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	if body != nil {
		req.ContentLength = int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(&progressReader{bytes.NewReader(body), deadline}), nil
		}
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	return c.transport.RoundTrip(req)
}

// decode reads the answer in whatever form it came.
func (c *client) decode(body *idleReader, header http.Header, k call) (finish, *failure) {
	if enc := header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return finish{}, fatal(exec.Errorf(exec.CodeModelError, "%s compresses its answer as %s, which it was not asked to.",
			capital(endpointName(k.endpoint)), clean(enc, maxIDBytes)).WithDispatched(exec.WasDispatched))
	}
	r := bufio.NewReaderSize(body, readSize)
	first, err := firstByte(r)
	if err != nil && !errors.Is(err, io.EOF) {
		return finish{}, again(broken(k.endpoint, err))
	}
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case first == '{' || first == '[':
		return c.decodeWhole(r, k)
	case first == '<' && mediaType != "text/event-stream":
		return finish{}, fatal(notAnAPI(k.endpoint))
	}
	return c.decodeStream(r, body, k)
}

func notAnAPI(ep exec.Endpoint) *exec.Error {
	return exec.Errorf(exec.CodeUnreachable, "%s answers with a web page instead of a model's answer.", capital(endpointName(ep))).
		WithHint("Check the base URL of the endpoint; many end in /v1.").WithDispatched(exec.WasDispatched)
}

// firstByte returns the first byte that is not blank, without taking it.
func firstByte(r *bufio.Reader) (byte, error) {
	for n := 1; n < r.Size(); n++ {
		head, err := r.Peek(n)
		if len(head) < n {
			return 0, err
		}
		switch b := head[n-1]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b, nil
		}
	}
	return 0, nil
}

func (c *client) decodeWhole(r io.Reader, k call) (finish, *failure) {
	data, err := io.ReadAll(io.LimitReader(r, maxEventBytes+1))
	switch {
	case err != nil:
		return finish{}, again(broken(k.endpoint, err))
	case len(data) > maxEventBytes:
		return finish{}, tooLong()
	}
	out, f := c.codec.whole(data, k.sink)
	if f == errMalformed {
		return out, fatal(exec.Errorf(exec.CodeUnreachable, "%s does not answer in the protocol %s.",
			capital(endpointName(k.endpoint)), k.endpoint.Protocol).
			WithHint("Check the base URL and the protocol of the endpoint.").WithDispatched(exec.WasDispatched))
	}
	return out, f
}

func (c *client) decodeStream(r io.Reader, body *idleReader, k call) (finish, *failure) {
	events, d := newEventReader(r), c.codec.stream(k.sink)
	defer d.close()
	malformed := false
	for {
		e, err := events.next()
		if err != nil {
			if d.settled() {
				return d.result(), nil
			}
			return d.result(), interrupted(k.endpoint, err)
		}
		switch f := d.event(e); {
		case f == nil:
		case f != errMalformed:
			return d.result(), f
		case !malformed && !e.torn:
			malformed = true
			k.notice(row.Notice{
				Code: "malformed-output", Title: "Part of the answer was not understood",
				Text: fmt.Sprintf("%s sent something that is not of its protocol; it was left out.", capital(endpointName(k.endpoint))),
			})
		}
		if d.ended() {
			return d.result(), nil
		}
		if d.settled() {
			body.limit = tailTimeout
		}
	}
}

// interrupted is the failure of a stream that ended too early.
func interrupted(ep exec.Endpoint, err error) *failure {
	if errors.Is(err, errEventTooLarge) {
		return tooLong()
	}
	if errors.Is(err, io.EOF) {
		return again(exec.Errorf(exec.CodeTruncated, "%s ended the answer in the middle.", capital(endpointName(ep))).
			WithHint("Send the message again, or ask it to go on.").WithDispatched(exec.WasDispatched))
	}
	return again(broken(ep, err))
}

// broken is the error of a connection that failed in the middle of an answer.
func broken(ep exec.Endpoint, err error) *exec.Error {
	return exec.Errorf(exec.CodeTruncated, "The connection to %s broke in the middle of the answer.", endpointName(ep)).
		WithHint("Send the message again, or ask it to go on.").WithDetail(clean(err.Error(), maxMessage)).
		WithDispatched(exec.WasDispatched)
}

// idleReader fails a read that gets nothing for the limit. Only the time
// inside Read counts: while the controller is behind, nobody reads.
type idleReader struct {
	src io.Reader
	// limit may be changed between reads.
	limit   time.Duration
	expired func()
	timer   *time.Timer
}

// Read implements [io.Reader].
func (r *idleReader) Read(p []byte) (int, error) {
	if r.timer == nil {
		r.timer = time.AfterFunc(r.limit, r.expired)
	} else {
		r.timer.Reset(r.limit)
	}
	n, err := r.src.Read(p)
	r.timer.Stop()
	return n, err
}

// deadline calls expired when nothing has moved for its limit.
type deadline struct {
	limit time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func newDeadline(limit time.Duration, expired func()) *deadline {
	return &deadline{limit: limit, timer: time.AfterFunc(limit, expired)}
}

func (d *deadline) move() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.timer.Reset(d.limit)
	}
}

func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.timer.Stop()
}

// progressReader reports that the request is still being sent.
type progressReader struct {
	src      io.Reader
	deadline *deadline
}

// Read implements [io.Reader].
func (r *progressReader) Read(p []byte) (int, error) {
	r.deadline.move()
	return r.src.Read(p)
}
