// Package exec is the contract between the controller and what runs agents.
//
// A [Runtime] is the process-lifetime object behind an executor. The one in
// role/executor/runtime is used in process; proto/rpc implements the same
// interface over a link. The controller cannot tell which it holds and must
// not try.
//
// What the contract promises:
//
//   - One binding is one stream. Everything a run says (rows, live parts,
//     session facts, requests to the user, the launch outcome, the terminal)
//     reaches the controller through the binding's [Sink], numbered from 1, in
//     order, without gaps. A reply to a call says nothing that the binding does
//     not also say, and may come before or after it.
//   - Rows precede the terminal that follows from them. A run has exactly one
//     terminal unless its runtime is lost.
//   - After CloseBinding has returned, the sink is not called again.
//   - A failed call says in [Error.Dispatched] whether it can have had an
//     effect. Nothing below this interface retries a call that can.
//   - References are scoped to one runtime instance. One of another instance
//     fails with [CodeStaleResource].
package exec
