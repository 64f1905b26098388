// Package boltfile opens bbolt files the way garcon trusts them.
//
// bbolt has no page checksums, follows page numbers without checking them and
// panics, faults or recurses without end on a damaged file. So a file is
// checked before it is given to bbolt, every transaction runs behind recover
// with faults turned into panics, and every value is sealed with a checksum
// that is bound to its key.
package boltfile
