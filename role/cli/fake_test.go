package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"garcon/proto/api"
	"garcon/store/runtimefile"
)

// fake is a controller that answers as a test tells it to, and a root with its
// descriptor.
type fake struct {
	t          testing.TB
	root       string
	descriptor runtimefile.Descriptor
	server     *httptest.Server

	// mu guards the following.
	mu       sync.Mutex
	handlers map[api.OperationID]http.HandlerFunc
	seen     []seenRequest
}

// seenRequest is a request as the server got it.
type seenRequest struct {
	op            api.OperationID
	path          string
	query         string
	authorization string
	instance      string
	client        string
	body          []byte
}

// newFake starts a controller that proves itself and answers nothing else.
func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{t: t, root: filepath.Join(t.TempDir(), "root"), handlers: map[api.OperationID]http.HandlerFunc{}}
	mux := http.NewServeMux()
	for _, op := range api.Operations {
		mux.HandleFunc(op.Method+" "+api.Base+op.Path, func(w http.ResponseWriter, r *http.Request) { f.serve(op, w, r) })
	}
	f.server = httptest.NewServer(mux)
	t.Cleanup(f.server.Close)
	f.descriptor = runtimefile.Descriptor{
		Schema: runtimefile.Schema, Role: runtimefile.RoleController, InstanceID: runtimefile.NewInstanceID(),
		URL: f.server.URL, PID: 1, StartedAt: 1, Capability: runtimefile.NewCapability(),
	}
	f.writeDescriptor(f.descriptor)
	f.answer(api.OpContext, api.Context{ServerInstanceID: f.descriptor.InstanceID, DefaultExecutorID: "local", Version: "test"})
	f.handle(api.OpRuntime, f.prove)
	return f
}

func (f *fake) writeDescriptor(d runtimefile.Descriptor) {
	f.t.Helper()
	path := runtimefile.Path(f.root, d.Role)
	makePrivate(f.t, filepath.Dir(path))
	if err := runtimefile.Write(path, d); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) prove(w http.ResponseWriter, r *http.Request) {
	challenge, err := hex.DecodeString(r.URL.Query().Get("challenge"))
	if err != nil || len(challenge) != challengeSize {
		f.t.Errorf("challenge %q", r.URL.Query().Get("challenge"))
	}
	d := f.descriptor
	writeJSON(w, http.StatusOK, api.RuntimeProof{
		Schema: 1, Role: d.Role, InstanceID: d.InstanceID, URL: d.URL,
		Proof: runtimefile.Proof(d.Capability, d.Role, d.InstanceID, d.URL, challenge),
	})
}

func (f *fake) serve(op api.Operation, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Errorf("read the request: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.seen = append(f.seen, seenRequest{
		op: op.ID, path: r.URL.Path, query: r.URL.RawQuery, authorization: r.Header.Get("Authorization"),
		instance: r.Header.Get(api.HeaderInstance), client: r.Header.Get(api.HeaderOrigin), body: body,
	})
	handler := f.handlers[op.ID]
	f.mu.Unlock()
	if handler == nil {
		writeJSON(w, http.StatusInternalServerError, api.Envelope{Error: api.NewError(api.CodeInternal, "the test has no answer for "+string(op.ID), "")})
		return
	}
	handler(w, r)
}

func writeJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// handle sets the handler of an operation.
func (f *fake) handle(op api.OperationID, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[op] = h
}

// answer has an operation answer with the documents in turn, the last for
// ever. An *api.Error is a refusal.
func (f *fake) answer(op api.OperationID, docs ...any) {
	var mu sync.Mutex
	n := 0
	f.handle(op, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		doc := docs[min(n, len(docs)-1)]
		n++
		mu.Unlock()
		if e, ok := doc.(*api.Error); ok {
			writeJSON(w, e.Status, api.Envelope{Error: e})
			return
		}
		writeJSON(w, http.StatusOK, doc)
	})
}

// requests returns the requests of an operation.
func (f *fake) requests(op api.OperationID) []seenRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []seenRequest
	for _, s := range f.seen {
		if s.op == op {
			out = append(out, s)
		}
	}
	return out
}

// body decodes the body of the only request of an operation.
func (f *fake) body(op api.OperationID, into any) {
	f.t.Helper()
	seen := f.requests(op)
	if len(seen) != 1 {
		f.t.Fatalf("%d requests of %s", len(seen), op)
	}
	dec := json.NewDecoder(bytes.NewReader(seen[0].body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		f.t.Fatalf("body %s: %v", seen[0].body, err)
	}
}

// run runs a command against the fake.
func (f *fake) run(args ...string) result { return f.runIn(f.t.Context(), "", args...) }

// runIn runs a command with standard input, and a context that stands for the
// user's interrupt.
func (f *fake) runIn(ctx context.Context, stdin string, args ...string) result {
	e, stdout, stderr := testEnv(f.t, stdin)
	return f.runEnv(ctx, e, stdout, stderr, args...)
}

func (f *fake) runEnv(ctx context.Context, e *Env, stdout, stderr *bytes.Buffer, args ...string) result {
	var p program
	code := Run(ctx, e, &p, &p.Global, append([]string{"--config-dir", f.root}, args...))
	return result{code, stdout.String(), stderr.String()}
}

// want fails the test unless the command ended with the code and its standard
// output and error hold the texts.
func (r result) want(t testing.TB, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d", r.code, code)
	}
	if !strings.Contains(r.stdout, stdout) {
		t.Errorf("standard output %q does not hold %q", r.stdout, stdout)
	}
	if !strings.Contains(r.stderr, stderr) {
		t.Errorf("standard error %q does not hold %q", r.stderr, stderr)
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", r.stdout, r.stderr)
	}
}
