package chat

import (
	"context"
	"errors"
	"slices"
	"strings"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/store/registry"
)

// Start makes a chat and begins its first turn.
func (s *Service) Start(ctx context.Context, req api.StartRequest, by Principal) (api.Accepted, error) {
	if err := checkRequestID(req.RequestID); err != nil {
		return api.Accepted{}, err
	}
	attachments, err := s.attached(req.Attachments)
	if err != nil {
		return api.Accepted{}, err
	}
	if err := checkPrompt(req.Prompt, len(attachments)); err != nil {
		return api.Accepted{}, err
	}
	id := req.RequestID
	req.RequestID = ""
	m := message{
		requestID: id, fingerprint: fingerprint(req), text: req.Prompt, attachments: attachments, origin: by.Origin,
	}
	sub := registry.Submission{RequestID: id, Fingerprint: m.fingerprint}
	// A replay is answered before anything is checked that may have changed
	// since.
	if known, ok, err := s.registry.Submission(ctx, sub); err != nil {
		return api.Accepted{}, storageError(err)
	} else if ok {
		return s.submitTo(ctx, known, m, api.BusyReject)
	}
	c, err := s.newChat(ctx, req, by)
	if err != nil {
		return api.Accepted{}, err
	}
	created, replayed, err := s.registry.CreateChat(ctx, c, sub)
	if err != nil {
		return api.Accepted{}, storageError(err)
	}
	if replayed {
		// Either it was accepted, or another request for it is just ahead, or
		// the process ended between making the chat and committing its first row.
		return s.submitTo(ctx, created.ID, m, api.BusyReject)
	}
	accepted, err := s.submitTo(ctx, c.ID, m, api.BusyReject)
	if err != nil {
		// The chat was never accepted: it goes as it came.
		if derr := s.registry.RetractChat(context.WithoutCancel(ctx), c.ID, id); derr != nil {
			s.log.Error("chat that was not accepted remains", "chat", c.ID, "err", derr)
		}
		s.forget(c.ID)
		return api.Accepted{}, err
	}
	s.remember(c)
	return accepted, nil
}

func (s *Service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, id)
}

// newChat checks a start request and returns the record it asks for.
func (s *Service) newChat(ctx context.Context, req api.StartRequest, by Principal) (registry.Chat, error) {
	settings := s.Settings()
	executor := firstOf(req.ExecutorID, s.runtimes.Default(deref(settings.DefaultExecutor)))
	rt, err := s.runtimes.Runtime(executor)
	if err != nil {
		return registry.Chat{}, err
	}
	if req.ProjectPath == "" {
		return registry.Chat{}, api.NewError(api.CodeInvalid, "projectPath is missing", "Name the directory the agent works in.")
	}
	path, err := inspect(ctx, rt, req.ProjectPath)
	if err != nil {
		return registry.Chat{}, err
	}
	last, _ := s.registry.Selection(executor, path)
	agent := firstOf(req.Agent, last.Agent, deref(settings.DefaultAgent))
	if agent == "" {
		if agent, err = onlyAgent(ctx, rt); err != nil {
			return registry.Chat{}, err
		}
	}
	integration, err := rt.Integration(ctx, agent)
	if err != nil {
		return registry.Chat{}, err
	}
	if last.Agent != agent {
		last = registry.Selection{}
	}
	c := registry.Chat{
		ID: s.registry.NewChatID(), Title: cleanTitle(req.Title), TitleSource: registry.TitleFromUser, Tags: slices.Clone(req.Tags),
		ExecutorID: executor, Agent: agent, Model: firstOf(req.Model, last.Model), Mode: firstOf(req.Mode, last.Mode),
		Effort: firstOf(req.Effort, last.Effort), EndpointID: firstOf(req.ProviderID, last.EndpointID), ProjectPath: path,
		View: newID(), ParentID: req.ParentID, Origin: string(by.Origin), Settings: req.Settings,
		CreatedAt: now(), LastActivity: now(), Preview: preview(req.Prompt),
	}
	if c.Title == "" {
		c.Title, c.TitleSource = titleOf(req.Prompt), registry.TitleFromPrompt
	}
	if err := checkTags(c.Tags); err != nil {
		return registry.Chat{}, err
	}
	if err := s.checkSelection(integration.Manifest, &c); err != nil {
		return registry.Chat{}, err
	}
	return c, nil
}

// onlyAgent chooses the agent when there is no choice.
func onlyAgent(ctx context.Context, rt exec.Runtime) (string, error) {
	info, err := rt.Info(ctx)
	if err != nil {
		return "", err
	}
	if len(info.Integrations) == 1 {
		return info.Integrations[0].ID, nil
	}
	names := make([]string, len(info.Integrations))
	for i, m := range info.Integrations {
		names[i] = m.ID
	}
	return "", api.NewError(api.CodeInvalid, "no agent was named", "Use --agent with one of: "+strings.Join(names, ", ")+".")
}

// checkSelection checks what a chat runs with against what its agent offers.
func (s *Service) checkSelection(m exec.Manifest, c *registry.Chat) error {
	if c.Mode != "" && !slices.ContainsFunc(m.Modes, func(o exec.Mode) bool { return o.ID == c.Mode }) {
		names := make([]string, len(m.Modes))
		for i, o := range m.Modes {
			names[i] = o.ID
		}
		return api.NewError(api.CodeInvalid, m.Label+" has no permission mode \""+c.Mode+"\"", "Modes: "+strings.Join(names, ", ")+".")
	}
	if c.Mode == "" {
		c.Mode = m.DefaultMode
	}
	if c.Effort != "" && !slices.Contains(m.Efforts, c.Effort) {
		hint := "It has no effort setting."
		if len(m.Efforts) > 0 {
			hint = "Efforts: " + strings.Join(m.Efforts, ", ") + "."
		}
		return api.NewError(api.CodeInvalid, m.Label+" has no effort \""+c.Effort+"\"", hint)
	}
	if !m.NeedsEndpoint {
		c.EndpointID = ""
		return nil
	}
	p, err := s.providerFor(m, c.EndpointID)
	if err != nil {
		return err
	}
	c.EndpointID = p.ID
	if c.Model == "" {
		if len(p.Models) == 0 {
			return api.NewError(api.CodeInvalid, "no model was named", "`garcon models list --agent "+m.ID+"` lists those of "+p.Label+".")
		}
		c.Model = p.Models[0]
	}
	return nil
}

// remember keeps the selection for the next chat in the same project.
func (s *Service) remember(c registry.Chat) {
	s.start(func() {
		err := s.registry.PutSelection(s.ctx, c.ProjectPath, registry.Selection{
			ExecutorID: c.ExecutorID, Agent: c.Agent, Model: c.Model, Mode: c.Mode, Effort: c.Effort, EndpointID: c.EndpointID,
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("selection not remembered", "err", err)
		}
	})
}
