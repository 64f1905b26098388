package chat

import (
	"context"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/store/registry"
)

// Compact asks the chat's agent to compact its context, as a turn of its own.
func (s *Service) Compact(ctx context.Context, chat string, req api.CompactRequest) (api.Accepted, error) {
	if err := checkRequestID(req.RequestID); err != nil {
		return api.Accepted{}, err
	}
	id := req.RequestID
	req.RequestID = ""
	m := message{requestID: id, fingerprint: fingerprint(req), text: req.Instructions}
	return s.once(ctx, chat, m, func(o *owner, c registry.Chat) (api.Accepted, error) {
		integration, err := o.resolve(ctx, c)
		if err != nil {
			return api.Accepted{}, err
		}
		if integration.Compaction == nil {
			return api.Accepted{}, exec.Errorf(exec.CodeUnsupported, "%s cannot compact a chat", integration.Manifest.Label)
		}
		if integration.Manifest.Conversation == exec.ConversationNative && c.NativeSession == "" {
			return api.Accepted{}, api.NewError(api.CodeInvalid, "the agent has no conversation to compact yet", "Send it a message first.")
		}
		r := o.newRun(m, api.PhaseAccepted)
		r.compact = true
		return o.admitRun(ctx, c, r)
	})
}
