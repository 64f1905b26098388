// Package httpapi serves the controller's HTTP interface: it routes, decodes,
// encodes and maps failures to statuses. It decides nothing.
package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/role/controller/auth"
	"garcon/role/controller/chat"
	"garcon/role/controller/folder"
	"garcon/store/runtimefile"
)

// Options are what a server works with.
type Options struct {
	Chats   *chat.Service
	Folders *folder.Service
	Guard   *auth.Guard
	// Answers takes the answers of browsers to what they were offered.
	Answers Answers
	// Home is where browsers find the user interface, with a slash at the end.
	Home string
	// Descriptor is what the server proves to be.
	Descriptor runtimefile.Descriptor
	// Workspace is the name of the open workspace.
	Workspace string
	Version   string
	// Doctor returns the checks of a report.
	Doctor func(context.Context) api.Doctor
	Log    *slog.Logger
}

// Answers takes answers to waterfalls; see role/controller/feed.
type Answers interface {
	Answer(ctx context.Context, event string, req api.EventAnswerRequest, by chat.Principal) (api.EventAnswered, error)
}

// Server is an [http.Handler] for everything below [api.Base].
type Server struct {
	Options
	mux *http.ServeMux
}

// call is one request to an operation.
type call struct {
	w  http.ResponseWriter
	r  *http.Request
	op api.Operation
	by chat.Principal
	// identity is by with how it was proved; zero for a public operation.
	identity auth.Identity
}

// handler answers a call with a document, or has written the answer itself
// and returns nil.
type handler func(ctx context.Context, c *call) (any, error)

// New returns a server with a handler for every operation.
func New(o Options) *Server {
	s := &Server{Options: o, mux: http.NewServeMux()}
	handlers := s.handlers()
	for _, op := range api.Operations {
		h, ok := handlers[op.ID]
		if !ok {
			panic("httpapi: no handler for " + string(op.ID))
		}
		s.mux.HandleFunc(op.Method+" "+api.Base+op.Path, func(w http.ResponseWriter, r *http.Request) {
			s.serve(&call{w: w, r: r, op: op}, h)
		})
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, api.NewError(api.CodeNotFound, "there is nothing at "+r.Method+" "+strconv.Quote(r.URL.Path), ""))
	})
	return s
}

func (s *Server) handlers() map[api.OperationID]handler {
	return map[api.OperationID]handler{
		api.OpRuntime: s.runtime, api.OpContext: s.context,
		api.OpChatsList: s.chatsList, api.OpChatsStart: s.chatsStart, api.OpChatsShow: s.chatsShow,
		api.OpChatsUpdate: s.chatsUpdate, api.OpChatsDelete: s.chatsDelete, api.OpChatsSubmit: s.chatsSubmit,
		api.OpChatsStop: s.chatsStop, api.OpChatsCompact: s.chatsCompact, api.OpTurnsReceipt: s.turnsReceipt,
		api.OpChatsControl: s.chatsControl, api.OpChatsPage: s.chatsPage, api.OpChatsBody: s.chatsBody,
		api.OpChatsChanges: s.chatsChanges, api.OpChatsExport: s.chatsExport,
		api.OpQueueUpdate: s.queueUpdate, api.OpQueueRemove: s.queueRemove, api.OpQueueOrder: s.queueOrder,
		api.OpQueuePause: s.queuePause, api.OpQueueResume: s.queueResume, api.OpQueueSend: s.queueSend,
		api.OpDecide: s.decide, api.OpAnswer: s.answer,
		api.OpAttachmentsPut: s.attachmentsPut, api.OpAttachmentsGet: s.attachmentsGet,
		api.OpAgentsList: s.agentsList, api.OpModelsList: s.modelsList, api.OpCommandsList: s.commandsList,
		api.OpProvidersList: s.providersList, api.OpProvidersAdd: s.providersAdd, api.OpProvidersUpdate: s.providersUpdate,
		api.OpProvidersRemove: s.providersRemove, api.OpProvidersTest: s.providersTest,
		api.OpSettingsShow: s.settingsShow, api.OpSettingsUpdate: s.settingsUpdate,
		api.OpDoctor:  s.doctor,
		api.OpSession: s.session, api.OpLogin: s.login, api.OpLogout: s.logout, api.OpLoginLink: s.loginLink,
		api.OpSessionsList: s.sessionsList, api.OpSessionsRevoke: s.sessionsRevoke, api.OpPassword: s.password,
		api.OpEventsAnswer: s.eventsAnswer,
		api.OpFoldersList:  s.foldersList, api.OpFoldersCreate: s.foldersCreate, api.OpFoldersUpdate: s.foldersUpdate,
		api.OpFoldersDelete: s.foldersDelete, api.OpFoldersOrder: s.foldersOrder, api.OpChatsMove: s.chatsMove,
	}
}

