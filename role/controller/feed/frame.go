package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"garcon/proto/api"
)

// errProtocol matches everything a client sends that is no frame.
var errProtocol = errors.New("protocol error")

// maxName bounds the name of a stream, in bytes.
const maxName = 64

// decodeFrame decodes what a client sent. Anything but exactly the members of
// its type is an error.
func decodeFrame(data []byte) (api.ClientFrame, error) {
	var f api.ClientFrame
	if len(data) > api.MaxFrame {
		return f, fmt.Errorf("%w: a frame of more than %d bytes", errProtocol, api.MaxFrame)
	}
	if !utf8.Valid(data) {
		return f, fmt.Errorf("%w: the frame is not UTF-8", errProtocol)
	}
	members, err := memberNames(data)
	if err != nil {
		return f, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("%w: %w", errProtocol, err)
	}
	allowed := []string{"type", "stream"}
	switch f.Type {
	case api.FrameOpen:
		allowed = append(allowed, "name", "args")
		if f.Name == "" || len(f.Name) > maxName {
			return f, fmt.Errorf("%w: an open frame names a stream", errProtocol)
		}
	case api.FrameCancel:
	default:
		return f, fmt.Errorf("%w: there is no such type of frame", errProtocol)
	}
	for _, name := range members {
		if !slices.Contains(allowed, name) {
			return f, fmt.Errorf("%w: unexpected member in a frame", errProtocol)
		}
	}
	if f.Stream == 0 {
		return f, fmt.Errorf("%w: streams are numbered from 1", errProtocol)
	}
	return f, nil
}

// memberNames returns the names of the members of the one object in data. The
// decoder of the library ignores their case and takes the last of equal ones.
func memberNames(data []byte) ([]string, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not an object")
	}
	var names []string
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok || slices.Contains(names, name) {
			return nil, errors.New("a member is there twice")
		}
		names = append(names, name)
		var skip json.RawMessage
		if err := dec.Decode(&skip); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return names, nil
}

// decodeArgs decodes the arguments of a stream strictly. A stream without
// arguments takes none or an empty object.
func decodeArgs(data json.RawMessage, v any) error {
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return api.NewError(api.CodeInvalid, "the arguments of the stream are not valid: "+err.Error(), "")
	}
	return nil
}

// encode returns v as JSON without the HTML escapes of [json.Marshal], which
// would grow source code by a half.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode an item: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// encodeFollow encodes an item of a chat. Its rows are encoded already and only
// copied.
func encodeFollow(item api.FollowItem) ([]byte, error) {
	rows := item.Rows
	item.Rows = nil
	out, err := encode(item)
	if err != nil || len(rows) == 0 {
		return out, err
	}
	size := len(out) + len(`,"rows":[]}`)
	for _, r := range rows {
		size += len(r) + 1
	}
	out = slices.Grow(out, size-len(out))
	out = append(out[:len(out)-1], `,"rows":[`...)
	for i, r := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r...)
	}
	return append(out, `]}`...), nil
}

// appendItem appends a frame with a whole item.
func appendItem(out []byte, stream uint32, value []byte) []byte {
	out = appendHead(out, api.FrameItem, stream)
	out = append(out, `,"value":`...)
	out = append(out, value...)
	return append(out, '}')
}

// itemRoom is what an item may take of a frame.
const itemRoom = api.MaxFrame - 64

// appendPart appends a frame with as much of value as fits, and returns how
// much that was.
func appendPart(out []byte, stream uint32, value []byte) ([]byte, int) {
	out = appendHead(out, api.FramePart, stream)
	out = append(out, `,"text":"`...)
	limit := len(out) + itemRoom
	n := 0
	for n < len(value) {
		b := value[n]
		if b < utf8.RuneSelf {
			if len(out)+len(`\u0000`) > limit {
				break
			}
			out = appendEscaped(out, b)
			n++
			continue
		}
		_, size := utf8.DecodeRune(value[n:])
		if len(out)+size > limit {
			break
		}
		out = append(out, value[n:n+size]...)
		n += size
	}
	out = append(out, '"')
	if n == len(value) {
		out = append(out, `,"last":true`...)
	}
	return append(out, '}'), n
}

// appendEscaped appends an ASCII character as it is in a JSON string.
func appendEscaped(out []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case b == '"' || b == '\\':
		return append(out, '\\', b)
	case b < ' ':
		return append(out, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
	}
	return append(out, b)
}

func appendEnd(out []byte, stream uint32) []byte {
	return append(appendHead(out, api.FrameEnd, stream), '}')
}

func appendError(out []byte, stream uint32, e *api.Error) ([]byte, error) {
	body, err := encode(e)
	if err != nil {
		return nil, err
	}
	out = append(appendHead(out, api.FrameError, stream), `,"error":`...)
	return append(append(out, body...), '}'), nil
}

func appendHead(out []byte, kind string, stream uint32) []byte {
	out = append(out, `{"type":"`...)
	out = append(out, kind...)
	out = append(out, `","stream":`...)
	return strconv.AppendUint(out, uint64(stream), 10)
}
