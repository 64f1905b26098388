// Package claude drives Claude Code, Anthropic's command line agent.
//
// One conversation has one long-lived process
//
//	claude -p --input-format stream-json --output-format stream-json …
//
// which is kept between runs, told of changed settings through control
// requests, and started again with --resume when it died or a change needs it.
// Both directions are JSON objects, one to a line.
//
// Words: a turn is what the CLI makes of one user message and ends with one
// "result" line; a run of garcon may span several turns, because a steer that
// cannot be injected into the current turn becomes a turn of its own. A
// submission is one user message we wrote, known by the uuid we chose for it.
// A run ends when every submission of it has ended and the CLI has settled. A
// child is a subagent, a task anything that may go on in the background.
//
// Two shapes of the CLI are understood. Newer ones (measured: 2.1.332) report
// the life of every submission in "command_lifecycle" lines and the whole set of
// background tasks; older ones (measured: 2.1.197) do not, and the same facts
// are derived from replayed messages, results and task lines. Which one runs is
// learned from what it sends, never from its version.
package claude
