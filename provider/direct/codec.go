package direct

import (
	"net/http"
	"net/url"

	"garcon/proto/exec"
	"garcon/proto/row"
)

// codec knows one protocol. It is a value without state.
type codec interface {
	// address returns the URL of the call that answers turns.
	address(base *url.URL) *url.URL
	// models returns the URL of the model listing.
	models(base *url.URL) *url.URL
	// authorize adds the headers of the protocol; key may be empty.
	authorize(h http.Header, key string, q quirks)
	// body returns the request for a turn, to be encoded as JSON.
	body(t turn, q quirks, host string) any
	// adapt says what to leave out or change after the server has refused a
	// request that was made under q. ok is false when nothing would help.
	adapt(t turn, q quirks, host string, e apiError) (l lesson, ok bool)
	// omits says, for people, what of the turn is not as asked because of q.
	omits(t turn, q quirks, host string) []string
	// stream returns a decoder for one streamed answer.
	stream(s sink) decoder
	// whole decodes an answer that came as one JSON object.
	whole(data []byte, s sink) (finish, *failure)
}

// decoder reads one streamed answer.
type decoder interface {
	// event takes one event. It fails with [errMalformed] when the data is not
	// what the protocol says, which ends nothing by itself.
	event(e event) *failure
	// ended reports whether the protocol's end was seen, and nothing follows.
	ended() bool
	// settled reports whether the answer is complete even if the protocol's
	// end is missing.
	settled() bool
	// result returns how the answer ended, after it has.
	result() finish
	// close hands on what was held back. It is called once, at the end of any
	// stream.
	close()
}

// errMalformed is what [decoder.event] fails with for data it cannot read.
var errMalformed = &failure{err: exec.Errorf(exec.CodeModelError, "an event of the stream is not understood")}

// stop is why a model stopped.
type stop string

const (
	// stopEnd: it had said what it wanted.
	stopEnd stop = ""
	// stopLength: the answer reached the limit for answers.
	stopLength stop = "length"
	// stopRefused: the model or a filter refused to go on.
	stopRefused stop = "refused"
	// stopContext: the conversation and the answer filled the context window.
	stopContext stop = "context"
	// stopPaused: the server wants to be asked to go on.
	stopPaused stop = "paused"
	// stopTool: the model called a tool, though none is offered.
	stopTool stop = "tool"
)

// finish is how an answer ended.
type finish struct {
	stop stop
	// usage is nil when the server did not say.
	usage *row.Usage
}

// failure returns the error of an answer that ended, but not well.
func (f finish) failure(ep exec.Endpoint, model string) *exec.Error {
	var err *exec.Error
	switch f.stop {
	case stopLength:
		err = exec.Errorf(exec.CodeTruncated, "The answer reached the limit of %s for one answer.", model).
			WithHint("Ask it to go on, or raise the limit in the settings of the chat.")
	case stopRefused:
		err = exec.Errorf(exec.CodeContentRefused, "The model %s, or a filter before it, refused to answer.", model).
			WithHint("Change the message, or choose another model.")
	case stopContext:
		err = exec.Errorf(exec.CodeContextOverflow, "The conversation filled the context window of %s.", model).
			WithHint("Compact the chat, start a new one, or choose a model with a larger context window.")
	case stopPaused:
		err = exec.Errorf(exec.CodeTruncated, "%s paused in the middle of the answer.", capital(endpointName(ep))).
			WithHint("Ask it to go on.")
	case stopTool:
		err = exec.Errorf(exec.CodeModelError, "The model %s called a tool, but none is offered in this chat.", model).
			WithHint("Tell it to answer in words, or use an agent that has tools.")
	default:
		return nil
	}
	return err.WithDispatched(exec.WasDispatched)
}
