// Package runtimefile keeps the private descriptor by which a command line
// finds a running garcon on the same machine, and the proof by which it knows
// that the process behind the address is the one that wrote it.
//
// Who can read the descriptor can act as its owner, so a file that anybody
// else could have written or read is refused. Only a missing file is absent;
// everything else wrong with it is an error that names it.
package runtimefile

// Schema is the version of the descriptor that this program writes and reads.
const Schema = 1
