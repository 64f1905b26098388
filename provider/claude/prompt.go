package claude

import (
	"encoding/base64"
	"strings"

	"garcon/proto/exec"
)

// Limits of attachments.
const (
	// maxAttachments bounds the files of one prompt.
	maxAttachments = 20
	// maxAttachment is for one file and maxAttached for all of a prompt, in
	// bytes: the API takes requests of 32 MB, and base64 makes four bytes of
	// three.
	maxAttachment = 20 << 20
	maxAttached   = 22 << 20
)

const (
	mediaPDF  = "application/pdf"
	mediaText = "text/"
)

// imageTypes are the pictures the model takes.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// priorityNext makes a message wait for the next request to the model, not for
// the end of the turn.
const priorityNext = "next"

// compactCommand is what a message says that is to compact the conversation.
const compactCommand = "/compact"

// userMessage is a message of ours.
type userMessage struct {
	Type      string      `json:"type"`
	Message   userContent `json:"message"`
	Parent    *string     `json:"parent_tool_use_id"`
	SessionID string      `json:"session_id"`
	UUID      string      `json:"uuid"`
	Priority  string      `json:"priority,omitempty"`
}

// compacts reports whether the message is the command that compacts.
func (m userMessage) compacts() bool {
	text, ok := m.Message.Content.(string)
	words := strings.Fields(text)
	return ok && len(words) > 0 && words[0] == compactCommand
}

type userContent struct {
	Role string `json:"role"`
	// Content is a string or blocks.
	Content any `json:"content"`
}

type promptBlock struct {
	Type   string        `json:"type"`
	Text   string        `json:"text,omitempty"`
	Title  string        `json:"title,omitempty"`
	Source *promptSource `json:"source,omitempty"`
}

type promptSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// userLine makes the line of a message. The id must be fresh: the CLI swallows
// one that it has seen.
func userLine(p exec.Prompt, id, priority string) (userMessage, error) {
	m := userMessage{
		Type: "user", Message: userContent{Role: "user", Content: p.Text}, UUID: id, Priority: priority,
	}
	if len(p.Attachments) == 0 {
		if strings.TrimSpace(p.Text) == "" {
			return m, exec.Errorf(exec.CodeInvalid, "the message is empty")
		}
		return m, nil
	}
	if len(p.Attachments) > maxAttachments {
		return m, exec.Errorf(exec.CodeTooLarge, "at most %d files can go with a message", maxAttachments)
	}
	total := 0
	blocks := make([]promptBlock, 0, len(p.Attachments)+1)
	for _, a := range p.Attachments {
		if total += len(a.Data); len(a.Data) > maxAttachment || total > maxAttached {
			return m, exec.Errorf(exec.CodeTooLarge, "the files of a message may have %d MiB in all and %d MiB each",
				maxAttached>>20, maxAttachment>>20)
		}
		b, err := attachmentBlock(a)
		if err != nil {
			return m, err
		}
		blocks = append(blocks, b)
	}
	if p.Text != "" {
		blocks = append(blocks, promptBlock{Type: "text", Text: p.Text})
	}
	m.Message.Content = blocks
	return m, nil
}

func attachmentBlock(a exec.AttachmentData) (promptBlock, error) {
	media, _, _ := strings.Cut(a.MediaType, ";")
	encoded := func() *promptSource {
		return &promptSource{Type: "base64", MediaType: media, Data: base64.StdEncoding.EncodeToString(a.Data)}
	}
	switch {
	case media == mediaPDF:
		return promptBlock{Type: "document", Title: a.Name, Source: encoded()}, nil
	case strings.HasPrefix(media, mediaText):
		return promptBlock{Type: "document", Title: a.Name, Source: &promptSource{
			Type: "text", MediaType: "text/plain", Data: strings.ToValidUTF8(string(a.Data), "\uFFFD"),
		}}, nil
	}
	for _, t := range imageTypes {
		if media == t {
			return promptBlock{Type: "image", Source: encoded()}, nil
		}
	}
	return promptBlock{}, exec.Errorf(exec.CodeInvalid, "Claude Code does not take files of type %s (%s)", a.MediaType, a.Name).
		WithHint("Images (PNG, JPEG, GIF, WebP), PDF and text files can be sent.")
}