// ServeHTTP implements [http.Handler]. The checks of [auth.Guard] that need no
// route come before the routing, so that a refused request learns nothing.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if err := s.Guard.CheckHost(r); err != nil {
		s.fail(w, r, err)
		return
	}
	if err := s.Guard.CheckOrigin(r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) serve(c *call, h handler) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		s.Log.Error("handler panicked", "operation", c.op.ID, "panic", v, "stack", string(debug.Stack()))
		s.fail(c.w, c.r, api.NewError(api.CodeInternal, "the controller made a mistake; its log has the details", ""))
	}()
	if !c.op.Public {
		by, err := s.Guard.Authenticate(c.r)
		if err != nil {
			s.fail(c.w, c.r, err)
			return
		}
		c.by, c.identity = by.Principal, by
		if by.Renewed != nil {
			http.SetCookie(c.w, by.Renewed)
		}
		if !s.sameInstance(c) {
			s.fail(c.w, c.r, api.NewError(api.CodeControllerChanged, "the controller has been restarted since this request was prepared",
				"Look again and repeat it if it is still wanted."))
			return
		}
	}
	if c.op.Mutates() {
		if err := s.Guard.CheckIntent(c.r, c.identity, c.op.ID == api.OpAttachmentsPut); err != nil {
			s.fail(c.w, c.r, err)
			return
		}
	}
	ctx := c.r.Context()
	if c.op.Mutates() {
		// A client that goes away must not leave a mutation half decided.
		ctx = context.WithoutCancel(ctx)
	}
	if c.op.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.op.Timeout)
		defer cancel()
	}
	doc, err := h(ctx, c)
	if err != nil {
		s.fail(c.w, c.r, err)
		return
	}
	if doc != nil {
		s.write(c.w, http.StatusOK, doc)
	}
}

// sameInstance reports whether the request is meant for this process. A client
// learns the instance from the context, and a browser cannot say it when it
// follows a link or loads a picture.
func (s *Server) sameInstance(c *call) bool {
	got := c.r.Header.Get(api.HeaderInstance)
	if got == "" {
		return c.op.ID == api.OpContext || c.identity.Kind != auth.Program && !c.op.Mutates()
	}
	return got == s.Descriptor.InstanceID
}

// write sends a document.
func (s *Server) write(w http.ResponseWriter, status int, doc any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	// The escapes for HTML would grow source code by a half.
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		s.Log.Error("answer does not encode", "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // an error means that the client has gone
}

// fail sends the envelope of a failure.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := toAPI(err)
	if e.Code == api.CodeInternal {
		s.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	s.write(w, api.StatusOf(e.Code), api.Envelope{Error: e})
}

func toAPI(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return api.FromExec(e)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return api.NewError(api.Code(exec.CodeOutcomeUnknown), "the request was given up before it had an answer", "Look at the chat before you repeat it.")
	}
	return api.NewError(api.CodeInternal, err.Error(), "The controller's log has more.")
}

// decode reads the request's one JSON document into v, strictly.
func decode(c *call, v any) error {
	mediaType, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return api.NewError(api.CodeMediaType, "the request must be application/json", "")
	}
	dec := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, api.MaxRequest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return api.NewError(api.CodeInvalid, "the request holds more than one document", "")
	}
	return nil
}

func decodeError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return api.NewError(api.CodeTooLarge, "the request is larger than "+strconv.Itoa(api.MaxRequest>>20)+" MiB", "Attach large text as a file.")
	}
	return api.NewError(api.CodeInvalid, "the request is not valid: "+err.Error(), "")
}

// number reads an integer query value.
func (c *call) number(name string, fallback int64) (int64, error) {
	text := c.r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, api.NewError(api.CodeInvalid, "query "+name+" must be a whole number", "")
	}
	return n, nil
}

// waiting returns a context that ends with the wait the query asks for.
func (c *call) waiting(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ms, err := c.number("wait", 0)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, max(0, min(time.Duration(ms)*time.Millisecond, api.MaxWait)))
	return ctx, cancel, nil
}

func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

func (c *call) path(name string) string { return c.r.PathValue(name) }
