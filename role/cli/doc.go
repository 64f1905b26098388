// Package cli is garcon's client side: it finds the running controller, proves
// that it is the one that wrote the runtime descriptor, and turns each command
// into requests of garcon/proto/api.
//
// Words: the root is the configuration directory. An invocation is one run of
// the program: it reads the descriptor and the server's context once and keeps
// both, so that a controller that is replaced in between is noticed and never
// used by accident. A document is what --json prints: one JSON object with a
// schema number.
//
// Output: results go to standard output, everything else to standard error.
// Tables are aligned on a terminal and tab-separated without a header when
// piped. Text that came from an agent, a file or a user is printed through
// [Visible]. Observing commands start nothing.
//
// Exit codes are the constants ExitOK to ExitInterrupted; [ExitCode] maps every
// error to one of them.
package cli
