// Package chat owns chats: their admission, queue, runs and turn receipts.
//
// There is one [owner] for each chat that has been touched. It decides alone
// what happens to the chat, so that everything that can race (a message and the
// end of a turn, a stop and a steer, an edit and the queue's drain) is settled
// in one place under one lock.
//
// The promises:
//
//   - A submission is accepted once its text is committed (or it is in the
//     queue), and accepted once: the same request id and content gives the same
//     acceptance, another content is a conflict.
//   - A chat has at most one active run. A run has exactly one terminal row,
//     written after every row that came before it.
//   - Queue entries are delivered once, in order, or stay in the queue.
//   - Execution state is process-lifetime. A new process starts with empty
//     queues and receipts and launches nothing by itself.
//
// Locks: owner.admission is held across a whole admission and is taken first;
// owner.mu guards the fields and is never held across a call to the store, the
// runtime or the desk.
package chat
