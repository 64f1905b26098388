package cli

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"garcon/proto/api"
	"garcon/store/runtimefile"
)

func TestConnect(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsList, api.ChatList{})
	f.run("chats", "list", "--json").want(t, ExitOK, `"chats"`, "")
	bearer := "Bearer " + runtimefile.Bearer(f.descriptor.Capability)
	for _, s := range f.seen {
		switch {
		case s.op == api.OpRuntime && s.authorization != "":
			t.Errorf("the challenge carries %q", s.authorization)
		case s.op != api.OpRuntime && s.authorization != bearer:
			t.Errorf("%s carries %q", s.op, s.authorization)
		case s.op != api.OpRuntime && s.instance != f.descriptor.InstanceID:
			t.Errorf("%s is for instance %q", s.op, s.instance)
		case s.client != "cli":
			t.Errorf("%s says it is from %q", s.op, s.client)
		}
	}
	if len(f.seen) != 3 {
		t.Errorf("%d requests, want the challenge, the context and the list", len(f.seen))
	}
}

// Who holds the port of a controller that is gone must not get the bearer.
func TestNothingIsSentWithoutProof(t *testing.T) {
	for name, spoil := range map[string]func(*api.RuntimeProof){
		"wrong proof":    func(p *api.RuntimeProof) { p.Proof = strings.Repeat("0", len(p.Proof)) },
		"no proof":       func(p *api.RuntimeProof) { p.Proof = "" },
		"other instance": func(p *api.RuntimeProof) { p.InstanceID = "x" },
		"other role":     func(p *api.RuntimeProof) { p.Role = runtimefile.RoleExecutor },
		"other URL":      func(p *api.RuntimeProof) { p.URL = "http://127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.handle(api.OpRuntime, func(w http.ResponseWriter, _ *http.Request) {
				d := f.descriptor
				p := api.RuntimeProof{Schema: 1, Role: d.Role, InstanceID: d.InstanceID, URL: d.URL}
				p.Proof = runtimefile.Proof(d.Capability, d.Role, d.InstanceID, d.URL, make([]byte, challengeSize))
				spoil(&p)
				writeJSON(w, http.StatusOK, p)
			})
			f.run("chats").want(t, ExitUnavailable, "", "is not the controller that wrote the runtime file")
			if len(f.seen) != 1 {
				t.Errorf("%d requests, want only the challenge", len(f.seen))
			}
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	f := newFake(t)
	f.handle(api.OpContext, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, f.server.URL+api.Base+"/chats", http.StatusTemporaryRedirect)
	})
	f.run("chats").want(t, ExitUnavailable, "", "307")
	if n := len(f.requests(api.OpChatsList)); n != 0 {
		t.Errorf("the redirect was followed %d times", n)
	}
	if newClient("http://127.0.0.1:1").http.Transport.(*http.Transport).Proxy != nil {
		t.Error("the client uses a proxy")
	}
}

func TestNoRuntime(t *testing.T) {
	f := newFake(t)
	if err := runtimefile.RemoveOwn(runtimefile.Path(f.root, runtimefile.RoleController), f.descriptor.InstanceID); err != nil {
		t.Fatal(err)
	}
	f.run("chats").want(t, ExitUnavailable, "", "garcon controller --config-dir "+f.root)
	f.run("chats", "--runtime", "executor").want(t, ExitUnavailable, "", "no executor is running")
	if len(f.seen) != 0 {
		t.Error("requests were made")
	}
}

func TestStaleRuntimeIsNotReplaced(t *testing.T) {
	f := newFake(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// The newer one is gone; the older one is not asked instead.
	f.writeDescriptor(runtimefile.Descriptor{
		Schema: runtimefile.Schema, Role: runtimefile.RoleExecutor, InstanceID: runtimefile.NewInstanceID(),
		URL: url, PID: 1, StartedAt: 2, Capability: runtimefile.NewCapability(),
	})
	got := f.run("chats")
	got.want(t, ExitUnavailable, "", "cannot reach the executor at "+url)
	got.want(t, ExitUnavailable, "", "warning: ")
	if len(f.seen) != 0 {
		t.Error("the controller was asked")
	}
	f.answer(api.OpChatsList, api.ChatList{})
	f.run("chats", "--runtime", "controller", "--json").want(t, ExitOK, `"chats"`, "")
}

func TestServerAssertion(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsList, api.ChatList{})
	f.run("chats", "--server", "http://127.0.0.1:1").want(t, ExitUnavailable, "", "not at http://127.0.0.1:1")
	if len(f.seen) != 0 {
		t.Error("requests were made")
	}
	f.run("chats", "--server", f.server.URL+"/").want(t, ExitOK, "", "There are no chats")
}

func TestRefusedDescriptor(t *testing.T) {
	f := newFake(t)
	path := runtimefile.Path(f.root, runtimefile.RoleController)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	f.run("chats").want(t, ExitUnavailable, "", path)
	if len(f.seen) != 0 {
		t.Error("requests were made")
	}
}

func TestControllerChanged(t *testing.T) {
	f := newFake(t)
	f.answer(api.OpChatsList, api.NewError(api.CodeControllerChanged, "the controller has been restarted", "x"))
	f.run("chats").want(t, ExitUnavailable, "", "Run the command again")
}

// A server that accepts and says nothing is unavailable after a while.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	f.handle(api.OpRuntime, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	})
	f.run("chats").want(t, ExitUnavailable, "", "no answer in time")
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{
		"chats": "chats", "/a/b-c.d": "/a/b-c.d", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "~": "'~'",
	} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}
