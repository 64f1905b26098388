package runtime

import (
	"context"
	"slices"
	"sync"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/provider"
)

// request is a permission request or a question that waits for the user. Its
// first answer takes it; an answer that definitely did not reach the agent
// gives it back.
type request struct {
	run        *run
	id         string
	occurrence string
	row        row.Row
	respond    provider.Respond

	mu      sync.Mutex
	taken   bool
	retired bool
}

// offer makes the request answerable.
func (q *request) offer() {
	in := q.run.b.in
	in.mu.Lock()
	defer in.mu.Unlock()
	in.requests[q.id] = q
}

// take is true for the one call that may deliver.
func (q *request) take() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken || q.retired {
		return false
	}
	q.taken = true
	return true
}

// giveBack makes a taken request answerable again, unless it was retired.
func (q *request) giveBack() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = false
}

// retire ends the request. It reports whether the user could still have
// answered it.
func (q *request) retire() (open bool) {
	in := q.run.b.in
	in.mu.Lock()
	delete(in.requests, q.id)
	in.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	open = !q.taken && !q.retired
	q.retired = true
	return open
}

// Answer implements [exec.Permissions].
func (in *integration) Answer(ctx context.Context, ref exec.Ref, a exec.Answer) error {
	ctx, leave, err := in.rt.enter(ctx, true)
	if err != nil {
		return err
	}
	defer leave()
	if err := ref.Check(in.ref(exec.RefPermission, "")); err != nil {
		return err
	}
	in.mu.Lock()
	q := in.requests[ref.ID]
	in.mu.Unlock()
	if q == nil {
		return errResolved()
	}
	if err := checkAnswer(q.row.Body, a); err != nil {
		return err
	}
	if !q.take() {
		return errResolved()
	}
	_, err = protect(in.rt.log, in.id+" answer", func() (struct{}, error) { return struct{}{}, q.respond(ctx, a) })
	if err != nil && exec.AsError(err).Dispatched == exec.NotDispatched {
		q.giveBack()
		return exec.AsError(err)
	}
	q.done()
	return q.run.failed(err)
}

// done forgets a request whose answer was delivered, or may have been.
func (q *request) done() {
	q.retire()
	r := q.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests[q.occurrence] == q {
		delete(r.requests, q.occurrence)
	}
}

func errResolved() *exec.Error {
	return exec.Errorf(exec.CodeAlreadyResolved, "this request was already answered, or the agent no longer makes it")
}

// checkAnswer refuses what the request did not offer.
func checkAnswer(body row.Body, a exec.Answer) error {
	switch b := body.(type) {
	case *row.Permission:
		if !slices.ContainsFunc(b.Options, func(o row.PermissionOption) bool { return o.ID == a.OptionID }) {
			return exec.Errorf(exec.CodeInvalid, "the request has no option %q", a.OptionID)
		}
	case *row.Question:
		if a.Decline {
			return nil
		}
		if len(a.Answers) == 0 {
			return exec.Errorf(exec.CodeInvalid, "the answer is empty")
		}
		for id, given := range a.Answers {
			i := slices.IndexFunc(b.Questions, func(q row.QuestionItem) bool { return q.ID == id })
			if i < 0 {
				return exec.Errorf(exec.CodeInvalid, "there is no question %q", id)
			}
			if err := checkItem(&b.Questions[i], given); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkItem(item *row.QuestionItem, given []string) error {
	if len(given) > 1 && !item.Multi {
		return exec.Errorf(exec.CodeInvalid, "question %q takes one answer", item.ID)
	}
	if item.FreeText {
		return nil
	}
	for _, label := range given {
		if !slices.ContainsFunc(item.Options, func(o row.QuestionOption) bool { return o.Label == label }) {
			return exec.Errorf(exec.CodeInvalid, "question %q has no option %q", item.ID, label)
		}
	}
	return nil
}
