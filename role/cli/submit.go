package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// Bounds of repeating a submission.
const (
	// maxAttempts and retryWindow bound the attempts of one submission: longer
	// than a hiccup of the machine, shorter than a user's patience.
	maxAttempts = 5
	retryWindow = 20 * time.Second
	// firstRetry and lastRetry bound the pause between attempts.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 3 * time.Second
)

// maxRequestID bounds a request id, in bytes.
const maxRequestID = 128

// submit makes a request that carries a client request id, repeating it while
// its outcome is not known: the server answers a repeated id with what it
// accepted first. Each attempt names the same server instance, so that none
// can reach another controller.
//
// A definite refusal ends the attempts, and does not unsay that an earlier one
// may have been accepted.
func (i *Invocation) submit(ctx context.Context, what string, r request) (api.Accepted, error) {
	pause := backoff.ExponentialBackOff{
		InitialInterval: firstRetry, MaxInterval: lastRetry,
		Multiplier: backoff.DefaultMultiplier, RandomizationFactor: backoff.DefaultRandomizationFactor,
	}
	pause.Reset()
	end := time.Now().Add(retryWindow)
	uncertain := false
	for attempt := 1; ; attempt++ {
		var accepted api.Accepted
		err := i.client.call(ctx, r, &accepted)
		if err == nil {
			return accepted, nil
		}
		if t, ok := errors.AsType[*transportError](err); ok {
			uncertain = uncertain || t.sent
		} else {
			return api.Accepted{}, i.afterUncertain(i.withCommand(err), uncertain)
		}
		wait := pause.NextBackOff()
		if ctx.Err() != nil || attempt == maxAttempts || time.Now().Add(wait).After(end) {
			return api.Accepted{}, i.afterUncertain(i.explain(err, what), uncertain)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// afterUncertain returns err, saying that an earlier attempt may have been
// accepted when one was uncertain.
func (i *Invocation) afterUncertain(err error, uncertain bool) error {
	if !uncertain {
		return err
	}
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		f = unavailable(err.Error(), "", err)
	}
	exit := ExitUnavailable
	if f.Exit == ExitInterrupted {
		exit = ExitInterrupted
	}
	return &Failure{
		Exit: exit, Code: api.Code(exec.CodeOutcomeUnknown), cause: err,
		Message: fmt.Sprintf("%s; the message may have been accepted all the same, as an answer was lost", f.Message),
		Hint:    "Look before you send it again: " + i.command("chats", "list"),
	}
}

// requestID returns the request id of a submission: the user's own, or a fresh
// one.
func requestID(own string) (string, error) {
	if own == "" {
		return rand.Text(), nil
	}
	if len(own) > maxRequestID {
		return "", usage(fmt.Sprintf("the request id is longer than %d bytes", maxRequestID), "")
	}
	return own, nil
}
