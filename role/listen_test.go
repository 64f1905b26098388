package role

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestListenOptions(t *testing.T) {
	tests := []struct {
		name string
		o    ListenOptions
		base string
		fail string // part of the error, "" for none
	}{
		{"default", ListenOptions{Bind: "127.0.0.1"}, "", ""},
		{"beyond loopback", ListenOptions{Bind: "0.0.0.0"}, "", ""},
		{"a name", ListenOptions{Bind: "localhost"}, "", "--bind"},
		{"nothing", ListenOptions{}, "", "--bind"},
		{"no login here", ListenOptions{Bind: "::1", NoAuth: true}, "", ""},
		{"no login for everybody", ListenOptions{Bind: "0.0.0.0", NoAuth: true}, "", "--no-auth"},
		{"no login for the network", ListenOptions{Bind: "192.168.1.5", NoAuth: true}, "", "--no-auth"},
		{"no login behind a proxy", ListenOptions{Bind: "127.0.0.1", NoAuth: true, PublicURL: "https://box.example"}, "", "--no-auth"},
		{"no login behind a name", ListenOptions{Bind: "127.0.0.1", NoAuth: true, AllowedHosts: []string{"x"}}, "", "--no-auth"},
		{"no login behind hops", ListenOptions{Bind: "127.0.0.1", NoAuth: true, TrustProxy: 1}, "", "--no-auth"},
		{"half of TLS", ListenOptions{Bind: "127.0.0.1", TLSCert: "x"}, "", "--tls-key"},
		{"negative hops", ListenOptions{Bind: "127.0.0.1", TrustProxy: -1}, "", "--trust-proxy"},
		{"base path", ListenOptions{Bind: "127.0.0.1", BasePath: "/garcon/"}, "/garcon", ""},
		{"base path from the URL", ListenOptions{Bind: "127.0.0.1", PublicURL: "https://box.example/garcon/"}, "/garcon", ""},
		{"both", ListenOptions{Bind: "127.0.0.1", PublicURL: "https://box.example/garcon", BasePath: "/garcon"}, "/garcon", ""},
		{"different", ListenOptions{Bind: "127.0.0.1", PublicURL: "https://box.example/x", BasePath: "/y"}, "", "make them equal"},
		{"relative base", ListenOptions{Bind: "127.0.0.1", BasePath: "garcon"}, "", "--base-path"},
		{"base with quotes", ListenOptions{Bind: "127.0.0.1", BasePath: `/"><script>`}, "", "--base-path"},
		{"base that hides the API", ListenOptions{Bind: "127.0.0.1", BasePath: "/api"}, "", "--base-path"},
		{"URL without scheme", ListenOptions{Bind: "127.0.0.1", PublicURL: "box.example"}, "", "--public-url"},
		{"URL with query", ListenOptions{Bind: "127.0.0.1", PublicURL: "https://box.example/?a"}, "", "--public-url"},
		{"URL with user", ListenOptions{Bind: "127.0.0.1", PublicURL: "https://u@box.example"}, "", "--public-url"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, base, err := tt.o.check()
			switch {
			case tt.fail == "" && (err != nil || base != tt.base):
				t.Errorf("base %q, %v", base, err)
			case tt.fail != "" && (err == nil || !strings.Contains(err.Error(), tt.fail)):
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDoors(t *testing.T) {
	cert, key := certificate(t)
	tests := []struct {
		name string
		o    ListenOptions
		back bool
		home string // without the port
		url  string
	}{
		{"loopback", ListenOptions{Bind: "127.0.0.1"}, false, "http://127.0.0.1:/", "http://127.0.0.1:"},
		{"everywhere", ListenOptions{Bind: "0.0.0.0"}, false, "http://127.0.0.1:/", "http://127.0.0.1:"},
		{"TLS", ListenOptions{Bind: "127.0.0.1", TLSCert: cert, TLSKey: key}, true, "https://127.0.0.1:/", "http://127.0.0.1:"},
		{"base path", ListenOptions{Bind: "127.0.0.1", BasePath: "/garcon"}, false, "http://127.0.0.1:/garcon/", "http://127.0.0.1:"},
		{"public", ListenOptions{Bind: "127.0.0.1", PublicURL: "https://Box.example/g"}, false, "https://box.example/g/", "http://127.0.0.1:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			public, base, err := tt.o.check()
			if err != nil {
				t.Fatal(err)
			}
			d, err := openDoors(tt.o, public, base)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			if (d.back != nil) != tt.back || noPort(d.home) != tt.home || noPort(d.url) != tt.url {
				t.Errorf("back %v, home %s, url %s", d.back != nil, d.home, d.url)
			}
			if host := strings.TrimPrefix(d.url, "http://"); tt.back && d.back.Addr().String() != host {
				t.Errorf("programs are sent to %s", host)
			}
		})
	}
}

// noPort takes the port out of a URL on 127.0.0.1.
func noPort(u string) string {
	before, after, ok := strings.Cut(u, "127.0.0.1:")
	if !ok {
		return u
	}
	return before + "127.0.0.1:" + strings.TrimLeft(after, "0123456789")
}

// certificate writes a certificate for loopback and returns its files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key = write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func TestExposureIsSaid(t *testing.T) {
	for _, tt := range []struct {
		o    ListenOptions
		want []string
		not  string
	}{
		{ListenOptions{Bind: "127.0.0.1"}, nil, "machine"},
		{ListenOptions{Bind: "0.0.0.0", Port: 8080}, []string{"0.0.0.0:8080", "run programs here as you", "Nothing is encrypted"}, ""},
		{ListenOptions{Bind: "0.0.0.0", TLSCert: "c", TLSKey: "k"}, []string{"run programs"}, "Nothing is encrypted"},
		{ListenOptions{Bind: "0.0.0.0", PublicURL: "https://box.example"}, []string{"run programs"}, "Nothing is encrypted"},
	} {
		public, _, err := tt.o.check()
		if err != nil {
			t.Fatal(err)
		}
		got := exposure(tt.o, public)
		for _, w := range tt.want {
			if !strings.Contains(got, w) {
				t.Errorf("%+v: %q lacks %q", tt.o, got, w)
			}
		}
		if tt.not != "" && strings.Contains(got, tt.not) {
			t.Errorf("%+v: %q", tt.o, got)
		}
	}
}
