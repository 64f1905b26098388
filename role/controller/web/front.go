package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"garcon/proto/api"
)

// HostGuard refuses requests to other hosts; see role/controller/auth.
type HostGuard interface {
	CheckHost(r *http.Request) error
}

// Front gives the requests of a listener to who serves them.
type Front struct {
	Guard HostGuard
	// BasePath is the path in front of everything, without a slash at the end. A
	// proxy may strip it or not, and programs on this machine never send it: both
	// forms are served.
	BasePath string
	API      http.Handler
	Feed     http.Handler
	UI       http.Handler
}

// ServeHTTP implements [http.Handler]. The host is checked before anything
// else, so that a page whose name was pointed here learns nothing.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := f.Guard.CheckHost(r); err != nil {
		refuse(w, err)
		return
	}
	if f.BasePath != "" {
		if r.URL.Path == f.BasePath {
			http.Redirect(w, r, f.BasePath+"/", http.StatusPermanentRedirect)
			return
		}
		if strings.HasPrefix(r.URL.Path, f.BasePath+"/") {
			r = stripped(r, f.BasePath)
		}
	}
	switch {
	case r.URL.Path == api.MuxPath:
		f.Feed.ServeHTTP(w, r)
	case r.URL.Path == api.Base || strings.HasPrefix(r.URL.Path, "/api/"):
		f.API.ServeHTTP(w, r)
	default:
		f.UI.ServeHTTP(w, r)
	}
}

func stripped(r *http.Request, base string) *http.Request {
	out := r.Clone(r.Context())
	out.URL = new(url.URL)
	*out.URL = *r.URL
	out.URL.Path = strings.TrimPrefix(r.URL.Path, base)
	out.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, base)
	return out
}

// refuse answers with the envelope of a failure.
func refuse(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		e = api.NewError(api.CodeForbidden, err.Error(), "")
	}
	body, encoding := json.Marshal(api.Envelope{Error: e})
	if encoding != nil {
		body = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(api.StatusOf(e.Code))
	_, _ = w.Write(body) // the client has gone
}
