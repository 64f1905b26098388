package direct

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"garcon/proto/exec"
)

// unreachable makes a failure of a request that got no answer. The text of
// the error is used only where it holds nothing but names and addresses.
func unreachable(ep exec.Endpoint, err error) *failure {
	name := endpointName(ep)
	host := hostOf(ep.BaseURL)
	fail := func(format string, args ...any) *exec.Error {
		return exec.Errorf(exec.CodeUnreachable, format, args...).WithDispatched(exec.NotDispatched)
	}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	var (
		certificate *tls.CertificateVerificationError
		unknown     x509.UnknownAuthorityError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, errNoAnswer):
		return fatal(fail("%s did not begin to answer within %d minutes.", capital(name), int(headerTimeout.Minutes())).
			WithHint("Check whether the server is still working; it may be loading the model.").
			WithDispatched(exec.MaybeDispatched))
	case isOp && op.Op == "proxyconnect" || strings.HasPrefix(err.Error(), "proxyconnect"):
		return again(fail("The proxy on the way to %s cannot be reached.", name).
			WithHint("Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the environment of the executor."))
	case isDNS:
		f := fatal(fail("The host name of %s, %s, is not known.", name, host).
			WithHint("Check the base URL of the endpoint and the network of the executor."))
		f.retry = dns.IsTemporary || dns.IsTimeout
		return f
	case errors.As(err, &certificate), errors.As(err, &unknown):
		return fatal(fail("The certificate of %s is not trusted.", name).
			WithHint("Check the base URL; for a server of your own, install its certificate on the executor.").
			WithDetail(clean(err.Error(), maxMessage)))
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fatal(fail("%s does not speak https.", capital(name)).
			WithHint("Check the base URL of the endpoint; it may have to begin with http://."))
	case errors.Is(err, syscall.ECONNREFUSED):
		return again(fail("Nothing answers at %s, the address of %s.", host, name).
			WithHint("Start the server, or check the base URL of the endpoint."))
	case isOp && op.Op == "dial", errors.Is(err, context.DeadlineExceeded):
		return again(fail("%s cannot be reached at %s.", capital(name), host).
			WithHint("Check the base URL of the endpoint and the network of the executor.").
			WithDetail(clean(err.Error(), maxMessage)))
	}
	return again(fail("The connection to %s broke before an answer came.", name).
		WithHint("Try again; if it stays, check the base URL of the endpoint.").
		WithDetail(clean(err.Error(), maxMessage)).
		WithDispatched(exec.MaybeDispatched))
}
