package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Script is everything a server answers. Its JSON form is strict: an unknown
// member is an error.
type Script struct {
	// Steps are the answers, in order.
	Steps []Step `json:"steps,omitempty"`
	// Default answers conversation requests that no step takes. Without it
	// they get status 400, so that a missing step shows in the agent.
	Default *Step `json:"default,omitempty"`
	// Routes answer other requests, or these instead of a model; they are
	// looked at first.
	Routes []Route `json:"routes,omitempty"`
	// Models are the ids that the model listing gives; by default one,
	// "scripted-1".
	Models []string `json:"models,omitempty"`
	// Key is the credential that model requests must bring, in x-api-key or as
	// a bearer token. Empty accepts any.
	Key string `json:"key,omitempty"`
	// CountTokens is the answer to count_tokens, 100 by default.
	CountTokens int `json:"countTokens,omitempty"`
}

// Step is one model answer, or several equal ones.
type Step struct {
	// Name is for messages; by default the position, "step 1".
	Name string `json:"name,omitempty"`
	// Match says which requests the step takes. Nil takes any request of the
	// main conversation.
	Match *Match `json:"match,omitempty"`
	// Times is how many requests the step answers: 0 means 1, -1 all.
	Times int `json:"times,omitempty"`
	// Wait is a gate that must be open before anything is answered.
	Wait string `json:"wait,omitempty"`
	// Reply is a plain HTTP answer, such as an error. Then no other member of
	// the answer may be set.
	Reply *Reply `json:"reply,omitempty"`
	// Blocks are the content of the answer.
	Blocks []Block `json:"blocks,omitempty"`
	// Stop is the stop reason in the protocol's own words. By default it says
	// that the turn is over, or that tools are called when there are any. In
	// Responses, any value makes the answer incomplete for that reason.
	Stop  string `json:"stop,omitempty"`
	Usage *Usage `json:"usage,omitempty"`
	// End says how the stream ends after the blocks, when not well.
	End End `json:"end,omitempty"`
	// Fail is the error that [EndError] sends.
	Fail *Fail `json:"fail,omitempty"`
	// Wire changes how the answer looks on the wire, to play servers that
	// differ from the original.
	Wire Wire `json:"wire,omitzero"`
	// Answer makes the step from the request, when data is not enough. The
	// returned step's Match and Times are ignored.
	Answer func(*Request) Step `json:"-"`
}

// Block is one piece of content. Exactly one of Text, Thinking, Refusal, Tool,
// Comment and Raw is set.
type Block struct {
	Text     string `json:"text,omitempty"`
	Thinking string `json:"thinking,omitempty"`
	Refusal  string `json:"refusal,omitempty"`
	Tool     *Tool  `json:"tool,omitempty"`
	// Comment is sent as an SSE comment.
	Comment string `json:"comment,omitempty"`
	// Raw is written to the stream as it is; the line ends are the script's.
	Raw string `json:"raw,omitempty"`

	// Wait is a gate that must be open before the block begins.
	Wait string `json:"wait,omitempty"`
	// Hold is a gate that must be open after HoldAfter chunks were sent.
	Hold      string `json:"hold,omitempty"`
	HoldAfter int    `json:"holdAfter,omitempty"`
	// Repeat repeats the text so many times, to make large answers from small
	// scripts. A Comment or Raw is sent so many times.
	Repeat int `json:"repeat,omitempty"`
	// Chunks is in how many pieces the text or the tool input is sent; 0
	// means 2, so that no agent sees an answer in one piece by accident.
	Chunks int `json:"chunks,omitempty"`
	// DelayMs is waited before each chunk, in milliseconds.
	DelayMs int `json:"delayMs,omitempty"`
}

// Tool is a tool call.
type Tool struct {
	// ID is made up when empty.
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Namespace goes with the name in Responses.
	Namespace string `json:"namespace,omitempty"`
	// Input is a JSON value. In Responses a string makes it a custom tool
	// call; elsewhere it is sent as it is, even when it is not JSON.
	Input any `json:"input"`
}

