// Package row defines the durable entries of a transcript and their JSON.
//
// A row is one JSON object. The members of [Head] are common to every row and
// "kind" says which body the remaining members are:
//
//	{"ordinal":7,"time":1796055588644,"kind":"assistant","runId":"…","text":"Hello","final":true}
//
// The promise to readers: every row that was ever written decodes. A kind this
// version does not know decodes to [Opaque], which keeps the bytes and encodes
// to them again, so that an older program never drops what a newer one wrote.
//
// Words: an ordinal is the row's position in its transcript, counted from 0
// without gaps. A child is a subagent; its rows carry [Head.Child] and have an
// ordinal sequence of their own. A live part is text that is still streaming;
// it is not a row and is never stored. The row that ends it has its part id.
package row
