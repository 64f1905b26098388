package direct

import (
	"context"
	"errors"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
)

const (
	// queryTimeout bounds a query whose context has no deadline: titles and
	// commit messages are not worth waiting longer for.
	queryTimeout = 60 * time.Second
	// queryMaxTokens bounds the answer to a query where the protocol wants a
	// limit. Models that reason spend most of it on that.
	queryMaxTokens = 4096
)

// Query implements [exec.SingleQuery].
func (a *adapter) Query(ctx context.Context, q exec.Query) (string, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, queryTimeout)
		defer cancel()
	}
	if q.Model == "" {
		return "", exec.Errorf(exec.CodeUnknownModel, "No model was chosen.").WithHint("Choose a model for this kind of query.")
	}
	credential, bad := a.credential(ctx, q.Endpoint, "")
	if bad != nil {
		return "", bad
	}
	messages, _ := conversation(nil, exec.Prompt{Text: q.Prompt}, false)
	if len(messages) == 0 {
		return "", exec.Errorf(exec.CodeInvalid, "The prompt is empty.")
	}
	out := &collector{}
	k := call{
		endpoint: *q.Endpoint, credential: credential, sink: out, notice: func(row.Notice) {},
		turn: turn{model: q.Model, system: row.Text(q.System), messages: messages},
	}
	if a.protocol == Anthropic {
		k.turn.maxTokens = queryMaxTokens
	}
	end, err := a.client.do(ctx, k)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", exec.Errorf(exec.CodeAgentTimeout, "%s did not answer in time.", q.Model).
			WithHint("Choose a faster model for this kind of query.").WithDispatched(exec.MaybeDispatched)
	case err != nil && ctx.Err() != nil:
		return "", exec.AsError(ctx.Err())
	case err == nil:
		err = end.failure(k.endpoint, q.Model)
	}
	if err != nil {
		return "", err
	}
	if out.answer() == "" {
		return "", emptyAnswer(q.Model)
	}
	return out.answer(), nil
}