// Usage counts tokens. Input does not include what came from the cache; the
// server adds it where the protocol wants that.
type Usage struct {
	Input      int `json:"input,omitempty"`
	Output     int `json:"output,omitempty"`
	CacheRead  int `json:"cacheRead,omitempty"`
	CacheWrite int `json:"cacheWrite,omitempty"`
	Reasoning  int `json:"reasoning,omitempty"`
}

// defaultUsage is what an answer without usage reports.
var defaultUsage = Usage{Input: 42, Output: 7}

// End is a way for a stream to end badly.
type End string

// The bad ends of a stream.
const (
	// EndTruncate ends the body properly but without the protocol's end.
	EndTruncate End = "truncate"
	// EndCut closes the connection in the middle of the body.
	EndCut End = "cut"
	// EndReset resets the connection.
	EndReset End = "reset"
	// EndStall sends nothing more and keeps the connection open.
	EndStall End = "stall"
	// EndError sends Step.Fail as the protocol's error event.
	EndError End = "error"
)

// Fail is an error inside a stream that began well.
type Fail struct {
	Type    string `json:"type,omitempty"`
	Message string `json:"message,omitempty"`
	Code    any    `json:"code,omitempty"`
	// Response sends response.failed instead of error in Responses, and sets
	// finish_reason "error" in Chat Completions.
	Response bool `json:"response,omitempty"`
}

// Reply is a plain HTTP answer.
type Reply struct {
	// Status is 200 when zero.
	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as JSON, Text as it is. When both are unset the body is an
	// error in the protocol's form, of the next three members.
	Body    any     `json:"body,omitempty"`
	Text    *string `json:"text,omitempty"`
	Type    string  `json:"type,omitempty"`
	Message string  `json:"message,omitempty"`
	Code    any     `json:"code,omitempty"`
}

// Route is a plain answer to requests that are not for a model.
type Route struct {
	// Method is any when empty.
	Method string `json:"method,omitempty"`
	// Path is the whole path.
	Path string `json:"path"`
	// Query must be part of the query string.
	Query string `json:"query,omitempty"`
	// Wait is a gate that must be open before the answer.
	Wait  string `json:"wait,omitempty"`
	Reply Reply  `json:"reply"`
}

// Wire is how an answer is put on the wire. The zero value is what the
// original servers do.
type Wire struct {
	// JSON answers with one JSON object although a stream was asked for.
	JSON bool `json:"json,omitempty"`
	// Headers are added to those of a stream.
	Headers map[string]string `json:"headers,omitempty"`
	// LineEnd is "\n", "\r\n" or "\r".
	LineEnd string `json:"lineEnd,omitempty"`
	// BOM begins the stream with a byte order mark.
	BOM bool `json:"bom,omitempty"`
	// Gzip compresses the body.
	Gzip bool `json:"gzip,omitempty"`
	// Drip writes so many bytes at a time, DripMs apart.
	Drip   int `json:"drip,omitempty"`
	DripMs int `json:"dripMs,omitempty"`
	// NoEvent leaves out the "event:" lines.
	NoEvent bool `json:"noEvent,omitempty"`
	// NoDone leaves out Chat Completions' [DONE]; Done adds one to Responses.
	NoDone bool `json:"noDone,omitempty"`
	Done   bool `json:"done,omitempty"`
	// NoDeltas leaves out everything but the final event in Responses.
	NoDeltas bool `json:"noDeltas,omitempty"`
	// Reasoning is the spelling of thinking in Chat Completions:
	// "reasoning_content" (default), "reasoning", "both",
	// "reasoning_details", "parts" or "think" (tags inside the content). In
	// Responses, "text" sends response.reasoning_text instead of a summary.
	Reasoning string `json:"reasoning,omitempty"`
	// Content is how Chat Completions' content is sent: "text" (default) or
	// "parts".
	Content string `json:"content,omitempty"`
	// Usage is where Chat Completions' usage goes: "last" (default), "finish",
	// "every", "null" or "none".
	Usage string `json:"usage,omitempty"`
}

