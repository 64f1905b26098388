package chat

import (
	"context"
	"strings"
	"time"

	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/registry"
)

// titleTimeout bounds one title query; a chat without one keeps the beginning
// of its prompt.
const titleTimeout = 60 * time.Second

// maxTitleInput bounds how much of prompt and answer a title is made from, in
// bytes each: enough to know the subject, and cheap.
const maxTitleInput = 2 << 10

// maxAgentTitle bounds a title that an agent made, in bytes.
const maxAgentTitle = 100

// maybeTitle asks the chat's agent for a title if it has none but the
// beginning of its prompt.
func (o *owner) maybeTitle(r *run) {
	c, ok := o.s.registry.Chat(o.id)
	if !ok || c.TitleSource != registry.TitleFromPrompt || r.compact {
		return
	}
	if on := o.s.Settings().AutoTitle; on != nil && !*on {
		return
	}
	o.mu.Lock()
	integration, answer := r.integration, r.lastText
	o.mu.Unlock()
	if integration == nil || integration.SingleQuery == nil {
		return
	}
	o.s.start(func() {
		select {
		case o.s.titles <- struct{}{}:
			defer func() { <-o.s.titles }()
		case <-o.s.ctx.Done():
			return
		}
		o.title(c, integration, r.message.text, answer)
	})
}

func (o *owner) title(c registry.Chat, integration *exec.Integration, prompt, answer string) {
	ctx, cancel := context.WithTimeout(o.s.ctx, titleTimeout)
	defer cancel()
	q := exec.Query{
		System: "You name conversations. Answer with the title alone: at most eight words, no quotes, no full stop, in the language of the conversation.",
		Prompt: "Name this conversation.\n\nUser:\n" + row.Prefix(prompt, maxTitleInput) + "\n\nAssistant:\n" + row.Prefix(answer, maxTitleInput),
		Model:  c.Model,
	}
	if integration.Manifest.NeedsEndpoint {
		p, err := o.s.providerFor(integration.Manifest, c.EndpointID)
		if err != nil {
			return
		}
		q.Endpoint = endpointOf(p)
	}
	answerText, err := integration.SingleQuery.Query(ctx, q)
	if err != nil {
		o.s.log.Debug("no title from the agent", "chat", o.id, "err", err)
		return
	}
	line, _, _ := strings.Cut(strings.TrimSpace(answerText), "\n")
	title := row.Prefix(strings.Trim(cleanTitle(line), "\"'“”*# ."), maxAgentTitle)
	if title == "" {
		return
	}
	o.update(func(c *registry.Chat) {
		if c.TitleSource == registry.TitleFromPrompt {
			c.Title, c.TitleSource = title, registry.TitleFromAgent
		}
	})
}
