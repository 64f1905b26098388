// Package direct talks to model APIs without an agent program in between:
// chats without tools, over Chat Completions, Responses or Anthropic Messages,
// with any server that speaks one of the three.
//
// The servers keep no session. Every launch carries the conversation, and an
// answer is one streaming POST. What makes this more than a POST are the many
// ways in which servers differ and fail:
//
//   - A stream that ends without the protocol's own end is an error, never a
//     short answer. What had arrived is kept and marked partial.
//   - A request is repeated only as long as nothing of an answer was shown, and
//     every repetition is a row that people see.
//   - A field the server does not know is left out from then on, for that
//     endpoint. When the user had asked for what the field does, a row says so.
//   - The credential goes to the host of the endpoint and nowhere else: not to
//     another host by redirect, not into an error or a log.
//
// Words: a turn is what is asked of the model; an attempt is one POST for it; a
// codec knows one protocol; a decoder reads one answer; a sink takes what the
// decoder finds.
package direct
