// Package e2e tests garcon as a user has it: the built binary, real processes,
// real files and sockets.
//
// A [World] is one user's machine in a temporary directory: home, configuration
// root, projects, PATH and environment. It starts roles, runs commands, counts
// the processes it left, and ends everything with the test. The scripts in
// testdata/scripts drive the command line; Go tests do what needs concurrency
// or faults. House rules that a compiler does not check are tests here, too.
//
// A test binary of this package calls [Main] from its TestMain.
package e2e
