package direct

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"garcon/proto/row"
)

func TestHTTP2(t *testing.T) {
	gone := make(chan int, 1)
	var hold atomic.Bool
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		sse(w, chatText("so far"))
		if hold.Load() {
			<-req.Context().Done()
			gone <- req.ProtoMajor
			return
		}
		sse(w, chatStop, chatDone)
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	r := newRig(t, OpenAIChat, srv.URL+"/v1", nil)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	r.adapter.client.transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	r.ask("hi").expect(t, "assistant(so far) final")

	hold.Store(true)
	rec, active := r.start(r.launch("hi"))
	rec.waitLive(t, "so far")
	if err := active.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec.wait(t)
	if rec.terminal.Phase != row.RunInterrupted {
		t.Errorf("ended as %+v", rec.terminal)
	}
	if major := <-gone; major != 2 {
		t.Errorf("it was HTTP/%d", major)
	}
}
