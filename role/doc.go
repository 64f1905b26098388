// Package role composes each role of the program from its parts. It is the only
// place where the controller and the executor meet: it hands the controller a
// runtime.
package role
