package chat

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"garcon/proto/api"
	"garcon/proto/exec"
	"garcon/proto/row"
	"garcon/store/registry"
)

// mentionTimeout bounds the reading of mentioned files for a new turn, and
// steerMentionTimeout that for a steer, which is sent raw when it takes longer.
const (
	mentionTimeout      = 10 * time.Second
	steerMentionTimeout = 2 * time.Second
)

// prepare builds the launch of a run.
func (o *owner) prepare(r *run, chat registry.Chat, integration *exec.Integration) (exec.Launch, error) {
	l := exec.Launch{
		ChatID: o.id, TurnID: r.turn, RunID: r.id, NativeSession: chat.NativeSession, ProjectPath: chat.ProjectPath,
		Model: chat.Model, Mode: chat.Mode, Effort: chat.Effort, Settings: chat.Settings,
	}
	text, err := o.expand(r.ctx, chat, r.message.text, mentionTimeout)
	if err != nil {
		return exec.Launch{}, err
	}
	l.Prompt.Text = text
	if l.Prompt.Attachments, err = o.s.load(r.message.attachments); err != nil {
		return exec.Launch{}, err
	}
	m := integration.Manifest
	if m.NeedsEndpoint {
		p, err := o.s.providerFor(m, chat.EndpointID)
		if err != nil {
			return exec.Launch{}, err
		}
		l.Endpoint = endpointOf(p)
	}
	if m.Conversation == exec.ConversationController {
		if l.Conversation, err = o.conversation(r, m); err != nil {
			return exec.Launch{}, err
		}
	}
	return l, nil
}

// steerPrompt builds the prompt of a steer.
func (o *owner) steerPrompt(ctx context.Context, m message) (exec.Prompt, error) {
	chat, err := o.record()
	if err != nil {
		return exec.Prompt{}, err
	}
	text, err := o.expand(ctx, chat, m.text, steerMentionTimeout)
	if err != nil {
		text = m.text
	}
	attachments, err := o.s.load(m.attachments)
	return exec.Prompt{Text: text, Attachments: attachments}, err
}

// expand adds the files that the text mentions. It is best effort but for a
// context that ends.
func (o *owner) expand(ctx context.Context, chat registry.Chat, text string, timeout time.Duration) (string, error) {
	if !strings.Contains(text, "@") {
		return text, nil
	}
	rt, err := o.s.runtimes.Runtime(chat.ExecutorID)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mentions, err := rt.Project().ExpandMentions(limited, chat.ProjectPath, text)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		o.s.log.Warn("mentions not expanded", "chat", o.id, "err", err)
		return text, nil
	}
	return exec.JoinMentions(text, mentions), nil
}

// attached checks the attachments of a submission against what was uploaded.
func (s *Service) attached(refs []api.AttachmentRef) ([]row.Attachment, error) {
	out := make([]row.Attachment, 0, len(refs))
	for _, ref := range refs {
		f, size, err := s.attachments.Open(ref.Digest)
		if err != nil {
			return nil, api.NewError(api.CodeInvalid, fmt.Sprintf("attachment %q has not been uploaded", ref.Name), "Upload it first, then submit again.")
		}
		f.Close()
		out = append(out, row.Attachment{Name: ref.Name, MediaType: ref.MediaType, Size: size, Digest: ref.Digest})
	}
	return out, nil
}

func attachmentRefs(as []row.Attachment) []api.AttachmentRef {
	out := make([]api.AttachmentRef, 0, len(as))
	for _, a := range as {
		out = append(out, api.AttachmentRef{Name: a.Name, MediaType: a.MediaType, Digest: a.Digest})
	}
	return out
}

// checkAttachments checks attachments against what the agent takes.
func checkAttachments(m exec.Manifest, as []row.Attachment) error {
	if len(as) == 0 {
		return nil
	}
	limits := m.Attachments
	invalid := func(format string, args ...any) error {
		return api.NewError(api.CodeInvalid, fmt.Sprintf(format, args...), "Put the file into the project and name it as @path.")
	}
	if len(limits.MediaTypes) == 0 {
		return invalid("%s takes no attachments", m.Label)
	}
	if limits.MaxCount > 0 && len(as) > limits.MaxCount {
		return invalid("%s takes at most %d attachments", m.Label, limits.MaxCount)
	}
	for _, a := range as {
		if !limits.Accepts(a.MediaType) {
			return invalid("%s does not take %s files (%s)", m.Label, a.MediaType, a.Name)
		}
		if limits.MaxBytes > 0 && a.Size > limits.MaxBytes {
			return invalid("%s is larger than the %d bytes that %s takes", a.Name, limits.MaxBytes, m.Label)
		}
	}
	return nil
}

// load reads attachments for a launch.
func (s *Service) load(as []row.Attachment) ([]exec.AttachmentData, error) {
	var out []exec.AttachmentData
	for _, a := range as {
		data, err := s.read(a)
		if err != nil {
			return nil, exec.Errorf(exec.CodeInvalid, "attachment %s cannot be read: %w", a.Name, err).
				WithHint("Attach it again.")
		}
		out = append(out, exec.AttachmentData{Attachment: a, Data: data})
	}
	return out, nil
}

func (s *Service) read(a row.Attachment) ([]byte, error) {
	f, _, err := s.attachments.Open(a.Digest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, api.MaxAttachment+1))
}
