package chat

import (
	"context"

	"garcon/proto/api"
	"garcon/proto/exec"
)

// Agents lists the agents of an executor with their state there.
func (s *Service) Agents(ctx context.Context, executor string) (api.AgentList, error) {
	executor = firstOf(executor, s.DefaultExecutor())
	rt, err := s.runtimes.Runtime(executor)
	if err != nil {
		return api.AgentList{}, err
	}
	info, err := rt.Info(ctx)
	if err != nil {
		return api.AgentList{}, err
	}
	out := api.AgentList{ExecutorID: executor, Agents: make([]api.Agent, len(info.Integrations))}
	for i, m := range info.Integrations {
		out.Agents[i].Manifest = m
		integration, err := rt.Integration(ctx, m.ID)
		if err != nil {
			out.Agents[i].Problem = err.Error()
			continue
		}
		if integration.Auth == nil {
			continue
		}
		status, err := integration.Auth.Status(ctx)
		if err != nil {
			out.Agents[i].Problem = err.Error()
			continue
		}
		out.Agents[i].Auth = &status
	}
	return out, nil
}

// Models lists the models of an agent.
func (s *Service) Models(ctx context.Context, executor, agent, project, provider string) ([]exec.Model, error) {
	integration, project, err := s.catalog(ctx, executor, agent, project)
	if err != nil {
		return nil, err
	}
	if integration.Catalog == nil {
		return nil, exec.Errorf(exec.CodeUnsupported, "%s does not list models", integration.Manifest.Label)
	}
	var endpoint *exec.Endpoint
	if integration.Manifest.NeedsEndpoint {
		p, err := s.providerFor(integration.Manifest, provider)
		if err != nil {
			return nil, err
		}
		endpoint = endpointOf(p)
	}
	models, err := integration.Catalog.Models(ctx, project, endpoint)
	if models == nil {
		models = []exec.Model{}
	}
	return models, err
}

// Commands lists the slash commands of an agent in a project.
func (s *Service) Commands(ctx context.Context, executor, agent, project string) ([]exec.Command, error) {
	integration, project, err := s.catalog(ctx, executor, agent, project)
	if err != nil {
		return nil, err
	}
	if integration.Commands == nil {
		return []exec.Command{}, nil
	}
	commands, err := integration.Commands.Commands(ctx, project)
	if commands == nil {
		commands = []exec.Command{}
	}
	return commands, err
}

// catalog finds the integration a catalog is asked of; an empty project is the
// executor's base.
func (s *Service) catalog(ctx context.Context, executor, agent, project string) (*exec.Integration, string, error) {
	rt, err := s.runtimes.Runtime(firstOf(executor, s.DefaultExecutor()))
	if err != nil {
		return nil, "", err
	}
	integration, err := rt.Integration(ctx, agent)
	if err != nil {
		return nil, "", err
	}
	if project == "" {
		info, err := rt.Info(ctx)
		if err != nil {
			return nil, "", err
		}
		project = info.ProjectBase
	}
	project, err = inspect(ctx, rt, project)
	return integration, project, err
}
