package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// layout names the buckets of a ledger file:
//
//	meta           "schema" and "head": see boltfile.Format and headRecord
//	rows           ordinal → row JSON
//	anchors        ordinal of a message → how many messages precede it
//	child-rows     child id, NUL, ordinal → row JSON
//	child-anchors  child id, NUL, ordinal → as anchors
//	children       child id → sequence
//	clients        client message id → clientRecord
//
// Ordinals are big-endian, so that keys sort as they count.
type layout struct {
	meta, rows, anchors, childRows, childAnchors, children, clients boltfile.Space
}

// maxSmallValue bounds every value that is not a row or the head, in bytes.
const maxSmallValue = 64 << 10

func newLayout() *layout {
	return &layout{
		meta:         boltfile.Meta(),
		rows:         boltfile.NewSpace("rows", row.MaxBytes+ordinalRoom),
		anchors:      boltfile.NewSpace("anchors", maxSmallValue),
		childRows:    boltfile.NewSpace("child-rows", row.MaxBytes+ordinalRoom),
		childAnchors: boltfile.NewSpace("child-anchors", maxSmallValue),
		children:     boltfile.NewSpace("children", maxSmallValue),
		clients:      boltfile.NewSpace("clients", maxSmallValue),
	}
}

// format describes the file. Ordinals count without gaps.
func (l *layout) format(version string) boltfile.Format {
	return boltfile.Format{Kind: "ledger", Version: version, Ordered: l.ordered()}
}

// ordered names the buckets with ordinals in their keys.
func (l *layout) ordered() []string {
	var names []string
	for _, s := range []boltfile.Space{l.rows, l.anchors, l.childRows, l.childAnchors} {
		names = append(names, string(s.Name))
	}
	return names
}

// ordinalRoom is how much longer than its encoding a row is stored: rows are
// encoded before their ordinal is known.
const ordinalRoom = 20

// appendFill is how full bbolt leaves a page of a transcript that splits.
// Ordinals only rise, so the left half of a split is never written again; at
// bbolt's usual half a chat would take twice its size.
const appendFill = 1.0

// create makes the buckets.
func (l *layout) create(tx *bolt.Tx) error {
	for _, s := range []boltfile.Space{l.meta, l.rows, l.anchors, l.childRows, l.childAnchors, l.children, l.clients} {
		if _, err := tx.CreateBucketIfNotExists(s.Name); err != nil {
			return err
		}
	}
	return nil
}

// transcript is where the rows of one transcript are.
type transcript struct {
	rows, anchors boltfile.Space
	// prefix begins every key.
	prefix []byte
}

func (l *layout) transcript(child string) transcript {
	if child == "" {
		return transcript{rows: l.rows, anchors: l.anchors}
	}
	return transcript{rows: l.childRows, anchors: l.childAnchors, prefix: append([]byte(child), 0)}
}

func (t transcript) key(ordinal int64) []byte {
	key := make([]byte, 0, len(t.prefix)+8)
	return binary.BigEndian.AppendUint64(append(key, t.prefix...), uint64(ordinal))
}

// ordinal returns what a key of the transcript stands for; ok is false for a
// key of another transcript.
func (t transcript) ordinal(key []byte) (ordinal int64, ok bool) {
	if len(key) != len(t.prefix)+8 || !bytes.HasPrefix(key, t.prefix) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(key[len(t.prefix):])), true
}

// maxID bounds the ids that become keys or are kept in the head, in bytes:
// several times the longest an agent is known to use.
const maxID = 512

// checkID refuses what cannot be a key. Empty is allowed.
func checkID(what, id string) error {
	switch {
	case len(id) > maxID:
		return fmt.Errorf("%w: the %s has %d bytes, more than %d", ErrInvalid, what, len(id), maxID)
	case strings.Contains(id, "\x00") || !utf8.ValidString(id):
		return fmt.Errorf("%w: the %s is not text", ErrInvalid, what)
	}
	return nil
}

// checkChatID refuses what must not become a file name.
func checkChatID(id string) error {
	if id == "" || len(id) > 64 {
		return fmt.Errorf("%w: chat id %q", ErrInvalid, id)
	}
	for _, r := range id {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' {
			return fmt.Errorf("%w: chat id %q", ErrInvalid, id)
		}
	}
	return nil
}
