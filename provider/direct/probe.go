package direct

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"garcon/proto/exec"
)

// Test tries an endpoint without spending anything and returns nil when it
// works, or an [*exec.Error]: [exec.CodeUnreachable] when nothing answers or
// what answers does not speak the protocol, [exec.CodeRefused] when the
// credential is not taken.
//
// It lists the models. A server without a listing is sent an empty request,
// which one that speaks the protocol refuses as such.
func Test(ctx context.Context, ep exec.Endpoint, credential exec.Credential) error {
	info, ok := infoOf(Protocol(ep.Protocol))
	if !ok {
		return exec.Errorf(exec.CodeInvalid, "The protocol %q is not known.", ep.Protocol)
	}
	c := &client{
		codec: info.codec, transport: newTransport(nil), log: slog.New(slog.DiscardHandler), memory: &memory{},
	}
	defer c.transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	_, err := c.list(ctx, ep, credential)
	if errors.Is(err, errNoListing) {
		return c.knock(ctx, ep, credential)
	}
	return err
}

// Check implements [exec.Endpoints].
func (a *adapter) Check(ctx context.Context, endpoint *exec.Endpoint) error {
	credential, bad := a.credential(ctx, endpoint, "")
	if bad != nil {
		return bad
	}
	return Test(ctx, *endpoint, credential)
}

// knock finds out whether the address for turns is one.
func (c *client) knock(ctx context.Context, ep exec.Endpoint, credential exec.Credential) error {
	base, bad := baseURL(ep)
	if bad != nil {
		return bad
	}
	status, header, body, f := c.get(ctx, ep, credential, http.MethodPost, c.codec.address(base), []byte("{}"))
	if f != nil {
		return f.err
	}
	switch {
	case (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) && json.Valid(body):
		return nil
	case status == http.StatusOK:
		return notAnAPI(ep)
	}
	return judge(ep, "", parseAPIError(status, body, credential.Reveal()), header, time.Now()).err
}
