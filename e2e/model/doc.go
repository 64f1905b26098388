// Package model is a scripted model server for tests and benchmarks. One
// server speaks the three protocols that coding agents use, on loopback:
//
//	Anthropic Messages   POST …/v1/messages, …/v1/messages/count_tokens, HEAD /, GET /api/hello
//	Chat Completions     POST …/chat/completions
//	Responses            POST …/responses
//	all of them          GET …/models
//
// Paths are matched by their end, so that a base URL with or without /v1
// works.
//
// A [Script] is data: an ordered list of steps, each one model answer. A
// request takes the first step that is not used up and that matches it. The
// same script serves any of the protocols, since a step says what the model
// does and the server knows how a protocol spells it.
//
// Agents also make calls that are not the conversation: titles, compaction,
// subagents, probes, token counts. The server recognises them (see [Call]) and
// answers them sensibly without a step, so that a script holds only what the
// test is about. A step takes such a call when its [Match] names it.
//
// The server records every request. A test can wait for one, look at it, hold
// an answer back at a named gate until it calls [Server.Open], and see whether
// the client hung up.
package model
