package direct

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"garcon/proto/exec"
)

// failure is why an attempt did not give an answer.
type failure struct {
	err *exec.Error
	// retry says that trying again may help.
	retry bool
	// after is how long the server asked to wait, when told is set.
	after time.Duration
	told  bool
	// api is what the server said, nil when it said nothing.
	api *apiError
}

// fatal is a failure that repeating does not cure.
func fatal(err *exec.Error) *failure { return &failure{err: err} }

// again is a failure that repeating may cure.
func again(err *exec.Error) *failure { return &failure{err: err, retry: true} }

// apiError is what a server says went wrong, from any of the many forms.
type apiError struct {
	// status is the HTTP status, or the one the error stands for when it came
	// inside a stream; 0 when unknown.
	status  int
	message string
	// kind and code are the server's own words for the sort of error.
	kind, code string
	// param is the request field the error is about.
	param string
}

// is reports whether the error's kind or code is one of the words.
func (e apiError) is(words ...string) bool {
	return slices.Contains(words, e.kind) || slices.Contains(words, e.code)
}

// says reports whether the message holds one of the phrases, in any case.
func (e apiError) says(phrases ...string) bool {
	text := strings.ToLower(e.message)
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(text, p) })
}

// names reports whether the error is about a request field: it is the field of
// the error or occurs in the message as a word of its own.
func (e apiError) names(field string) bool {
	if e.param == field || strings.HasPrefix(e.param, field+".") {
		return true
	}
	rest := e.message
	for {
		i := strings.Index(rest, field)
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len(field):]
		if !endsInWord(before) && !beginsInWord(after) {
			return true
		}
		rest = after
	}
}

func endsInWord(s string) bool   { return s != "" && isWord(s[len(s)-1]) }
func beginsInWord(s string) bool { return s != "" && isWord(s[0]) }

