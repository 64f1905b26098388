package model

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxBody bounds a request body: conversations with pictures reach some tens
// of megabytes.
const maxBody = 128 << 20

// closeTimeout bounds the wait for handlers on Close. They end when their
// context does, so more than a moment means a bug here.
const closeTimeout = 10 * time.Second

// Server is a running model server. Its methods are safe for concurrent use.
type Server struct {
	url    string
	http   *http.Server
	cancel context.CancelFunc
	served chan struct{}
	// handlers counts running handlers; Close waits for them, since
	// [http.Server.Close] does not.
	handlers sync.WaitGroup

	// mu guards everything below.
	mu       sync.Mutex
	script   Script
	used     []int
	gates    map[string]chan struct{}
	requests []*Request
	// arrived is closed and replaced with every request.
	arrived chan struct{}
	closed  bool
}

// New starts a server on a loopback port. The caller closes it.
func New(script Script) (*Server, error) {
	if err := script.Validate(); err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		url:     "http://" + l.Addr().String(),
		cancel:  cancel,
		served:  make(chan struct{}),
		script:  script,
		used:    make([]int, len(script.Steps)),
		gates:   map[string]chan struct{}{},
		arrived: make(chan struct{}),
	}
	s.script.Steps = slices.Clone(script.Steps)
	s.http = &http.Server{
		Handler:     s,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Clients that vanish are what some tests are about.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(s.served)
		// It always ends with an error, that of Close.
		_ = s.http.Serve(l)
	}()
	return s, nil
}

// Start starts a server that ends with the test. When the test has failed, the
// requests are logged.
func Start(t testing.TB, script Script) *Server {
	t.Helper()
	s, err := New(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range s.Requests() {
				t.Logf("model request %d: %s %s (%s, answered by %q): %.120q", r.N, r.Method, r.Path, r.Call, r.step, r.LastUser)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Close ends every answer in progress and waits for it. It is idempotent.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.http.Close()
	<-s.served
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.handlers.Wait()
	}()
	select {
	case <-done:
		return err
	case <-time.After(closeTimeout):
		return errors.New("model server: a handler did not end")
	}
}

// URL is the base URL, without /v1.
func (s *Server) URL() string { return s.url }

// Push adds steps behind those of the script.
func (s *Server) Push(steps ...Step) error {
	if err := (Script{Steps: steps}).Validate(); err != nil {
		return fmt.Errorf("model server: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script.Steps = append(s.script.Steps, steps...)
	s.used = append(s.used, make([]int, len(steps))...)
	return nil
}

// Open opens a gate for good, whether something waits at it or not.
func (s *Server) Open(gate string) {
	ch := s.gate(gate)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ch:
	default:
		close(ch)
	}
}

func (s *Server) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.gates[name]
	if ch == nil {
		ch = make(chan struct{})
		s.gates[name] = ch
	}
	return ch
}

// pass waits for a gate; the empty name is no gate.
func (s *Server) pass(ctx context.Context, gate string) error {
	if gate == "" {
		return nil
	}
	select {
	case <-s.gate(gate):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requests returns every request so far, of any kind.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Calls returns the requests of one kind so far.
func (s *Server) Calls(call Call) []*Request {
	return slices.DeleteFunc(s.Requests(), func(r *Request) bool { return r.Call != call })
}

// WaitRequest waits for the n-th request of the main conversation, from 1.
func (s *Server) WaitRequest(ctx context.Context, n int) (*Request, error) {
	return s.WaitCall(ctx, CallMain, n)
}

// WaitCall waits for the n-th request of a kind, from 1.
func (s *Server) WaitCall(ctx context.Context, call Call, n int) (*Request, error) {
	for {
		s.mu.Lock()
		arrived, seen := s.arrived, 0
		for _, r := range s.requests {
			if r.Call != call {
				continue
			}
			if seen++; seen == n {
				s.mu.Unlock()
				return r, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s request %d, %d came: %w", call, n, seen, ctx.Err())
		}
	}
}

// Unused returns the names of the steps that have not answered as often as
// they were to; steps without a limit count once.
func (s *Server) Unused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for i, step := range s.script.Steps {
		if s.used[i] == 0 || step.Times > s.used[i] {
			names = append(names, stepName(step, i))
		}
	}
	return names
}

// record chooses the step for a request and makes the request visible.
func (s *Server) record(r *Request) (*Step, *Route) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, route := s.chooseLocked(r)
	r.N = len(s.requests) + 1
	s.requests = append(s.requests, r)
	close(s.arrived)
	s.arrived = make(chan struct{})
	return step, route
}

func (s *Server) chooseLocked(r *Request) (*Step, *Route) {
	for i := range s.script.Routes {
		route := &s.script.Routes[i]
		if (route.Method == "" || route.Method == r.Method) && route.Path == r.Path &&
			strings.Contains(r.Query.Encode(), route.Query) {
			r.step = "route"
			return nil, route
		}
	}
	if r.Protocol == "" || len(r.Messages) == 0 {
		return nil, nil
	}
	for i := range s.script.Steps {
		step := s.script.Steps[i]
		if step.Times >= 0 && s.used[i] >= max(step.Times, 1) || !step.Match.matches(r) {
			continue
		}
		s.used[i]++
		r.step = stepName(step, i)
		return &step, nil
	}
	if step := automatic(r); step != nil {
		r.step = "auto"
		return step, nil
	}
	if s.script.Default != nil {
		r.step = "default"
		return s.script.Default, nil
	}
	return nil, nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.handlers.Add(1)
	s.mu.Unlock()
	defer s.handlers.Done()

	raw, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		http.Error(w, "cannot read the body: "+err.Error(), http.StatusBadRequest)
		return
	}
	r := &Request{
		At:     time.Now(),
		Method: req.Method,
		Path:   req.URL.Path,
		Query:  req.URL.Query(),
		Header: req.Header.Clone(),
		Raw:    raw,
		Call:   CallOther,
		done:   make(chan struct{}),
		gone:   make(chan struct{}),
	}
	r.place()
	step, route := s.record(r)
	// The context ends when the client hangs up, when the server closes, and
	// after this function; only the first is "gone".
	stop := context.AfterFunc(req.Context(), func() { s.hungUp(r) })
	defer close(r.done)
	defer stop()
	a := &answer{server: s, request: r, w: w, ctx: req.Context()}
	a.serve(step, route)
}

// hungUp notes that the client has gone, unless it is the server that closes.
func (s *Server) hungUp(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		r.goneOnce.Do(func() { close(r.gone) })
	}
}

// place finds out what the request is from its path and body.
func (r *Request) place() {
	get, post := r.Method == http.MethodGet, r.Method == http.MethodPost
	switch {
	case get && strings.HasSuffix(r.Path, "/models"):
		r.Call = CallModels
	case post && strings.HasSuffix(r.Path, "/messages/count_tokens"):
		r.Call = CallCount
	case post && strings.HasSuffix(r.Path, "/messages"):
		r.Protocol = Anthropic
	case post && strings.HasSuffix(r.Path, "/chat/completions"):
		r.Protocol = Chat
	case post && strings.HasSuffix(r.Path, "/responses"):
		r.Protocol = Responses
	}
	if r.Call == CallCount || r.Protocol != "" {
		parseRequest(r)
	}
	if r.Protocol != "" {
		r.Call = classify(r)
	}
}

// authorized says whether the request brings the script's key.
func (s *Server) authorized(r *Request) bool {
	s.mu.Lock()
	key := s.script.Key
	s.mu.Unlock()
	if key == "" {
		return true
	}
	got := r.Header.Get("X-Api-Key")
	if got == "" {
		got = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(key)) == 1
}
