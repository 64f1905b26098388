// Package web serves the built user interface: a page, its assets and nothing
// that needs a credential.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// index is the page that every route of the interface is served as.
	index = "index.html"
	// hashed is where files have their hash in the name: they never change.
	hashed = "assets/"
	// diagram is where the sandboxed page and what it loads are.
	diagram = "diagram/"
	// gzipAbove is the size of a file worth compressing, in bytes: below it the
	// answer is one packet anyway.
	gzipAbove = 1 << 10
)

// policy is the content security policy of the interface. Nothing in the page
// is inline and text never becomes markup, so that what an agent writes cannot
// run. The two trusted types are Svelte's, for the templates of the build, and
// the interface's own for the address of its service worker.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'self'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types svelte-trusted-html garcon-worker"

// diagramPolicy is that of the page that draws diagrams: it has an origin of
// its own and can load nothing but its script.
const diagramPolicy = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"

// mediaTypes are those of the files of a build. The system's table is not
// asked: a wrong entry there would break the interface.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".webmanifest": "application/manifest+json", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8", ".wasm": "application/wasm", ".png": "image/png", ".ico": "image/x-icon",
	".woff2": "font/woff2", ".webp": "image/webp",
}

// compressible are those worth compressing.
var compressible = map[string]bool{
	".html": true, ".js": true, ".css": true, ".json": true, ".webmanifest": true, ".svg": true, ".txt": true, ".wasm": true,
}

// Guard refuses requests of other sites; see role/controller/auth.
type Guard interface {
	CheckNavigation(r *http.Request) error
}

// UI serves the files of a build. It is immutable and safe for concurrent use.
type UI struct {
	guard Guard
	files map[string]*file
}

// file is one file in memory.
type file struct {
	name, mediaType string
	data            []byte
	tag             string // of its content
	// small is data compressed, made when it is first wanted; nil if that gains
	// nothing.
	small func() []byte
}

// New reads a build. base is the path in front of everything, without a slash
// at the end. Without a build there is a page that says how to make one.
func New(build fs.FS, base string, guard Guard) (*UI, error) {
	u := &UI{guard: guard, files: map[string]*file{}}
	if build == nil {
		return u, nil
	}
	if _, err := fs.Stat(build, index); err != nil {
		return u, nil
	}
	err := fs.WalkDir(build, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(build, name)
		if err != nil {
			return err
		}
		if name == index {
			if data, err = withBase(data, base); err != nil {
				return err
			}
		}
		u.files[name] = newFile(name, data)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the user interface: %w", err)
	}
	return u, nil
}

// withBase tells the page where it is, so that its relative addresses work on
// every route and below a base path.
func withBase(page []byte, base string) ([]byte, error) {
	const head = "<head>"
	before, after, ok := bytes.Cut(page, []byte(head))
	if !ok {
		return nil, fmt.Errorf("%s has no head", index)
	}
	return fmt.Appendf(nil, "%s%s<base href=\"%s/\" />%s", before, head, html.EscapeString(base), after), nil
}

func newFile(name string, data []byte) *file {
	ext := path.Ext(name)
	sum := sha256.Sum256(data)
	f := &file{name: name, mediaType: mediaTypes[ext], data: data, tag: hex.EncodeToString(sum[:16])}
	if f.mediaType == "" {
		f.mediaType = "application/octet-stream"
	}
	f.small = sync.OnceValue(func() []byte {
		if !compressible[ext] || len(data) < gzipAbove {
			return nil
		}
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if err != nil {
			return nil // the level is a valid one
		}
		if _, err := w.Write(data); err != nil || w.Close() != nil || out.Len() >= len(data) {
			return nil
		}
		return out.Bytes()
	})
	return f
}

// ServeHTTP implements [http.Handler]. A path that is no file is a route of the
// interface.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-cache")
	name := strings.TrimPrefix(r.URL.Path, "/")
	sandboxed := strings.HasPrefix(name, diagram)
	if sandboxed {
		// The page's origin is none, so that whatever it loads looks like another
		// site's; its files are the same for everybody.
		h.Set("Content-Security-Policy", diagramPolicy)
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		h.Del("X-Frame-Options")
		h.Del("Cross-Origin-Opener-Policy")
	} else if err := u.guard.CheckNavigation(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if len(u.files) == 0 {
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(unbuilt)) // the client has gone
		return
	}
	f := u.files[name]
	if f == nil {
		if sandboxed || strings.HasPrefix(name, hashed) || mediaTypes[path.Ext(name)] != "" {
			// A page in place of a script would be a riddle.
			http.Error(w, "there is no such file", http.StatusNotFound)
			return
		}
		f = u.files[index]
	}
	f.serve(w, r)
}

// unbuilt is the page without a build.
const unbuilt = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>garcon</title></head>
<body><h1>The web interface is not in this build</h1>
<p>Build it with <code>npm ci &amp;&amp; npm run build</code> in the directory <code>ui</code>, then build garcon again. The command line works without it.</p></body></html>
`

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	if strings.HasPrefix(f.name, hashed) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	data, tag := f.data, f.tag
	if compressible[path.Ext(f.name)] {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			if small := f.small(); small != nil {
				data, tag = small, tag+"-gzip"
				h.Set("Content-Encoding", "gzip")
				// Ranges would be of the compressed bytes, which no client means.
				r = r.Clone(r.Context())
				r.Header.Del("Range")
			}
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// acceptsGzip reports whether the client takes gzip.
func acceptsGzip(r *http.Request) bool {
	for entry := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(entry, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		value, weighed := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
		if !weighed {
			return true
		}
		q, err := strconv.ParseFloat(value, 64)
		return err == nil && q > 0
	}
	return false
}
