package direct

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

func TestAnswersAreBounded(t *testing.T) {
	rec := newRecorder()
	for name, s := range map[string]sink{
		"output":    &output{run: rec, total: maxAnswer - 3},
		"collector": &collector{total: maxAnswer - 3},
	} {
		if f := s.add(row.KindAssistant, "", "abc"); f != nil {
			t.Errorf("%s at the limit: %v", name, f.err)
		}
		f := s.add(row.KindAssistant, "", "d")
		if f == nil || f.retry || f.err.Code != exec.CodeModelError || f.err.Hint == "" {
			t.Errorf("%s over the limit: %+v", name, f)
		}
	}
}

// What no row can hold is not sent as a live part either, and the memory of a
// part of nothing but blank space stays small.
func TestLivePartsAreBounded(t *testing.T) {
	rec := newRecorder()
	o := &output{run: rec}
	for range 2 * row.MaxBytes / maxLive {
		if f := o.add(row.KindAssistant, "", strings.Repeat("x", maxLive)); f != nil {
			t.Fatal(f.err)
		}
	}
	sent := 0
	for _, l := range rec.live {
		sent += len(l.Text)
	}
	if sent < row.MaxBytes || sent > row.MaxBytes+maxLive {
		t.Errorf("%d bytes were sent", sent)
	}
	blank := &output{run: rec}
	for range 100 {
		if f := blank.add(row.KindAssistant, "", strings.Repeat(" ", maxHeld)); f != nil {
			t.Fatal(f.err)
		}
	}
	if len(blank.blank) > 2*maxHeld || blank.shown() {
		t.Errorf("%d blank bytes are held", len(blank.blank))
	}
}

func TestErrorsInsideStreams(t *testing.T) {
	for _, tt := range []struct {
		e     apiError
		code  exec.Code
		retry bool
	}{
		{apiError{kind: "overloaded_error"}, exec.CodeOverloaded, true},
		{apiError{code: "server_is_overloaded"}, exec.CodeOverloaded, true},
		{apiError{kind: "rate_limit_error"}, exec.CodeRateLimited, true},
		{apiError{code: "rate_limit_exceeded"}, exec.CodeRateLimited, true},
		{apiError{kind: "authentication_error"}, exec.CodeRefused, false},
		{apiError{kind: "permission_error"}, exec.CodeRefused, false},
		{apiError{kind: "billing_error"}, exec.CodeQuota, false},
		{apiError{kind: "not_found_error", message: "model: x"}, exec.CodeUnknownModel, false},
		{apiError{kind: "request_too_large"}, exec.CodeTooLarge, false},
		{apiError{kind: "invalid_request_error"}, exec.CodeInvalid, false},
		{apiError{kind: "invalid_request_error", message: "prompt is too long: 3 > 2"}, exec.CodeContextOverflow, false},
		{apiError{code: "context_length_exceeded"}, exec.CodeContextOverflow, false},
		{apiError{code: "insufficient_quota"}, exec.CodeQuota, false},
		{apiError{code: "content_filter"}, exec.CodeContentRefused, false},
		{apiError{kind: "timeout_error"}, exec.CodeModelError, true},
		{apiError{kind: "api_error"}, exec.CodeModelError, true},
		{apiError{code: "server_error"}, exec.CodeModelError, true},
		{apiError{code: "502"}, exec.CodeModelError, true},
		{apiError{code: "429"}, exec.CodeRateLimited, true},
		{apiError{code: "401"}, exec.CodeRefused, false},
		{apiError{code: "99"}, exec.CodeModelError, true},
		{apiError{}, exec.CodeModelError, true},
	} {
		f := judge(exec.Endpoint{Label: "Lab"}, "x", tt.e, nil, time.Now())
		if f.err.Code != tt.code || f.retry != tt.retry {
			t.Errorf("%+v: %s, retry %v, want %s, %v", tt.e, f.err.Code, f.retry, tt.code, tt.retry)
		}
		if f.err.Hint == "" || strings.Contains(f.err.Message, "HTTP") || !strings.HasPrefix(f.err.Message, strings.ToUpper(f.err.Message[:1])) {
			t.Errorf("%+v: message %q, hint %q", tt.e, f.err.Message, f.err.Hint)
		}
	}
}

func TestFieldNamesAreWords(t *testing.T) {
	for _, tt := range []struct {
		message, param string
		want           bool
	}{
		{"unknown field 'store'", "", true},
		{"store: extra", "", true},
		{"restore the session", "", false},
		{"stored", "", false},
		{"my_store and the store", "", true},
		{"", "store", true},
		{"", "store.x", true},
		{"", "storex", false},
	} {
		e := apiError{status: http.StatusBadRequest, message: tt.message, param: tt.param}
		if got := e.refusesField("store"); got != tt.want {
			t.Errorf("%q, %q: %v", tt.message, tt.param, got)
		}
		e.status = http.StatusInternalServerError
		if e.refusesField("store") {
			t.Errorf("%q with status 500 refuses a field", tt.message)
		}
	}
}
