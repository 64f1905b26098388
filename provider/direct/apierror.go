package direct

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"

	"garcon/proto/row"
)

const (
	// maxErrorBody is how much of an error answer is read. Errors are a few
	// hundred bytes; what is larger is a web page.
	maxErrorBody = 64 << 10
	// maxMessage bounds the server's words inside a message for people.
	maxMessage = 600
	maxIDBytes = 128
)

// parseAPIError reads the error of an HTTP answer. secret is taken out of it:
// servers quote what they were sent.
func parseAPIError(status int, body []byte, secret string) apiError {
	e := apiError{}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
	case body[0] == '<':
		e.message = htmlTitle(string(body))
	case !jsonError(body, &e):
		e.message = string(body)
	}
	if e.message == "" {
		e.message = http.StatusText(status)
	}
	e.status = status
	e.message = clean(redact(e.message, secret), maxMessage)
	return e
}

// jsonError fills e from a JSON value of any of the known forms. It reports
// whether the value holds an error at all.
func jsonError(data []byte, e *apiError) bool {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && len(list) > 0 {
		// Google's compatible server wraps the object in a list.
		data = list[0]
	}
	var top struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Object  string          `json:"object"`
		Message lenientText     `json:"message"`
		Type    lenientText     `json:"type"`
		Code    lenientText     `json:"code"`
		Param   lenientText     `json:"param"`
	}
	if json.Unmarshal(data, &top) != nil {
		return false
	}
	if isSet(top.Error) {
		return errorValue(top.Error, e)
	}
	if isSet(top.Detail) {
		return detailValue(top.Detail, e)
	}
	if top.Message == "" {
		return false
	}
	e.message, e.code, e.param = string(top.Message), string(top.Code), string(top.Param)
	if top.Type != "error" {
		e.kind = string(top.Type)
	}
	return true
}

// errorValue reads the value of an "error" member: a text or an object.
func errorValue(data json.RawMessage, e *apiError) bool {
	var text string
	if json.Unmarshal(data, &text) == nil {
		e.message = text
		return true
	}
	var v struct {
		Message  lenientText `json:"message"`
		Type     lenientText `json:"type"`
		Status   lenientText `json:"status"`
		Code     lenientText `json:"code"`
		Param    lenientText `json:"param"`
		Metadata struct {
			Raw lenientText `json:"raw"`
		} `json:"metadata"`
	}
	if json.Unmarshal(data, &v) != nil {
		e.message = string(data)
		return true
	}
	e.message, e.kind, e.code, e.param = string(v.Message), string(v.Type), string(v.Code), string(v.Param)
	// OpenRouter says only "Provider returned error" and puts what the
	// provider said beside it.
	if v.Metadata.Raw != "" {
		var inner apiError
		raw := []byte(v.Metadata.Raw)
		if jsonError(raw, &inner) && inner.message != "" {
			raw = []byte(inner.message)
		}
		e.message = strings.TrimSpace(e.message + ": " + string(raw))
	}
	return true
}

// detailValue reads FastAPI's "detail": a text, or a list of complaints with
// the place of each.
func detailValue(data json.RawMessage, e *apiError) bool {
	var text string
	if json.Unmarshal(data, &text) == nil {
		e.message = text
		return true
	}
	var list []struct {
		Loc []lenientText `json:"loc"`
		Msg lenientText   `json:"msg"`
	}
	if json.Unmarshal(data, &list) != nil || len(list) == 0 {
		return errorValue(data, e)
	}
	var complaints []string
	for _, c := range list {
		var place []string
		for _, l := range c.Loc {
			if l != "body" {
				place = append(place, string(l))
			}
		}
		complaints = append(complaints, strings.Join(place, ".")+": "+string(c.Msg))
		if e.param == "" {
			e.param = strings.Join(place, ".")
		}
	}
	e.message = strings.Join(complaints, "; ")
	return true
}

// lenientText is a JSON text, number or boolean as text; anything else is "".
type lenientText string

// UnmarshalJSON implements [json.Unmarshaler]. It never fails.
func (t *lenientText) UnmarshalJSON(data []byte) error {
	var s string
	switch {
	case json.Unmarshal(data, &s) == nil:
		*t = lenientText(s)
	case len(data) > 0 && data[0] != '{' && data[0] != '[' && string(data) != "null":
		*t = lenientText(data)
	}
	return nil
}

// isSet reports whether a member is there and not null.
func isSet(data json.RawMessage) bool { return len(data) > 0 && string(data) != "null" }

// htmlTitle says in a few words what a web page is about.
func htmlTitle(page string) string {
	lower := strings.ToLower(page)
	if i := strings.Index(lower, "<title"); i >= 0 && len(lower) == len(page) {
		if j := strings.IndexByte(lower[i:], '>'); j >= 0 {
			title := page[i+j+1:]
			if end := strings.Index(strings.ToLower(title), "</title"); end >= 0 {
				if title = strings.TrimSpace(title[:end]); title != "" {
					return "a web page titled " + title
				}
			}
		}
	}
	return "a web page instead of an answer"
}

// minSecret is the shortest secret worth hiding; hiding "x" would garble every
// message.
const minSecret = 4

func redact(s, secret string) string {
	if len(secret) < minSecret {
		return s
	}
	return strings.ReplaceAll(s, secret, "[redacted]")
}

// clean makes foreign text fit for a message: one line, no control characters,
// at most max bytes.
func clean(s string, max int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, row.Text(s))
	s = strings.Join(strings.Fields(s), " ")
	if cut := row.Prefix(s, max); cut != s {
		return cut + "…"
	}
	return s
}
