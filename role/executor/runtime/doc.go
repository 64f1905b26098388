// Package runtime is the executor contract in process: it implements
// [exec.Runtime] over the adapters of package provider.
//
// Adapters deal in Go objects; this package gives them what the contract asks
// for once and for all:
//
//   - A binding is one stream. Whatever its runs publish passes one bounded,
//     fair queue, is numbered there, and reaches the sink from one goroutine.
//     Publishers wait while the sink is behind; nothing is dropped.
//   - A reference is checked for kind and scope at each use.
//   - A native session has one live operation at most, whoever asks.
//   - A request to the user is answered once.
//   - A run has one terminal, after its rows and after its launch. A panic of
//     an adapter within a call fails that run.
//
// Lock order: run.mu or binding.mu, then integration.mu, then request.mu;
// queue.mu is held alone. No lock is held while an adapter or a sink is called.
package runtime
