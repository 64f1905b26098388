package httpapi

import (
	"cmp"
	"context"

	"garcon/proto/api"
)

func (s *Server) agentsList(ctx context.Context, c *call) (any, error) {
	return s.Chats.Agents(ctx, c.query("executor"))
}

func (s *Server) modelsList(ctx context.Context, c *call) (any, error) {
	executor := cmp.Or(c.query("executor"), s.Chats.DefaultExecutor())
	models, err := s.Chats.Models(ctx, executor, c.path("agent"), c.query("project"), c.query("provider"))
	if err != nil {
		return nil, err
	}
	return api.ModelList{ExecutorID: executor, Agent: c.path("agent"), Models: models}, nil
}

func (s *Server) commandsList(ctx context.Context, c *call) (any, error) {
	commands, err := s.Chats.Commands(ctx, c.query("executor"), c.path("agent"), c.query("project"))
	if err != nil {
		return nil, err
	}
	return api.CommandList{Agent: c.path("agent"), Commands: commands}, nil
}

func (s *Server) providersList(context.Context, *call) (any, error) {
	return api.ProviderList{Providers: s.Chats.Providers()}, nil
}

func (s *Server) providersAdd(ctx context.Context, c *call) (any, error) {
	var req api.ProviderRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.AddProvider(ctx, req)
}

func (s *Server) providersUpdate(ctx context.Context, c *call) (any, error) {
	var req api.ProviderRequest
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.UpdateProvider(ctx, c.path("provider"), req)
}

func (s *Server) providersRemove(ctx context.Context, c *call) (any, error) {
	if err := s.Chats.RemoveProvider(ctx, c.path("provider")); err != nil {
		return nil, err
	}
	return api.ProviderList{Providers: s.Chats.Providers()}, nil
}

func (s *Server) providersTest(ctx context.Context, c *call) (any, error) {
	return s.Chats.TestProvider(ctx, c.path("provider"))
}

func (s *Server) settingsShow(context.Context, *call) (any, error) {
	return s.Chats.Settings(), nil
}

func (s *Server) settingsUpdate(ctx context.Context, c *call) (any, error) {
	var req api.Settings
	if err := decode(c, &req); err != nil {
		return nil, err
	}
	return s.Chats.UpdateSettings(ctx, req)
}

func (s *Server) doctor(ctx context.Context, _ *call) (any, error) {
	return s.Doctor(ctx), nil
}
