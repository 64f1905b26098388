package direct

import (
	"fmt"
	"net/url"
	"strings"

	"garcon/proto/exec"
)

// baseURL reads the address of an endpoint.
func baseURL(ep exec.Endpoint) (*url.URL, *exec.Error) {
	const hint = "Set the base URL of the endpoint to something like https://api.example.com/v1."
	u, err := url.Parse(strings.TrimSpace(ep.BaseURL))
	switch {
	case err != nil:
		// The error quotes the address, and that may hold a password.
		return nil, exec.Errorf(exec.CodeInvalid, "The base URL of %s is not a URL.", endpointName(exec.Endpoint{Label: ep.Label})).WithHint(hint)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, exec.Errorf(exec.CodeInvalid, "The base URL of %s is not an http or https URL.", endpointName(ep)).WithHint(hint)
	case u.User != nil:
		return nil, exec.Errorf(exec.CodeInvalid, "The base URL of %s holds a user name or password.", endpointName(ep)).
			WithHint("Remove it and set the API key of the endpoint.")
	}
	u.Fragment = ""
	return withPath(u, strings.TrimRight(u.Path, "/")), nil
}

// withPath returns u with another path, "/" for the empty one.
func withPath(u *url.URL, path string) *url.URL {
	c := *u
	c.Path, c.RawPath = path, ""
	if path == "" {
		// JoinPath makes a relative path of an empty one.
		c.Path = "/"
	}
	return &c
}

// hostOf returns the host of a URL for messages, nothing else of it.
func hostOf(raw string) string {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" {
		return "without a valid address"
	}
	return u.Host
}

// maxRedirects is how often a server may point somewhere else.
const maxRedirects = 3

// redirect returns where a request goes next. It refuses what would give the
// credential and the conversation to another server: another host or port, or
// the same without encryption.
func redirect(ep exec.Endpoint, from *url.URL, location string, status int) (*url.URL, *exec.Error) {
	to, err := from.Parse(location)
	if err != nil || location == "" {
		return nil, exec.Errorf(exec.CodeUnreachable, "%s redirects to nowhere (HTTP %d).", capital(endpointName(ep)), status).
			WithHint("Check the base URL of the endpoint.").WithDispatched(exec.WasDispatched)
	}
	upgrade := from.Scheme == "http" && to.Scheme == "https" && from.Hostname() == to.Hostname() &&
		from.Port() == "" && to.Port() == ""
	if upgrade || from.Scheme == to.Scheme && from.Host == to.Host {
		return to, nil
	}
	return nil, exec.Errorf(exec.CodeUnreachable, "%s redirects to another server, %s (HTTP %d).",
		capital(endpointName(ep)), clean(fmt.Sprintf("%s://%s", to.Scheme, to.Host), maxIDBytes), status).
		WithHint("The API key is not sent there. If that server is right, set it as the base URL of the endpoint.").
		WithDispatched(exec.WasDispatched)
}
