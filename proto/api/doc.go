// Package api defines the controller's HTTP interface under /api/v1: the
// request and response documents, the error envelope and the table of
// operations.
//
// Requests and responses are JSON objects. Requests are decoded strictly: an
// unknown member, a second document or a wrong type is [CodeInvalid]. Failures
// are one envelope, {"error":{"code","message","hint","details"}}.
//
// Every request but [OpRuntime] carries the header [HeaderInstance]; a server
// with another instance id answers [CodeControllerChanged] and does nothing.
//
// A submission carries a client request id. Sending the same one again returns
// the first acceptance; the same id with another content is [CodeConflict].
package api
