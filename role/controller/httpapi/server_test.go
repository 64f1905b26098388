package httpapi

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"garcon/proto/api"
	"garcon/role/controller/auth"
	"garcon/role/controller/chat"
	"garcon/role/controller/fleet"
	"garcon/role/controller/folder"
	"garcon/role/controller/permission"
	"garcon/store"
	"garcon/store/runtimefile"
)

const capability = "the capability"

func descriptor() runtimefile.Descriptor {
	return runtimefile.Descriptor{Schema: runtimefile.Schema, Role: "controller", InstanceID: "instance-1", URL: "http://127.0.0.1:8080", Capability: capability}
}

// newServer returns a server over an empty workspace without executors.
func newServer(t testing.TB) *Server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	root, err := store.OpenRoot(t.TempDir(), store.RoleController)
	must(t, err)
	ws, err := root.OpenWorkspace(context.Background(), "default", store.Options{Log: log})
	must(t, err)
	service := chat.New(chat.Options{Workspace: ws, Runtimes: fleet.New(""), Desk: permission.New(log), Instance: "instance-1", Log: log})
	t.Cleanup(func() {
		service.Close(context.Background())
		must(t, ws.Close())
		must(t, root.Close())
	})
	sessions, err := auth.OpenSessions(context.Background(), ws.Registry(), "default", log)
	must(t, err)
	folders := folder.Open(ws.Registry(), log)
	t.Cleanup(folders.Close)
	return New(Options{
		Chats: service, Folders: folders, Answers: noAnswers{}, Home: "http://127.0.0.1:8080/",
		Guard: auth.NewGuard(auth.Options{
			Addrs: []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}}, Capability: capability, Sessions: sessions,
		}),
		Descriptor: descriptor(), Workspace: "default", Version: "test", Log: log,
		Doctor: func(context.Context) api.Doctor { return api.Doctor{Checks: []api.Check{}} },
	})
}

// noAnswers knows no event.
type noAnswers struct{}

func (noAnswers) Answer(context.Context, string, api.EventAnswerRequest, chat.Principal) (api.EventAnswered, error) {
	return api.EventAnswered{}, api.NewError(api.CodeRequestGone, "no such event", "")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filled returns the path of an operation with something in each wildcard.
func filled(op api.Operation) string {
	path := api.Base + op.Path
	for _, name := range []string{"chat", "turn", "ordinal", "entry", "occurrence", "digest", "agent", "provider", "session", "event", "folder"} {
		path = strings.ReplaceAll(path, "{"+name+"}", "1")
	}
	return path
}

// request returns a request that only its content can be refused for.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Authorization", "Bearer "+runtimefile.Bearer(capability))
	r.Header.Set(api.HeaderInstance, "instance-1")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do serves a request and returns the status and the failure's code.
func do(t testing.TB, s *Server, r *http.Request) (int, api.Code, []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	must(t, err)
	var e api.Envelope
	if w.Code >= 400 {
		if err := json.Unmarshal(body, &e); err != nil || e.Error == nil || e.Error.Message == "" {
			t.Errorf("%s %s: status %d without an envelope: %s", r.Method, r.URL.Path, w.Code, body)
			return w.Code, "", body
		}
		return w.Code, e.Error.Code, body
	}
	return w.Code, "", body
}

// TestEveryOperationIsGuarded refuses each operation for each reason that comes
// before its content.
func TestEveryOperationIsGuarded(t *testing.T) {
	s := newServer(t)
	reasons := []struct {
		name   string
		change func(*http.Request)
		code   api.Code
	}{
		{"hostile host", func(r *http.Request) { r.Host = "evil.example" }, api.CodeHostRefused},
		{"rebound host", func(r *http.Request) { r.Host = "evil.example:8080" }, api.CodeHostRefused},
		{"wildcard host", func(r *http.Request) { r.Host = "0.0.0.0:8080" }, api.CodeHostRefused},
		{"foreign origin", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, api.CodeOriginRefused},
		{"null origin", func(r *http.Request) { r.Header.Set("Origin", "null") }, api.CodeOriginRefused},
		{"other loopback port", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:3000") }, api.CodeOriginRefused},
		{"cross-site fetch", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, api.CodeOriginRefused},
		{"no credential", func(r *http.Request) { r.Header.Del("Authorization") }, api.CodeUnauthorized},
		{"wrong credential", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, api.CodeUnauthorized},
		{"other instance", func(r *http.Request) { r.Header.Set(api.HeaderInstance, "instance-0") }, api.CodeControllerChanged},
		{"no instance", func(r *http.Request) { r.Header.Del(api.HeaderInstance) }, api.CodeControllerChanged},
	}
	for _, op := range api.Operations {
		for _, reason := range reasons {
			if op.Public && (reason.code == api.CodeUnauthorized || reason.code == api.CodeControllerChanged) {
				continue
			}
			if op.ID == api.OpContext && reason.name == "no instance" {
				continue // it is where a client learns the instance
			}
			r := request(op.Method, filled(op), "{}")
			reason.change(r)
			status, code, body := do(t, s, r)
			if code != reason.code || status != api.StatusOf(reason.code) {
				t.Errorf("%s, %s: status %d, code %s", op.ID, reason.name, status, code)
			}
			if bytes.Contains(body, []byte(capability)) || bytes.Contains(body, []byte(runtimefile.Bearer(capability))) {
				t.Errorf("%s, %s: the answer holds a secret", op.ID, reason.name)
			}
		}
	}
}

func TestNoAnswerAllowsAnotherOrigin(t *testing.T) {
	s := newServer(t)
	r := request(http.MethodOptions, api.Base+"/chats", "")
	r.Header.Set("Origin", "http://evil.example")
	r.Header.Set("Access-Control-Request-Method", "POST")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	for name := range w.Header() {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("the answer has %s", name)
		}
	}
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
}

func TestDocumentsAreDecodedStrictly(t *testing.T) {
	s := newServer(t)
	tests := []struct {
		name, body, mediaType string
		code                  api.Code
	}{
		{"unknown member", `{"requestId":"1","colour":"red"}`, "application/json", api.CodeInvalid},
		{"two documents", `{"requestId":"1"}{}`, "application/json", api.CodeInvalid},
		{"trailing text", `{"requestId":"1"} x`, "application/json", api.CodeInvalid},
		{"wrong type", `{"requestId":1}`, "application/json", api.CodeInvalid},
		{"array", `[]`, "application/json", api.CodeInvalid},
		{"nothing", ``, "application/json", api.CodeInvalid},
		{"broken", `{"requestId":`, "application/json", api.CodeInvalid},
		{"form", `requestId=1`, "application/x-www-form-urlencoded", api.CodeMediaType},
		{"text", `{}`, "text/plain", api.CodeMediaType},
		{"no type", `{}`, "", api.CodeMediaType},
		{"too large", `{"prompt":"` + strings.Repeat("x", api.MaxRequest) + `"}`, "application/json", api.CodeTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(http.MethodPost, api.Base+"/chats", tt.body)
			r.Header.Set("Content-Type", tt.mediaType)
			if _, code, _ := do(t, s, r); code != tt.code {
				t.Errorf("code %s, want %s", code, tt.code)
			}
		})
	}
}

