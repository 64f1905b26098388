// Package feed serves the live connection of browsers: one WebSocket with many
// logical streams, as proto/api/feed.go describes it.
//
// A carrier moves frames; a session is one carrier with its open streams; a
// source makes the items of one kind of stream. A generation is a session
// from the ready item of its $events stream to the end of that stream; to the
// outside it has a client id.
//
// The promises:
//
//   - One goroutine writes to a carrier. Each stream has at most one item waiting
//     for it, and makes the next one from the state of that moment: what happens
//     while a client is slow is merged, not queued. Streams take turns frame by
//     frame.
//   - A list begins with a snapshot that is not older than the subscription that
//     extends it. A chat's rows come in order without gaps, or another snapshot
//     replaces them.
//   - A client that takes nothing is ended, never the server. What waits for one
//     socket is bounded by [maxQueued].
//   - The end of a browser's session ends its sockets with
//     [api.CloseSignedOut].
//   - Following starts no agent.
package feed
