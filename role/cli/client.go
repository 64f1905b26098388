package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"garcon/proto/api"
)

// Bounds of a request.
const (
	// connectTimeout bounds dialing a server on the same machine.
	connectTimeout = 5 * time.Second
	// replyGrace is added to an operation's own bound, so that the server's
	// answer to running out of time arrives before this side gives up.
	replyGrace = 5 * time.Second
	// maxReply bounds a JSON reply, in bytes: a page of transcript rows, of
	// which one alone may take 8 MiB, several times over.
	maxReply = 64 << 20
	// maxErrorReply bounds the reply of a failure.
	maxErrorReply = 1 << 20
)

// client talks to one server instance. It is safe for concurrent use.
type client struct {
	http *http.Client
	// base is the server's URL without a slash at the end.
	base   string
	bearer string
	// instance is empty until the server has proved itself.
	instance string
}

// newClient returns a client that sends nothing through a proxy and follows no
// redirect: either would hand the bearer to somebody else.
func newClient(base string) *client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &client{
		base: strings.TrimSuffix(base, "/"),
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: dialer.DialContext,
				// One invocation is one user: a few connections are enough.
				MaxIdleConnsPerHost: 4,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// request is one call of an operation.
type request struct {
	op api.OperationID
	// path holds the values of the wildcards of the operation's path, in order.
	path  []string
	query url.Values
	// body is encoded as JSON unless raw is set.
	body any
	raw  io.Reader
	// rawType and rawSize describe raw.
	rawType string
	rawSize int64
}

// transportError is a request that got no answer.
type transportError struct {
	// sent says that the server may have seen the request; then nobody knows
	// what it did.
	sent bool
	err  error
}

func (t *transportError) Error() string { return t.err.Error() }
func (t *transportError) Unwrap() error { return t.err }

// call makes the request and decodes the answer into out, which may be nil. A
// refusal is a [*Failure], anything else a [*transportError].
func (c *client) call(ctx context.Context, r request, out any) error {
	reply, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	if err != nil {
		return &transportError{true, fmt.Errorf("read the server's answer: %w", err)}
	}
	if len(data) > maxReply {
		return &transportError{true, fmt.Errorf("the server's answer is over %d MiB", maxReply>>20)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &transportError{true, fmt.Errorf("the server's answer cannot be understood: %w", err)}
	}
	return nil
}

// send makes the request and returns the reply of a success. The caller closes
// its body; the operation's bound ends with it.
func (c *client) send(ctx context.Context, r request) (*http.Response, error) {
	op := api.Lookup(r.op)
	cancel := func() {}
	if op.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, op.Timeout+replyGrace)
	}
	req, err := c.newRequest(ctx, op, r)
	if err != nil {
		cancel()
		return nil, err
	}
	// Without a connection nothing was sent; with one nobody knows.
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	reply, err := c.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		cancel()
		// The URL in the error says nothing that the user knows.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, &transportError{connected.Load(), err}
	}
	reply.Body = &endingBody{reply.Body, cancel}
	if reply.StatusCode >= http.StatusOK && reply.StatusCode < http.StatusMultipleChoices {
		return reply, nil
	}
	defer func() { _ = reply.Body.Close() }()
	return nil, refusal(reply)
}

func (c *client) newRequest(ctx context.Context, op api.Operation, r request) (*http.Request, error) {
	path, err := expand(op.Path, r.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.ID, err)
	}
	target := c.base + api.Base + path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	body, contentType := r.raw, r.rawType
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("%s: encode the request: %w", op.ID, err)
		}
		body, contentType = bytes.NewReader(data), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, op.Method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.ID, err)
	}
	if r.raw != nil {
		req.ContentLength = r.rawSize
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set(api.HeaderOrigin, "cli")
	if c.bearer != "" && !op.Public {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.instance != "" {
		req.Header.Set(api.HeaderInstance, c.instance)
	}
	return req, nil
}

// expand replaces the wildcards of an operation's path. A value is one path
// segment, whatever it holds.
func expand(path string, values []string) (string, error) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") {
			continue
		}
		if len(values) == 0 {
			return "", fmt.Errorf("no value for %s", s)
		}
		if values[0] == "" || values[0] == "." || values[0] == ".." {
			return "", usage(fmt.Sprintf("%q is not a valid %s", values[0], strings.Trim(s, "{}")), "")
		}
		segments[i], values = url.PathEscape(values[0]), values[1:]
	}
	if len(values) > 0 {
		return "", fmt.Errorf("%d values too many", len(values))
	}
	return strings.Join(segments, "/"), nil
}

// refusal returns the failure that a reply stands for.
func refusal(reply *http.Response) error {
	if mediaType, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type")); mediaType == "application/json" {
		data, err := io.ReadAll(io.LimitReader(reply.Body, maxErrorReply))
		if err != nil {
			return &transportError{true, fmt.Errorf("read the server's answer: %w", err)}
		}
		var envelope api.Envelope
		if err := json.Unmarshal(data, &envelope); err == nil && envelope.Error != nil && envelope.Error.Code != "" {
			envelope.Error.Status = reply.StatusCode
			return refused(envelope.Error)
		}
	}
	// Not garcon, or something in between: nobody knows what it did.
	return &transportError{true, fmt.Errorf("the server answered %s", reply.Status)}
}

// endingBody ends a request's context with its body.
type endingBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}
