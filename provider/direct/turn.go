package direct

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// turn is what is asked of a model, in no protocol's terms.
type turn struct {
	model    string
	system   string
	messages []message
	effort   string
	// maxTokens bounds the answer; 0 leaves it to the server.
	maxTokens int
	stream    bool
}

// message is what one side said in a row. Two messages in a row are never of
// the same role, since some servers refuse that.
type message struct {
	role  string
	parts []part
}

// part is text, or a picture when image is not nil.
type part struct {
	text  string
	image *picture
}

type picture struct {
	mediaType string
	data      []byte
}

func (p picture) base64() string { return base64.StdEncoding.EncodeToString(p.data) }

func (p picture) dataURL() string { return "data:" + p.mediaType + ";base64," + p.base64() }

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// imageTypes are what every one of the protocols takes.
var imageTypes = []string{"image/gif", "image/jpeg", "image/png", "image/webp"}

// earlierOmitted stands for a conversation that begins in the middle: servers
// want the first message to be the user's.
const earlierOmitted = "[Earlier messages are not included.]"

// conversation turns what was said before, and the prompt, into messages.
// Attachments that cannot be sent become a note in the text; omitted counts
// those of the prompt and of the conversation together.
func conversation(before []exec.Message, prompt exec.Prompt, images bool) (messages []message, omitted int) {
	before = append(slices.Clone(before), exec.Message{
		Role: roleUser, Text: prompt.Text, Attachments: prompt.Attachments,
	})
	for _, m := range before {
		parts, n := messageParts(m, images)
		omitted += n
		if len(parts) == 0 {
			continue
		}
		if last := len(messages) - 1; last >= 0 && messages[last].role == m.Role {
			messages[last].parts = append(messages[last].parts, parts...)
			continue
		}
		messages = append(messages, message{role: m.Role, parts: parts})
	}
	if len(messages) > 0 && messages[0].role != roleUser {
		messages = slices.Insert(messages, 0, message{role: roleUser, parts: []part{{text: earlierOmitted}}})
	}
	return messages, omitted
}

// messageParts returns the parts of one message, without blank text, which
// servers refuse.
func messageParts(m exec.Message, images bool) (parts []part, omitted int) {
	for _, a := range m.Attachments {
		if m.Role == roleUser && images && len(a.Data) > 0 && slices.Contains(imageTypes, a.MediaType) {
			parts = append(parts, part{image: &picture{a.MediaType, a.Data}})
			continue
		}
		omitted++
		parts = append(parts, part{text: fmt.Sprintf("[The attachment %q (%s) is not included.]", a.Name, a.MediaType)})
	}
	if text := row.Text(m.Text); strings.TrimSpace(text) != "" {
		parts = append(parts, part{text: text})
	}
	return parts, omitted
}

// onlyText returns the text of the message when it has no picture.
func (m message) onlyText() (string, bool) {
	texts := make([]string, 0, len(m.parts))
	for _, p := range m.parts {
		if p.image != nil {
			return "", false
		}
		texts = append(texts, p.text)
	}
	return strings.Join(texts, "\n\n"), true
}

// marshal encodes without the HTML escapes of [json.Marshal], which would grow
// source code by a half.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}
