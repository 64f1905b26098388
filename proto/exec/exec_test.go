package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestErrorsKeepTheirOutcome(t *testing.T) {
	base := Errorf(CodeUnreachable, "dial: %w", fs.ErrNotExist)
	if base.Dispatched != NotDispatched || !errors.Is(base, fs.ErrNotExist) || base.Message != "dial: file does not exist" {
		t.Errorf("made %+v", base)
	}
	full := base.WithHint("Try %s.", "again").WithRetryAfter(1500 * time.Millisecond).WithDispatched(MaybeDispatched).
		WithDetail(strings.Repeat("x", MaxErrorDetail) + "end")
	if full.Hint != "Try again." || full.RetryAfterMs != 1500 || full.Dispatched != MaybeDispatched ||
		len(full.Detail) != MaxErrorDetail || !strings.HasSuffix(full.Detail, "end") || !errors.Is(full, fs.ErrNotExist) {
		t.Errorf("completed to %+v", full)
	}
	if base.Hint != "" || base.Detail != "" || base.Dispatched != NotDispatched {
		t.Errorf("the original was changed: %+v", base)
	}
	wrapped := fmt.Errorf("start: %w", full)
	if CodeOf(wrapped) != CodeUnreachable || AsError(wrapped) != full || !errors.Is(wrapped, Errorf(CodeUnreachable, "")) || errors.Is(wrapped, Errorf(CodeInternal, "")) {
		t.Errorf("a wrapped error reads as %s", CodeOf(wrapped))
	}
	var back Error
	data, err := json.Marshal(full)
	if err != nil || json.Unmarshal(data, &back) != nil || back.Code != full.Code || back.Dispatched != full.Dispatched || back.Hint != full.Hint {
		t.Errorf("round trip of %s gave %+v, %v", data, back, err)
	}
}

// What is not typed must never read as without effect.
func TestUntypedErrorsAreUncertain(t *testing.T) {
	if AsError(nil) != nil {
		t.Error("nil became an error")
	}
	for err, code := range map[error]Code{
		errors.New("x"):                          CodeInternal,
		context.Canceled:                         CodeCancelled,
		fmt.Errorf("x: %w", context.Canceled):    CodeCancelled,
		context.DeadlineExceeded:                 CodeCancelled,
		fmt.Errorf("read: %w", fs.ErrPermission): CodeInternal,
	} {
		if e := AsError(err); e.Code != code || e.Dispatched != MaybeDispatched || !errors.Is(e, err) {
			t.Errorf("%v became %+v", err, e)
		}
	}
}

func TestReferencesAreScoped(t *testing.T) {
	scope := Ref{Kind: RefRun, ExecutorID: "e", InstanceID: "i", IntegrationID: "a"}
	good := scope
	good.ID = "1"
	if err := good.Check(scope); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Ref){
		"executor":    func(r *Ref) { r.ExecutorID = "x" },
		"instance":    func(r *Ref) { r.InstanceID = "x" },
		"integration": func(r *Ref) { r.IntegrationID = "x" },
	} {
		r := good
		change(&r)
		if err := r.Check(scope); CodeOf(err) != CodeStaleResource {
			t.Errorf("another %s: %v", name, err)
		}
	}
	r := good
	r.Kind = RefBinding
	if err := r.Check(scope); CodeOf(err) != CodeInvalid {
		t.Errorf("another kind: %v", err)
	}
	if !(Ref{}).IsZero() || good.IsZero() {
		t.Error("IsZero is wrong")
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	const secret = "sk-canary"
	c := NewCredential(secret)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", c, "in", struct{ K Credential }{c})
	encoded, err := json.Marshal(map[string]any{"k": c, "p": &c})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c, c), fmt.Sprintf("%+v %#v", struct{ K Credential }{c}, struct{ K *Credential }{&c}),
		log.String(), string(encoded),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("printed as %s", text)
		}
	}
	if c.Reveal() != secret {
		t.Error("it does not reveal itself either")
	}
}

func TestMentionsAreStripped(t *testing.T) {
	for _, prompt := range []string{"", "look at @a.txt", "with\n\nblank lines\n"} {
		joined := JoinMentions(prompt, []Mention{{Path: `a".txt`, Text: "one"}, {Path: "b", Text: "two\n"}})
		if StripMentions(joined) != prompt || !strings.Contains(joined, "one\n</file>") || strings.Contains(joined, `a".txt`) {
			t.Errorf("joined %q to %q", prompt, joined)
		}
		if JoinMentions(prompt, nil) != prompt {
			t.Error("nothing was added to a prompt without mentions")
		}
	}
}

func TestMediaTypes(t *testing.T) {
	a := Attachments{MediaTypes: []string{"image/", "application/pdf"}}
	for media, want := range map[string]bool{
		"image/png": true, "image/svg+xml; charset=utf-8": true, "application/pdf": true,
		"application/pdfx": false, "images/png": false, "text/plain": false, "": false, "image": false,
	} {
		if a.Accepts(media) != want {
			t.Errorf("%q: %v", media, !want)
		}
	}
	if (Attachments{}).Accepts("image/png") {
		t.Error("an agent without attachments takes one")
	}
}
