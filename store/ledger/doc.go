// Package ledger keeps the transcript of each chat as an append-only sequence
// of rows, one bbolt file for each chat.
//
// Words: an ordinal is a row's position in its transcript, counted from 0
// without gaps. The main transcript is the chat's own; rows with a child id
// belong to the transcript of that subagent and have a sequence of their own in
// the same file. A view is the identity of the whole: [Ledger.Replace] is the
// only way to change it. A message is a user or an assistant row.
//
// The promises:
//
//   - One goroutine for each open ledger writes. Rows are assigned ordinals in
//     the order in which they were queued.
//   - A row is visible, to [Ledger.Append]'s caller and to readers and
//     followers alike, only after the commit that holds it is on disk.
//   - Followers see every row of their transcript once, in order. A slow one
//     reads from disk and costs no memory.
//   - Every stored value carries a checksum bound to its key, checked on every
//     read. A file that fails is set aside beside itself, never repaired
//     silently and never deleted; see [QuarantineError].
//   - A failed write fails the appends it held and nothing else: see
//     [StorageError].
package ledger
