package claude

import "time"

// How long we wait for the CLI.
const (
	// startTimeout is how long it may take to answer its first request: 3 s on
	// an idle machine, over 15 s when many start together.
	startTimeout = 60 * time.Second
	// controlTimeout bounds a request to a running process. The slowest tries a
	// model name against the API.
	controlTimeout = 30 * time.Second
	// answerTimeout is how long it may take to confirm an answer of the user;
	// it takes milliseconds.
	answerTimeout = 10 * time.Second
	// takenTimeout is how long it may take to acknowledge a message; it took up
	// to 1.3 s on a busy machine.
	takenTimeout = 60 * time.Second
	// receiptTimeout is how long it may take to acknowledge an interrupt, and
	// settleTimeout how long the turn may then take to end. Both take
	// milliseconds when nothing is wrong.
	receiptTimeout = 10 * time.Second
	settleTimeout  = 15 * time.Second
	// exitGrace is how long an idle process may take to end after its input
	// was closed: at most 0.7 s was seen.
	exitGrace = 5 * time.Second
	// busyGrace is for one that works in the background, which it would go on
	// with: long enough to write its transcript.
	busyGrace = 500 * time.Millisecond
	// termGrace is how long it may take after SIGTERM; at most 1.7 s was seen.
	termGrace = 5 * time.Second
	// idleTimeout is how long a process is kept that does nothing: a
	// conversation goes on at once within it, and costs a resume of 1 to 3 s
	// after it.
	idleTimeout = 10 * time.Minute
)

// waits are the times above; tests shorten them.
type waits struct {
	start, control, answer, taken, receipt, settle, exit, busy, term, idle time.Duration
}

func defaultWaits() waits {
	return waits{
		start: startTimeout, control: controlTimeout, answer: answerTimeout, taken: takenTimeout,
		receipt: receiptTimeout, settle: settleTimeout, exit: exitGrace, busy: busyGrace, term: termGrace, idle: idleTimeout,
	}
}
