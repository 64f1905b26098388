package claude

import (
	"context"
	"strings"

	"garcon/proto/exec"
	"garcon/provider"
)

// auth implements [exec.Auth].
type auth struct{ *adapter }

// signInCommand opens a login in a browser.
const signInCommand = "claude auth login"

// The values of [exec.AuthStatus.SignedIn].
const (
	signedIn      = "yes"
	notSignedIn   = "no"
	signedUnknown = "unknown"
)

// Status implements [exec.Auth]. It makes no request to the network: it tells
// what is configured, not whether that is valid.
func (a auth) Status(ctx context.Context) (exec.AuthStatus, error) {
	s := exec.AuthStatus{SignedIn: signedUnknown, Install: installCommand, SignIn: signInCommand}
	f, err := a.locate(ctx)
	if err != nil {
		if exec.CodeOf(err) == exec.CodeCancelled {
			return s, err
		}
		s.Installed = exec.CodeOf(err) != exec.CodeAgentMissing
		s.Problem = err.Error()
		return s, nil
	}
	s.Installed, s.Path, s.Version, s.Supported = true, f.path, f.version, supported(f.version)
	if !s.Supported {
		s.Problem = "Claude Code " + f.version + " is too old: " + versionText(minVersion) + " or newer is needed."
		return s, nil
	}
	if method, ok := configured(a.host.Env); ok {
		s.SignedIn, s.Method = signedIn, method
		return s, nil
	}
	text, failure := a.run(ctx, f.path, statusTimeout, "auth", "status")
	var answer struct {
		LoggedIn   *bool  `json:"loggedIn"`
		AuthMethod string `json:"authMethod"`
		Email      string `json:"email"`
	}
	// Not being signed in is exit status 1, with the same answer.
	if start := strings.IndexByte(text, '{'); start < 0 || decode([]byte(text[start:]), &answer) != nil || answer.LoggedIn == nil {
		if failure != nil {
			s.Problem = "Claude Code did not say whether it is signed in: " + failure.Message
		}
		return s, nil
	}
	s.SignedIn = notSignedIn
	if *answer.LoggedIn {
		s.SignedIn = signedIn
		s.Method = strings.TrimSpace(strings.ReplaceAll(answer.AuthMethod, "_", " ") + " " + answer.Email)
	}
	if provider.Getenv(a.host.Env, "ANTHROPIC_BASE_URL") != "" && s.SignedIn == notSignedIn {
		// An endpoint of the user's own may want no credentials.
		s.SignedIn = signedUnknown
	}
	return s, nil
}

// configured reports credentials in the environment, without looking at them.
func configured(env []string) (method string, ok bool) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"} {
		if provider.Getenv(env, name) != "" {
			return name + " in the environment", true
		}
	}
	for name, service := range map[string]string{
		"CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock", "CLAUDE_CODE_USE_VERTEX": "Google Vertex AI", "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
	} {
		if v := provider.Getenv(env, name); v != "" && v != "0" && v != "false" {
			return service, true
		}
	}
	return "", false
}
