package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"garcon/proto/api"
)

// page is a browser's page: it keeps the cookies it is given.
type page struct {
	t       *testing.T
	s       *Server
	cookies map[string]string
}

// do makes a request as a page of ours does, and decodes the answer.
func (p *page) do(method, path, body string, v any) (status int, code api.Code) {
	p.t.Helper()
	r := httptest.NewRequest(method, api.Base+path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Origin", "http://127.0.0.1:8080")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(api.HeaderOrigin, "browser")
	r.Header.Set(api.HeaderInstance, "instance-1")
	for name, value := range p.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	p.s.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		p.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(p.cookies, c.Name)
		}
	}
	if w.Code >= 400 {
		var e api.Envelope
		must(p.t, json.Unmarshal(w.Body.Bytes(), &e))
		return w.Code, e.Error.Code
	}
	if v != nil {
		must(p.t, json.Unmarshal(w.Body.Bytes(), v))
	}
	return w.Code, ""
}

func newPage(t *testing.T, s *Server) *page {
	return &page{t: t, s: s, cookies: map[string]string{}}
}

// signIn follows a one-time link, as a person does who ran `garcon login`.
func (p *page) signIn() api.Session {
	p.t.Helper()
	status, _, body := do(p.t, p.s, request(http.MethodPost, api.Base+"/login/links", "{}"))
	var link api.LoginLink
	if status != http.StatusOK || json.Unmarshal(body, &link) != nil || link.ExpiresAt == 0 {
		p.t.Fatalf("status %d: %s", status, body)
	}
	home, secret, ok := strings.Cut(link.URL, "#login=")
	if !ok || home != "http://127.0.0.1:8080/" {
		p.t.Fatalf("link %s", link.URL)
	}
	var s api.Session
	if status, code := p.do(http.MethodPost, "/login", `{"secret":"`+secret+`"}`, &s); status != http.StatusOK {
		p.t.Fatalf("login: %d %s", status, code)
	}
	return s
}

func TestABrowserSignsInAndOut(t *testing.T) {
	p := newPage(t, newServer(t))
	var s api.Session
	p.do(http.MethodGet, "/session", "", &s)
	if s != (api.Session{}) {
		t.Errorf("before: %+v", s)
	}
	if _, code := p.do(http.MethodGet, "/chats", "", nil); code != api.CodeUnauthorized {
		t.Errorf("before: %s", code)
	}
	if got := p.signIn(); !got.SignedIn || got.SessionID == "" {
		t.Errorf("signed in: %+v", got)
	}
	p.do(http.MethodGet, "/session", "", &s)
	if !s.SignedIn || s.NoAuth || s.PasswordSet {
		t.Errorf("after: %+v", s)
	}
	if status, code := p.do(http.MethodGet, "/chats", "", nil); status != http.StatusOK {
		t.Errorf("after: %s", code)
	}
	if _, code := p.do(http.MethodPost, "/login/links", "{}", nil); code != api.CodeForbidden {
		t.Errorf("a browser makes a link: %s", code)
	}
	kept := p.cookies
	if status, _ := p.do(http.MethodPost, "/logout", "{}", &s); status != http.StatusOK || s.SignedIn || len(p.cookies) != 0 {
		t.Errorf("out: %d %+v, cookies %v", status, s, p.cookies)
	}
	p.cookies = kept
	if status, _ := p.do(http.MethodPost, "/logout", "{}", nil); status != http.StatusOK {
		t.Errorf("signing out twice: %d", status)
	}
}

func TestABrowserRevokesAnother(t *testing.T) {
	s := newServer(t)
	one, two := newPage(t, s), newPage(t, s)
	mine, other := one.signIn(), two.signIn()
	var list api.BrowserSessionList
	one.do(http.MethodGet, "/sessions", "", &list)
	if len(list.Sessions) != 2 {
		t.Fatalf("sessions %+v", list)
	}
	for _, x := range list.Sessions {
		if x.Current != (x.ID == mine.SessionID) {
			t.Errorf("session %+v", x)
		}
	}
	if status, _ := one.do(http.MethodDelete, "/sessions/"+other.SessionID, "", &list); status != http.StatusOK || len(list.Sessions) != 1 {
		t.Errorf("revoke: %d, left %+v", status, list)
	}
	if _, code := two.do(http.MethodGet, "/chats", "", nil); code != api.CodeUnauthorized {
		t.Errorf("the other gets %s", code)
	}
	if _, code := one.do(http.MethodDelete, "/sessions/"+other.SessionID, "", nil); code != api.CodeNotFound {
		t.Errorf("revoke again: %s", code)
	}
}

func TestAPasswordIsSetAndUsed(t *testing.T) {
	s := newServer(t)
	one, two := newPage(t, s), newPage(t, s)
	one.signIn()
	var got api.Session
	if status, code := one.do(http.MethodPut, "/password", `{"next":"several short words"}`, &got); status != http.StatusOK || !got.PasswordSet || !got.SignedIn {
		t.Fatalf("%d %s %+v", status, code, got)
	}
	if _, code := two.do(http.MethodPost, "/login", `{"password":"several wrong words"}`, nil); code != api.CodeUnauthorized {
		t.Errorf("a wrong one: %s", code)
	}
	if status, code := two.do(http.MethodPost, "/login", `{"password":"several short words"}`, &got); status != http.StatusOK || !got.SignedIn {
		t.Errorf("the right one: %s", code)
	}
	if _, code := two.do(http.MethodPut, "/password", `{"next":"another one of mine"}`, nil); code != api.CodeForbidden {
		t.Errorf("without the current one: %s", code)
	}
}

func TestFoldersOverHTTP(t *testing.T) {
	p := newPage(t, newServer(t))
	p.signIn()
	var one, two api.Folder
	p.do(http.MethodPost, "/folders", `{"name":"One"}`, &one)
	p.do(http.MethodPost, "/folders", `{"name":"Two"}`, &two)
	if status, code := p.do(http.MethodPatch, "/folders/"+one.ID, `{"collapsed":true}`, &one); status != http.StatusOK || !one.Collapsed {
		t.Errorf("update: %s %+v", code, one)
	}
	var list api.FolderList
	if status, code := p.do(http.MethodPut, "/folders/order", `{"order":["`+two.ID+`","`+one.ID+`"]}`, &list); status != http.StatusOK || list.Folders[0].ID != two.ID {
		t.Errorf("order: %s %+v", code, list)
	}
	if _, code := p.do(http.MethodPut, "/chats/1/folder", `{"folderId":"`+one.ID+`"}`, nil); code != api.CodeChatNotFound {
		t.Errorf("move of no chat: %s", code)
	}
	if status, code := p.do(http.MethodDelete, "/folders/"+two.ID, "", &list); status != http.StatusOK || len(list.Folders) != 1 {
		t.Errorf("delete: %s %+v", code, list)
	}
	p.do(http.MethodGet, "/folders", "", &list)
	if len(list.Folders) != 1 || list.Folders[0].Name != "One" || list.Archived == nil {
		t.Errorf("list: %+v", list)
	}
	if _, code := p.do(http.MethodPost, "/events/e/answer", `{"clientId":"c","kind":"next"}`, nil); code != api.CodeRequestGone {
		t.Errorf("answer to no event: %s", code)
	}
}
