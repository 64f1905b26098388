package direct

import (
	"testing"

	"garcon/e2e/model"
	"garcon/proto/exec"
)

// A check must not be answered by what was remembered of the endpoint.
func TestCheckAsksTheEndpointAnew(t *testing.T) {
	each(t, func(t *testing.T, p Protocol) {
		srv, err := model.New(model.Script{Key: testKey})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, p, baseOf(p, srv.URL()), nil)
		if _, err := r.adapter.Models(t.Context(), "", &r.endpoint); err != nil {
			t.Fatal(err)
		}
		if err := r.adapter.Check(t.Context(), &r.endpoint); err != nil {
			t.Errorf("a good endpoint: %v", err)
		}
		if err := srv.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.adapter.Check(t.Context(), &r.endpoint); exec.CodeOf(err) != exec.CodeUnreachable {
			t.Errorf("a dead endpoint: %v", err)
		}
		if err := r.adapter.Check(t.Context(), nil); exec.CodeOf(err) != exec.CodeInvalid {
			t.Errorf("no endpoint: %v", err)
		}
	})
}
