package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

type allow struct{}

func (allow) CheckNavigation(*http.Request) error { return nil }

type deny struct{}

func (deny) CheckNavigation(*http.Request) error { return errors.New("refused") }

var script = strings.Repeat("export const answer = 42;\n", 200)

func build() fstest.MapFS {
	return fstest.MapFS{
		"index.html":           {Data: []byte("<!doctype html><html><head><title>t</title></head><body></body></html>")},
		"sw.js":                {Data: []byte("self.x = 1")},
		"icon.svg":             {Data: []byte("<svg/>")},
		"manifest.webmanifest": {Data: []byte("{}")},
		"assets/index-abc.js":  {Data: []byte(script)},
		"assets/tiny-abc.css":  {Data: []byte("a{}")},
		"diagram/index.html":   {Data: []byte("<!doctype html>")},
		"diagram/draw.js":      {Data: []byte("draw()")},
	}
}

func newUI(t *testing.T, base string) *UI {
	t.Helper()
	u, err := New(build(), base, allow{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func get(u http.Handler, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	u.ServeHTTP(w, r)
	return w
}

func gzipped(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip;q=0.8") }

func TestFiles(t *testing.T) {
	u := newUI(t, "")
	for _, tt := range []struct {
		path, mediaType, cache string
		status                 int
	}{
		{"/", "text/html; charset=utf-8", "no-cache", 200},
		{"/index.html", "text/html; charset=utf-8", "no-cache", 200},
		{"/chat/123", "text/html; charset=utf-8", "no-cache", 200},
		{"/anything/at/all", "text/html; charset=utf-8", "no-cache", 200},
		{"/sw.js", "text/javascript; charset=utf-8", "no-cache", 200},
		{"/manifest.webmanifest", "application/manifest+json", "no-cache", 200},
		{"/icon.svg", "image/svg+xml", "no-cache", 200},
		{"/assets/index-abc.js", "text/javascript; charset=utf-8", "public, max-age=31536000, immutable", 200},
		{"/assets/gone-abc.js", "", "no-cache", 404},
		{"/assets/", "", "no-cache", 404},
		{"/gone.js", "", "no-cache", 404},
		{"/../web.go", "text/html; charset=utf-8", "no-cache", 200}, // a route like any other
		{"/assets/../index.html", "", "no-cache", 404},
		{"/diagram/none", "", "no-cache", 404},
	} {
		w := get(u, tt.path)
		h := w.Header()
		if w.Code != tt.status || tt.mediaType != "" && h.Get("Content-Type") != tt.mediaType || h.Get("Cache-Control") != tt.cache {
			t.Errorf("%s: %d, %v", tt.path, w.Code, h)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: headers %v", tt.path, h)
		}
	}
}

func TestPolicyLetsNothingInlineRun(t *testing.T) {
	h := get(newUI(t, ""), "/").Header()
	csp := h.Get("Content-Security-Policy")
	for _, want := range []string{
		"script-src 'self';", "style-src 'self';", "connect-src 'self';", "frame-ancestors 'none'", "base-uri 'self'", "form-action 'none'",
		"require-trusted-types-for 'script'", "trusted-types svelte-trusted-html", "img-src 'self' data: blob:",
	} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	for _, never := range []string{"unsafe", "http:", "https:", "*", "wasm"} {
		if strings.Contains(csp, never) {
			t.Errorf("the policy has %s", never)
		}
	}
	if h.Get("X-Frame-Options") != "DENY" || h.Get("Cross-Origin-Opener-Policy") != "same-origin" {
		t.Errorf("headers %v", h)
	}
}

func TestDiagramsAreSandboxed(t *testing.T) {
	u, err := New(build(), "", deny{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/diagram/index.html", "/diagram/draw.js"} {
		w := get(u, path) // a page without an origin looks like another site
		csp := w.Header().Get("Content-Security-Policy")
		if w.Code != 200 || !strings.HasPrefix(csp, "sandbox allow-scripts; default-src 'none'") || strings.Contains(csp, "allow-same-origin") || w.Header().Get("X-Frame-Options") != "" {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
	}
	if w := get(u, "/"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "<html") {
		t.Errorf("another site gets %d", w.Code)
	}
}

func TestBasePath(t *testing.T) {
	for base, want := range map[string]string{"": `<head><base href="/" />`, "/garcon": `<head><base href="/garcon/" />`} {
		if body := get(newUI(t, base), "/deep/route").Body.String(); !strings.Contains(body, want) {
			t.Errorf("base %q: %s", base, body)
		}
	}
}

func TestCompression(t *testing.T) {
	u := newUI(t, "")
	plain, small := get(u, "/assets/index-abc.js"), get(u, "/assets/index-abc.js", gzipped)
	if plain.Header().Get("Content-Encoding") != "" || plain.Body.String() != script {
		t.Errorf("plain: %v", plain.Header())
	}
	if small.Header().Get("Content-Encoding") != "gzip" || small.Header().Get("Vary") != "Accept-Encoding" || small.Body.Len() > len(script)/4 {
		t.Errorf("gzip: %d bytes, %v", small.Body.Len(), small.Header())
	}
	zr, err := gzip.NewReader(bytes.NewReader(small.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if back, err := io.ReadAll(zr); err != nil || string(back) != script {
		t.Errorf("it unpacks to %d bytes, %v", len(back), err)
	}
	if plain.Header().Get("ETag") == small.Header().Get("ETag") {
		t.Error("both forms have the same tag")
	}
	if w := get(u, "/assets/tiny-abc.css", gzipped); w.Header().Get("Content-Encoding") != "" {
		t.Error("a tiny file is compressed")
	}
	for _, header := range []string{"", "br", "gzip;q=0", "gzip; q=0.0", "xgzip", "identity"} {
		w := get(u, "/assets/index-abc.js", func(r *http.Request) { r.Header.Set("Accept-Encoding", header) })
		if w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%q is taken for gzip", header)
		}
	}
}

func TestUnchangedFilesAreNotSentAgain(t *testing.T) {
	u := newUI(t, "")
	tag := get(u, "/", gzipped).Header().Get("ETag")
	if w := get(u, "/", gzipped, func(r *http.Request) { r.Header.Set("If-None-Match", tag) }); w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("got %d", w.Code)
	}
	if w := get(u, "/", func(r *http.Request) { r.Header.Set("If-None-Match", `"other"`) }); w.Code != 200 {
		t.Errorf("got %d", w.Code)
	}
}

func TestOnlyReading(t *testing.T) {
	u := newUI(t, "")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		if w := get(u, "/", func(r *http.Request) { r.Method = method }); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := get(u, "/", func(r *http.Request) { r.Method = http.MethodHead }); w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestWithoutABuildAPageSaysSo(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{"empty": {}, "other": {"README": {Data: []byte("x")}}} {
		u, err := New(files, "", allow{})
		if err != nil {
			t.Fatal(err)
		}
		if w := get(u, "/"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "npm run build") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if _, err := New(fstest.MapFS{"index.html": {Data: []byte("no head")}}, "", allow{}); err == nil {
		t.Error("a page without a head was taken")
	}
}