func TestProofOfIdentity(t *testing.T) {
	s := newServer(t)
	challenge := bytes.Repeat([]byte{7}, challengeBytes)
	r := request(http.MethodGet, api.Base+"/runtime?challenge="+hex.EncodeToString(challenge), "")
	r.Header.Del("Authorization")
	status, _, body := do(t, s, r)
	var proof api.RuntimeProof
	if status != http.StatusOK || json.Unmarshal(body, &proof) != nil {
		t.Fatalf("status %d: %s", status, body)
	}
	d := descriptor()
	if !runtimefile.Verify(capability, d.Role, d.InstanceID, d.URL, challenge, proof.Proof) {
		t.Error("the proof does not verify")
	}
	if runtimefile.Verify("another", d.Role, d.InstanceID, d.URL, challenge, proof.Proof) {
		t.Error("the proof verifies for another capability")
	}
	for _, bad := range []string{"", "zz", "00", hex.EncodeToString(challenge) + "00"} {
		if _, code, _ := do(t, s, request(http.MethodGet, api.Base+"/runtime?challenge="+bad, "")); code != api.CodeInvalid {
			t.Errorf("challenge %q: code %s", bad, code)
		}
	}
}

func TestUnknownThings(t *testing.T) {
	s := newServer(t)
	tests := []struct {
		method, path, body string
		code               api.Code
	}{
		{http.MethodGet, "/", "", api.CodeNotFound},
		{http.MethodGet, api.Base + "/nothing", "", api.CodeNotFound},
		{http.MethodGet, api.Base + "/chats/1", "", api.CodeChatNotFound},
		{http.MethodGet, api.Base + "/chats/1/rows", "", api.CodeChatNotFound},
		{http.MethodGet, api.Base + "/chats/1/changes", "", api.CodeChatNotFound},
		{http.MethodGet, api.Base + "/chats/1/export", "", api.CodeChatNotFound},
		{http.MethodGet, api.Base + "/chats/1/rows?max=x", "", api.CodeInvalid},
		{http.MethodGet, api.Base + "/chats/1/turns/2", "", api.CodeChatNotFound},
		{http.MethodDelete, api.Base + "/chats/1", "", api.CodeChatNotFound},
		{http.MethodPost, api.Base + "/chats/1/stop", "{}", api.CodeChatNotFound},
		{http.MethodPost, api.Base + "/chats/1/permissions/o", `{"runId":"r","controlId":"c","optionId":"x"}`, api.CodeChatNotFound},
		{http.MethodPost, api.Base + "/chats/1/permissions/o", `{"runId":"r","controlId":"c"}`, api.CodeInvalid},
		{http.MethodGet, api.Base + "/attachments/sha256-00", "", api.CodeNotFound},
		{http.MethodGet, api.Base + "/attachments/..%2f..%2fworkspace.db", "", api.CodeNotFound},
		{http.MethodPost, api.Base + "/providers/1/test", "{}", api.CodeNotFound},
		{http.MethodGet, api.Base + "/agents?executor=x", "", "EXECUTOR_UNAVAILABLE"},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			if status, code, _ := do(t, s, request(tt.method, tt.path, tt.body)); code != tt.code {
				t.Errorf("status %d, code %s, want %s", status, code, tt.code)
			}
		})
	}
}

