package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"

	"garcon/proto/api"
	"garcon/proto/row"
	"garcon/store/ledger"
)

// headBudget is how much text a row keeps that is sent as its head, in encoded
// bytes; the rest of [api.MaxRowBody] is for what is not text.
const headBudget = api.MaxRowBody * 3 / 4

// maxHeads bounds the heads that are kept, so that followers of one chat share
// them.
const maxHeads = 64

// heads makes what stands for large rows in feeds and pages.
type heads struct {
	mu   sync.Mutex
	made map[headKey]json.RawMessage
	age  []headKey // oldest first
}

type headKey struct {
	chat, view, child string
	ordinal           int64
	size              int
}

// of returns a row as feeds and pages carry it. The result is shared.
func (h *heads) of(chat, view string, r ledger.Stored) json.RawMessage {
	if len(r.JSON) <= api.MaxRowBody {
		return r.JSON
	}
	key := headKey{chat, view, r.Row.Child, r.Row.Ordinal, len(r.JSON)}
	h.mu.Lock()
	known, ok := h.made[key]
	h.mu.Unlock()
	if ok {
		return known
	}
	head := headOf(r.JSON)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.made[key]; !ok {
		if len(h.age) == maxHeads {
			delete(h.made, h.age[0])
			h.age = h.age[1:]
		}
		h.age = append(h.age, key)
		h.made[key] = head
	}
	return head
}

// headOf abridges an encoded row and adds the members of [api.RowHead]. A row
// that does not decode is passed on whole: it is the client's to say so.
func headOf(whole []byte) json.RawMessage {
	r, err := row.Decode(whole)
	if err != nil {
		return whole
	}
	encoded, err := r.Abridge(headBudget).Encode()
	if err != nil {
		return whole
	}
	sum := sha256.Sum256(whole)
	members, err := json.Marshal(api.RowHead{FullBytes: int64(len(whole)), Digest: "sha256-" + hex.EncodeToString(sum[:])})
	if err != nil {
		return whole
	}
	encoded[len(encoded)-1] = ','
	return append(encoded, members[1:]...)
}