func isWord(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// refusesField reports whether the server does not know or does not want a
// field. A wrong value in a field it knows is not that: leaving the field out
// would hide a mistake.
func (e apiError) refusesField(field string) bool {
	if e.status != http.StatusBadRequest && e.status != http.StatusUnprocessableEntity {
		return false
	}
	if e.is("unsupported_value", "invalid_value") || e.says("supported values are", "input should be") {
		return false
	}
	return e.names(field)
}

var (
	quotaWords = []string{
		"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active", "insufficient_balance",
	}
	contextWords   = []string{"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"}
	contextPhrases = []string{
		"prompt is too long", "context length", "context window", "context size", "maximum context", "input is too long",
		"too many tokens", "reduce the length",
	}
	contentWords = []string{
		"content_filter", "content_policy_violation", "image_content_policy_violation", "responsibleaipolicyviolation",
	}
	contentPhrases = []string{"content management policy", "requires moderation", "flagged by moderation"}
)

// kindStatus gives the HTTP status an error inside a stream stands for.
func kindStatus(e apiError) int {
	for _, word := range []string{e.code, e.kind} {
		if n, err := strconv.Atoi(word); err == nil && n >= 400 && n < 600 {
			return n
		}
		switch word {
		case "overloaded_error", "server_is_overloaded", "slow_down", "overloaded":
			return statusOverloaded
		case "rate_limit_error", "rate_limit_exceeded", "rate_limit_reached":
			return http.StatusTooManyRequests
		case "authentication_error", "invalid_api_key":
			return http.StatusUnauthorized
		case "permission_error":
			return http.StatusForbidden
		case "not_found_error", "model_not_found":
			return http.StatusNotFound
		case "request_too_large":
			return http.StatusRequestEntityTooLarge
		case "invalid_request_error", "invalid_prompt", "bad_request":
			return http.StatusBadRequest
		case "timeout_error":
			return http.StatusGatewayTimeout
		case "api_error", "server_error", "internal_error", "internal_server_error":
			return http.StatusInternalServerError
		}
	}
	return 0
}

// statusOverloaded is Anthropic's status for an overloaded model.
const statusOverloaded = 529

// retryStatus are the statuses that may go away by themselves.
var retryStatus = []int{
	http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, statusOverloaded,
}

// judge makes a typed failure of what the server said. header may be nil.
func judge(ep exec.Endpoint, model string, e apiError, header http.Header, now time.Time) *failure {
	inStream := e.status == 0
	if inStream {
		e.status = kindStatus(e)
	}
	f := &failure{api: &e, retry: slices.Contains(retryStatus, e.status)}
	if inStream && e.status == 0 {
		// An error nobody can name, from a server that was ready to answer.
		f.retry = true
	}
	code, what, hint := verdict(ep, model, e)
	switch code {
	case exec.CodeQuota, exec.CodeContextOverflow, exec.CodeContentRefused:
		f.retry = false
	}
	if header != nil && e.status >= 400 {
		if e.status == http.StatusTooManyRequests || header.Get("Retry-After") != "" || header.Get("Retry-After-Ms") != "" {
			f.after, f.told = retryAfter(header, now)
		}
		// The official servers know best.
		switch header.Get("X-Should-Retry") {
		case "true":
			f.retry = true
		case "false":
			f.retry = false
		}
	}
	if !f.told && e.status == http.StatusTooManyRequests {
		f.after, f.told = retryInWords(e.message)
	}
	if !inStream {
		what += fmt.Sprintf(" (HTTP %d)", e.status)
	}
	f.err = exec.Errorf(code, "%s", sentence(what, e.message)).WithHint("%s", hint).WithDispatched(exec.WasDispatched)
	if f.told {
		f.err = f.err.WithRetryAfter(f.after)
	}
	if id := requestID(header); id != "" {
		f.err = f.err.WithDetail("Request id " + id)
	}
	return f
}

// verdict says what kind of failure an error is, in words, and what to do.
func verdict(ep exec.Endpoint, model string, e apiError) (code exec.Code, what, hint string) {
	name := endpointName(ep)
	switch {
	case e.status == http.StatusPaymentRequired || e.is(quotaWords...) || e.says("credit balance is too low"):
		return exec.CodeQuota, "The account at " + name + " has no credit left",
			"Add credit or raise the limit at the provider, or choose another model."
	case e.is(contextWords...) || clientFault(e.status) && e.says(contextPhrases...):
		return exec.CodeContextOverflow, "The conversation is larger than the context window of " + model,
			"Compact the chat, start a new one, or choose a model with a larger context window."
	case e.is(contentWords...) || clientFault(e.status) && e.says(contentPhrases...):
		return exec.CodeContentRefused, name + " refused the content of the request",
			"Change the message, or choose another model."
	case e.is("model_not_found") || e.status == http.StatusNotFound && aboutModel(e, model) ||
		clientFault(e.status) && modelUnknown(e):
		return exec.CodeUnknownModel, name + " does not offer the model " + model,
			"Choose a model from the list of the endpoint."
	case e.is("invalid_api_key") || clientFault(e.status) && e.says("api key not valid"):
		return exec.CodeRefused, name + " refused the credential", "Check the API key of the endpoint."
	}
	switch e.status {
	case http.StatusUnauthorized:
		return exec.CodeRefused, name + " refused the credential", "Check the API key of the endpoint."
	case http.StatusForbidden:
		return exec.CodeRefused, name + " does not allow this with the credential",
			"Check what the API key of the endpoint may do, and which models it may use."
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return exec.CodeUnreachable, name + " has nothing of this protocol at its address",
			"Check the base URL and the protocol of the endpoint; many base URLs end in /v1."
	case http.StatusRequestEntityTooLarge:
		return exec.CodeTooLarge, "The request is too large for " + name,
			"Send fewer or smaller attachments, or compact the chat."
	case http.StatusTooManyRequests:
		return exec.CodeRateLimited, name + " limits how often it may be asked",
			"Try again later, or choose another model."
	case http.StatusServiceUnavailable, statusOverloaded:
		return exec.CodeOverloaded, name + " is overloaded", "Try again in a moment, or choose another model."
	}
	if e.status >= 400 && e.status < 500 && e.status != http.StatusRequestTimeout && e.status != http.StatusConflict {
		return exec.CodeInvalid, name + " refused the request", "Check the settings of the chat and the endpoint."
	}
	return exec.CodeModelError, name + " failed", "Try again, or choose another model."
}

// clientFault are the statuses that servers use for a bad request of any kind;
// 0 is an error inside a stream that names none.
func clientFault(status int) bool {
	switch status {
	case 0, http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity:
		return true
	}
	return false
}

func aboutModel(e apiError, model string) bool {
	return e.is("not_found_error") || e.says("model") || model != "" && strings.Contains(e.message, model)
}

func modelUnknown(e apiError) bool {
	return e.says("model") && e.says("does not exist", "not found", "not a valid model", "invalid model", "unknown model")
}

func requestID(h http.Header) string {
	return clean(cmp.Or(h.Get("Request-Id"), h.Get("X-Request-Id")), maxIDBytes)
}

// endpointName is how an endpoint is called in messages.
func endpointName(ep exec.Endpoint) string {
	if ep.Label != "" {
		return ep.Label
	}
	return "the endpoint " + hostOf(ep.BaseURL)
}

// sentence joins what happened and the server's own words.
func sentence(what, words string) string {
	what = capital(what)
	if words == "" {
		return what + "."
	}
	return what + ": " + words
}

// capital returns s with its first letter in upper case, when that is ASCII.
func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
