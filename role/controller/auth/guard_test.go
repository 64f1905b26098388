package auth

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/store/runtimefile"
)

func guard(allowed ...string) *Guard {
	return NewGuard(Options{
		Addrs: []net.Addr{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}}, AllowedHosts: allowed, Capability: "capability",
	})
}

func TestHosts(t *testing.T) {
	tests := []struct {
		host string
		ok   bool
	}{
		{"127.0.0.1:8080", true},
		{"localhost:8080", true},
		{"LOCALHOST:8080", true},
		{"[::1]:8080", true},
		{"box.example", true},
		{"box.example:8080", true},
		{"proxy.example:444", true},
		{"", false},
		{"127.0.0.1", false},
		{"127.0.0.1:80", false},
		{"localhost", false},
		{"localhost:8081", false},
		{"localhost.:8080", false},
		{"localhost:8080.evil.example", false},
		{"evil.example", false},
		{"evil.example:8080", false},
		{"localhost.evil.example:8080", false},
		{"127.0.0.1.evil.example:8080", false},
		{"0.0.0.0:8080", false},
		{"[::]:8080", false},
		{"[::ffff:127.0.0.1]:8080", false},
		{"127.1:8080", false},
		{"2130706433:8080", false},
		{"0x7f.0.0.1:8080", false},
		{"127.0.0.1:08080", false},
		{"127.0.0.1:8080@evil.example", false},
		{"proxy.example", false},
		{"proxy.example:8080", false},
	}
	g := guard("box.example", "proxy.example:444")
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host = tt.host
			err := g.CheckHost(r)
			if (err == nil) != tt.ok {
				t.Errorf("CheckHost = %v, want ok %v", err, tt.ok)
			}
			if err != nil && err.(*api.Error).Code != api.CodeHostRefused {
				t.Errorf("code %s", err.(*api.Error).Code)
			}
		})
	}
}

func TestHostRefusalRepeatsNoShellText(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "x;rm -rf $HOME"
	err := guard().CheckHost(r).(*api.Error)
	if err.Hint != "If it is a proxy of yours, start the controller with --allowed-host HOST." {
		t.Errorf("hint %q", err.Hint)
	}
}

func TestOrigins(t *testing.T) {
	tests := []struct {
		name    string
		origins []string
		fetch   string
		ok      bool
	}{
		{"none", nil, "", true},
		{"own", []string{"http://localhost:8080"}, "same-origin", true},
		{"own name with TLS, which is not spoken", []string{"https://localhost:8080"}, "", false},
		{"navigation", nil, "none", true},
		{"cross-site read", nil, "cross-site", false},
		{"same-site read", nil, "same-site", false},
		{"null", []string{"null"}, "", false},
		{"empty", []string{""}, "", false},
		{"other port", []string{"http://localhost:3000"}, "", false},
		{"no port", []string{"http://localhost"}, "", false},
		{"suffix trick", []string{"http://localhost:8080.evil.example"}, "", false},
		{"prefix trick", []string{"http://evil-localhost:8080"}, "", false},
		{"other loopback name", []string{"http://127.0.0.1:8080"}, "", false},
		{"user trick", []string{"http://localhost:8080@evil.example"}, "", false},
		{"other scheme", []string{"file://localhost:8080"}, "", false},
		{"two", []string{"http://localhost:8080", "http://evil.example"}, "", false},
		{"extension", []string{"chrome-extension://abc"}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Host = "localhost:8080"
			for _, o := range tt.origins {
				r.Header.Add("Origin", o)
			}
			if tt.fetch != "" {
				r.Header.Set("Sec-Fetch-Site", tt.fetch)
			}
			if err := guard().CheckOrigin(r); (err == nil) != tt.ok {
				t.Errorf("CheckOrigin = %v, want ok %v", err, tt.ok)
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	good := "Bearer " + runtimefile.Bearer("capability")
	tests := []struct {
		name, header string
		ok           bool
	}{
		{"right", good, true},
		{"none", "", false},
		{"capability itself", "Bearer capability", false},
		{"of another", "Bearer " + runtimefile.Bearer("other"), false},
		{"empty", "Bearer ", false},
		{"other scheme", "Basic " + runtimefile.Bearer("capability"), false},
		{"longer", good + "x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("Authorization", tt.header)
			p, err := guard().Authenticate(r)
			if (err == nil) != tt.ok {
				t.Errorf("Authenticate = %v, want ok %v", err, tt.ok)
			}
			if tt.ok && p.Origin != row.OriginCLI {
				t.Errorf("origin %q", p.Origin)
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	for bind, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "[::1]": true, "127.5.5.5": true,
		"0.0.0.0": false, "::": false, "localhost": false, "": false, "10.0.0.1": false, "127.0.0.1.evil": false,
	} {
		if got := IsLoopback(bind); got != want {
			t.Errorf("IsLoopback(%q) = %v", bind, got)
		}
	}
}
