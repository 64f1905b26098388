package chat

import (
	"context"
	"slices"
	"strings"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/registry"
)

// Filter chooses chats of a list.
type Filter struct {
	// Archived adds archived chats; OnlyArchived lists just them.
	Archived, OnlyArchived bool
	// Tag, Project and Agent, when not empty, must be equal.
	Tag, Project, Agent string
}

func (f Filter) match(c registry.Chat) bool {
	switch {
	case f.OnlyArchived && !c.Archived, !f.OnlyArchived && !f.Archived && c.Archived:
		return false
	case f.Tag != "" && !slices.Contains(c.Tags, f.Tag):
		return false
	case f.Project != "" && c.ProjectPath != f.Project:
		return false
	}
	return f.Agent == "" || c.Agent == f.Agent
}

// List returns chats, the pinned first, then the most recently used.
func (s *Service) List(f Filter) []api.Chat {
	records := s.registry.Chats()
	out := make([]api.Chat, 0, len(records))
	for _, c := range records {
		if f.match(c) {
			out = append(out, s.present(c))
		}
	}
	slices.SortFunc(out, func(a, b api.Chat) int {
		switch {
		case a.Pinned != b.Pinned:
			if a.Pinned {
				return -1
			}
			return 1
		case a.LastActivity != b.LastActivity:
			if a.LastActivity > b.LastActivity {
				return -1
			}
			return 1
		}
		return strings.Compare(b.ID, a.ID)
	})
	return out
}

// Show returns one chat.
func (s *Service) Show(id string) (api.Chat, error) {
	c, ok := s.registry.Chat(id)
	if !ok {
		return api.Chat{}, s.notFound(id)
	}
	return s.present(c), nil
}

// present joins a record with the chat's state. Chats that nobody has touched
// are idle; looking at them makes no owner.
func (s *Service) present(c registry.Chat) api.Chat {
	out := api.Chat{
		ID: c.ID, Title: c.Title, Tags: c.Tags, Pinned: c.Pinned, Archived: c.Archived, ExecutorID: c.ExecutorID,
		Agent: c.Agent, Model: c.Model, Mode: c.Mode, Effort: c.Effort, ProviderID: c.EndpointID, ProjectPath: c.ProjectPath,
		OwnerEpoch: c.OwnerEpoch, ParentID: c.ParentID, Origin: c.Origin, CreatedAt: c.CreatedAt, LastActivity: c.LastActivity,
		Unread: c.Unread, Preview: c.Preview, State: api.State{Phase: api.PhaseIdle},
	}
	if out.Tags == nil {
		out.Tags = []string{}
	}
	s.mu.Lock()
	o := s.owners[c.ID]
	s.mu.Unlock()
	if o != nil {
		out.State = o.state()
	}
	out.State.Unavailable = s.unavailable(c.ID)
	return out
}

// unavailable says why a chat's transcript cannot be used, "" if it can.
func (s *Service) unavailable(id string) string {
	for _, q := range s.ledgers.Quarantined() {
		if q.ChatID == id && !s.ledgers.Exists(id) {
			return "its transcript was damaged (" + q.Reason + ") and is kept as " + q.Path
		}
	}
	return ""
}

// Update changes what the list shows of a chat and what its next turn runs
// with.
func (s *Service) Update(ctx context.Context, id string, req api.UpdateRequest) (api.Chat, error) {
	c, ok := s.registry.Chat(id)
	if !ok {
		return api.Chat{}, s.notFound(id)
	}
	if req.Title != nil {
		if t := cleanTitle(*req.Title); t == "" {
			return api.Chat{}, api.NewError(api.CodeInvalid, "a title cannot be empty", "")
		}
	}
	if req.Tags != nil {
		if err := checkTags(*req.Tags); err != nil {
			return api.Chat{}, err
		}
	}
	selection := c
	if req.Model != nil || req.Mode != nil || req.Effort != nil {
		set(&selection.Model, req.Model)
		set(&selection.Mode, req.Mode)
		set(&selection.Effort, req.Effort)
		if err := s.check(ctx, &selection); err != nil {
			return api.Chat{}, err
		}
	}
	c, err := s.registry.UpdateChat(ctx, id, func(c *registry.Chat) error {
		if req.Title != nil {
			c.Title, c.TitleSource = cleanTitle(*req.Title), registry.TitleFromUser
		}
		if req.Tags != nil {
			c.Tags = slices.Clone(*req.Tags)
		}
		set(&c.Pinned, req.Pinned)
		set(&c.Archived, req.Archived)
		set(&c.Unread, req.Unread)
		if req.Model != nil {
			c.Model = selection.Model
		}
		if req.Mode != nil {
			c.Mode = selection.Mode
		}
		set(&c.Effort, req.Effort)
		return nil
	})
	if err != nil {
		return api.Chat{}, storageError(err)
	}
	return s.present(c), nil
}