// Parse reads a script. It fails on unknown members, on anything after the
// script and on a script that makes no sense.
func Parse(r io.Reader) (Script, error) {
	var s Script
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return Script{}, fmt.Errorf("parse script: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return Script{}, fmt.Errorf("parse script: more after the script")
	}
	if err := s.Validate(); err != nil {
		return Script{}, fmt.Errorf("parse script: %w", err)
	}
	return s, nil
}

// Load reads a script from a file.
func Load(path string) (Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Script{}, fmt.Errorf("load script: %w", err)
	}
	s, err := Parse(bytes.NewReader(data))
	if err != nil {
		return Script{}, fmt.Errorf("load %s: %w", path, err)
	}
	return s, nil
}

// Validate reports the first thing in the script that makes no sense.
func (s Script) Validate() error {
	for i := range s.Steps {
		if err := s.Steps[i].validate(); err != nil {
			return fmt.Errorf("%s: %w", stepName(s.Steps[i], i), err)
		}
	}
	if s.Default != nil {
		if err := s.Default.validate(); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	for _, r := range s.Routes {
		if r.Path == "" {
			return fmt.Errorf("a route has no path")
		}
	}
	return nil
}

func stepName(s Step, i int) string {
	if s.Name != "" {
		return s.Name
	}
	return fmt.Sprintf("step %d", i+1)
}

func (s Step) validate() error {
	switch {
	case s.Times < -1:
		return fmt.Errorf("times is %d", s.Times)
	case s.Reply != nil && (len(s.Blocks) > 0 || s.Stop != "" || s.End != "" || s.Usage != nil):
		return fmt.Errorf("a reply has no blocks, stop, usage or end")
	case (s.End == EndError) != (s.Fail != nil):
		return fmt.Errorf("end %q and fail go together", EndError)
	}
	switch s.End {
	case "", EndTruncate, EndCut, EndReset, EndStall, EndError:
	default:
		return fmt.Errorf("unknown end %q", s.End)
	}
	if s.Match != nil {
		if err := s.Match.validate(); err != nil {
			return err
		}
	}
	if err := s.Wire.validate(); err != nil {
		return err
	}
	for i, b := range s.Blocks {
		if err := b.validate(); err != nil {
			return fmt.Errorf("block %d: %w", i+1, err)
		}
	}
	return nil
}

func (b Block) validate() error {
	kinds := 0
	for _, set := range []bool{
		b.Text != "", b.Thinking != "", b.Refusal != "", b.Tool != nil, b.Comment != "", b.Raw != "",
	} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return fmt.Errorf("it is of %d kinds", kinds)
	case kinds == 0 && b.Wait == "":
		return fmt.Errorf("it is empty")
	case b.Tool != nil && b.Tool.Name == "":
		return fmt.Errorf("the tool has no name")
	case b.Repeat < 0 || b.Chunks < 0 || b.DelayMs < 0 || b.HoldAfter < 0:
		return fmt.Errorf("a number is negative")
	case b.HoldAfter > 0 && b.Hold == "":
		return fmt.Errorf("holdAfter without hold")
	}
	return nil
}

func (w Wire) validate() error {
	for _, c := range []struct {
		name, value string
		allowed     []string
	}{
		{"lineEnd", w.LineEnd, []string{"", "\n", "\r\n", "\r"}},
		{"reasoning", w.Reasoning, []string{"", "reasoning_content", "reasoning", "both", "reasoning_details", "parts", "think", "text"}},
		{"content", w.Content, []string{"", "text", "parts"}},
		{"usage", w.Usage, []string{"", "last", "finish", "every", "null", "none"}},
	} {
		if !contains(c.allowed, c.value) {
			return fmt.Errorf("unknown wire %s %q", c.name, c.value)
		}
	}
	return nil
}
