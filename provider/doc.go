// Package provider is what the adapters of agents are written against and what
// they share.
//
// An adapter implements [Adapter] and the facets it supports. It deals in Go
// objects: one [Conversation] for each binding, one [Active] for each run. The
// runtime (role/executor/runtime) turns them into the references of
// proto/exec, numbers what they publish, keeps one operation for each native
// session, and answers each request to the user once.
//
// Rules an adapter keeps; provider/conformance checks them:
//
//   - It publishes through the [Run] it was given at launch and through no
//     other. Nothing looks up "the current run" of a chat.
//   - A run ends with exactly one [Run.Finish]; rows come before it.
//   - [Conversation.Close] ends every process of the conversation and waits
//     for its goroutines. Nothing is published afterwards.
//   - Native processes are started with [Processes.Start], which gives them a
//     group, a cookie, a clean environment and a guard.
//
// A program that starts processes is its own guard: before anything else it
// must call [RunGuard] when [IsGuard] says so, in a test binary from TestMain.
package provider
