package cli

import (
	"testing"

	"garcon/proto/api"
)

func TestLogin(t *testing.T) {
	f := newFake(t)
	const link = "http://127.0.0.1:8080/#login=SECRET"
	f.answer(api.OpLoginLink, api.LoginLink{URL: link, ExpiresAt: 1})
	got := f.run("login")
	got.want(t, ExitOK, link, "")
	if got.stdout != link+"\n" {
		t.Errorf("piped it prints %q", got.stdout)
	}
	var doc api.LoginLink
	f.run("login", "--json").document(t, &doc)
	if doc.URL != link {
		t.Errorf("document %+v", doc)
	}
	f.server.Close()
	f.run("login").want(t, ExitUnavailable, "", "cannot reach the controller")
}
