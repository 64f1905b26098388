package chat

import (
	"context"

	"garcon/proto/api"
	"garcon/role/controller/permission"
)

// Decide answers a permission request.
func (s *Service) Decide(ctx context.Context, f permission.Fence, req api.DecideRequest, by Principal) (api.Resolved, error) {
	if _, err := s.owner(f.Chat); err != nil {
		return api.Resolved{}, err
	}
	return s.desk.Decide(ctx, f, req, by.Name)
}

// Answer answers a question.
func (s *Service) Answer(ctx context.Context, f permission.Fence, req api.AnswerRequest, by Principal) (api.Resolved, error) {
	if _, err := s.owner(f.Chat); err != nil {
		return api.Resolved{}, err
	}
	return s.desk.Answer(ctx, f, req, by.Name)
}