// TestKeysNeverComeBack adds a provider and looks for its key in every answer.
func TestKeysNeverComeBack(t *testing.T) {
	s := newServer(t)
	const key = "sk-canary-12345"
	status, _, body := do(t, s, request(http.MethodPost, api.Base+"/providers", `{"label":"L","protocol":"openai-chat","baseUrl":"http://127.0.0.1:9/v1/","key":"`+key+`"}`))
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	var p api.Provider
	must(t, json.Unmarshal(body, &p))
	if !p.HasKey || p.BaseURL != "http://127.0.0.1:9/v1" {
		t.Errorf("provider %+v", p)
	}
	_, _, list := do(t, s, request(http.MethodGet, api.Base+"/providers", ""))
	_, _, moved := do(t, s, request(http.MethodPatch, api.Base+"/providers/"+p.ID, `{"label":"M"}`))
	for _, answer := range [][]byte{body, list, moved} {
		if bytes.Contains(answer, []byte(key)) {
			t.Errorf("an answer holds the key: %s", answer)
		}
	}
	must(t, json.Unmarshal(moved, &p))
	if !p.HasKey {
		t.Error("a new label cleared the key")
	}
	_, _, body = do(t, s, request(http.MethodPatch, api.Base+"/providers/"+p.ID, `{"baseUrl":"http://127.0.0.1:10/v1"}`))
	must(t, json.Unmarshal(body, &p))
	if p.HasKey {
		t.Error("the key went along to another host")
	}
	for _, bad := range []string{"ftp://x", "http://", "https://u:p@x", "https://x?y=1", "https://x#y", "nonsense"} {
		if _, code, _ := do(t, s, request(http.MethodPost, api.Base+"/providers", `{"protocol":"anthropic","baseUrl":"`+bad+`"}`)); code != api.CodeInvalid {
			t.Errorf("base URL %q: code %s", bad, code)
		}
	}
}

func TestAttachmentsAreDownloads(t *testing.T) {
	s := newServer(t)
	r := request(http.MethodPost, api.Base+"/attachments?name=..%2F..%2Fevil.html", "<script>alert(1)</script>")
	r.Header.Set("Content-Type", "text/html")
	status, _, body := do(t, s, r)
	var up api.Uploaded
	if status != http.StatusOK || json.Unmarshal(body, &up) != nil {
		t.Fatalf("status %d: %s", status, body)
	}
	if up.Name != "evil.html" || up.Size != 25 {
		t.Errorf("uploaded %+v", up)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request(http.MethodGet, api.Base+"/attachments/"+up.Digest, ""))
	h := w.Header()
	if h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Disposition") != "attachment" || h.Get("X-Content-Type-Options") != "nosniff" || w.Body.String() != "<script>alert(1)</script>" {
		t.Errorf("headers %v, body %q", h, w.Body)
	}
	large := request(http.MethodPost, api.Base+"/attachments?name=big", "")
	large.Body = io.NopCloser(io.LimitReader(zeros{}, api.MaxAttachment+1))
	large.Header.Set("Content-Type", "image/png")
	if _, code, _ := do(t, s, large); code != api.CodeTooLarge {
		t.Errorf("code %s", code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestAPanicIsOneFailedRequest(t *testing.T) {
	s := newServer(t)
	s.Doctor = func(context.Context) api.Doctor { panic("secret detail") }
	_, code, body := do(t, s, request(http.MethodGet, api.Base+"/doctor", ""))
	if code != api.CodeInternal || bytes.Contains(body, []byte("secret detail")) {
		t.Errorf("code %s: %s", code, body)
	}
}