// check checks what a chat runs with against its agent.
func (s *Service) check(ctx context.Context, c *registry.Chat) error {
	rt, err := s.runtimes.Runtime(c.ExecutorID)
	if err != nil {
		return err
	}
	integration, err := rt.Integration(ctx, c.Agent)
	if err != nil {
		return err
	}
	return s.checkSelection(integration.Manifest, c)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func checkTags(tags []string) error {
	if len(tags) > api.MaxTags {
		return api.NewError(api.CodeInvalid, "a chat has at most 64 tags", "")
	}
	for _, t := range tags {
		if strings.TrimSpace(t) == "" || len(t) > api.MaxTag || strings.ContainsFunc(t, func(r rune) bool { return r < ' ' }) {
			return api.NewError(api.CodeInvalid, "a tag is 1 to 256 bytes of one line", "")
		}
	}
	return nil
}

// Delete ends what a chat is doing and removes it with its transcript.
func (s *Service) Delete(ctx context.Context, id string) error {
	o, err := s.owner(id)
	if err != nil {
		return err
	}
	release, err := o.admit(ctx)
	if err != nil {
		return err
	}
	defer release()
	o.mu.Lock()
	r := o.active
	o.mu.Unlock()
	if r != nil {
		o.finish(r, exec.Terminal{Phase: row.RunInterrupted, Error: exec.Errorf("CHAT_DELETED", "the chat was deleted")})
	}
	o.unbind(ctx)
	if err := s.registry.DeleteChat(ctx, id); err != nil {
		return storageError(err)
	}
	o.mu.Lock()
	o.deleted = true
	for _, e := range o.queue.entries {
		s.receipts.end(e.message.turn, api.Receipt{Outcome: api.TurnRemoved, EndedAt: now()})
	}
	o.queue = queue{}
	o.bumpLocked()
	o.mu.Unlock()
	s.forget(id)
	if err := s.ledgers.Delete(context.WithoutCancel(ctx), id); err != nil {
		s.log.Error("transcript of a deleted chat remains", "chat", id, "err", err)
		return storageError(err)
	}
	return nil
}

// cleanTitle makes a title one line of bounded text without control
// characters.
func cleanTitle(s string) string {
	s = strings.Join(strings.Fields(strings.Map(printable, row.Text(s))), " ")
	return row.Prefix(s, api.MaxTitle)
}

// printable maps control characters, and those that turn the direction of text
// around, to spaces.
func printable(r rune) rune {
	switch {
	case r < ' ', r == 0x7F, r >= 0x80 && r < 0xA0, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
		return ' '
	}
	return r
}

// maxPromptTitle bounds a title taken from a prompt, in bytes: what a list row
// shows.
const maxPromptTitle = 80

// titleOf makes a title from the beginning of a prompt.
func titleOf(prompt string) string {
	line := ""
	for l := range strings.Lines(prompt) {
		if line = cleanTitle(l); line != "" {
			break
		}
	}
	if line == "" {
		return "New chat"
	}
	if len(line) <= maxPromptTitle {
		return line
	}
	cut := row.Prefix(line, maxPromptTitle)
	if i := strings.LastIndexByte(cut, ' '); i > maxPromptTitle/2 {
		cut = cut[:i]
	}
	return cut + "…"
}

// preview is the beginning of a text as one line.
func preview(text string) string {
	return row.Prefix(cleanTitle(row.Prefix(text, 4*maxPreview)), maxPreview)
}
