package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"garcon/proto/row"
	"garcon/store/internal/boltfile"
)

// encoded is a row that is ready but for its ordinal.
type encoded struct {
	row  row.Row
	json []byte
}

// unnumbered is how every encoded row begins before it has its ordinal.
const unnumbered = `{"ordinal":0,`

// encode cleans a row, fills its time and encodes it. It runs in the caller's
// goroutine, so that the writer only copies.
func encode(r row.Row, now func() int64) (encoded, error) {
	if r.Body == nil {
		return encoded{}, fmt.Errorf("%w: a row has no body", ErrInvalid)
	}
	if err := errors.Join(
		checkID("turn id", r.TurnID), checkID("run id", r.RunID), checkID("child id", r.Child), checkID("occurrence", occurrence(r.Body)),
	); err != nil {
		return encoded{}, err
	}
	r.Ordinal = 0
	if r.Time == 0 {
		r.Time = now()
	}
	r = r.Clean()
	data, err := r.Encode()
	if err != nil {
		return encoded{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !bytes.HasPrefix(data, []byte(unnumbered)) {
		return encoded{}, fmt.Errorf("%w: the encoding of a row does not begin with %s", ErrInvalid, unnumbered)
	}
	return encoded{r, data}, nil
}

func occurrence(b row.Body) string {
	switch b := b.(type) {
	case *row.Permission:
		return b.Occurrence
	case *row.PermissionResolved:
		return b.Occurrence
	case *row.Question:
		return b.Occurrence
	case *row.QuestionResolved:
		return b.Occurrence
	}
	return ""
}

// number returns the row's JSON with its ordinal, with room for the checksum.
func (e encoded) number(ordinal int64) []byte {
	out := make([]byte, 0, len(e.json)+ordinalRoom+8)
	out = append(out, unnumbered[:len(unnumbered)-2]...)
	out = strconv.AppendInt(out, ordinal, 10)
	return append(out, e.json[len(unnumbered)-1:]...)
}

// put is one value to store.
type put struct {
	space      boltfile.Space
	key, value []byte
}

// plan collects what one transaction writes, and the state after it. It is
// made before the transaction begins.
type plan struct {
	layout *layout
	state  *state
	puts   []put
	// touched are the children whose sequence changed.
	touched map[string]bool
}

func newPlan(l *layout, base *state) *plan {
	return &plan{layout: l, state: base.clone(), touched: map[string]bool{}}
}

// add gives the row its ordinal.
func (p *plan) add(e encoded) Stored {
	child := e.row.Child
	t := p.layout.transcript(child)
	q := p.state.sequence(child)
	e.row.Ordinal = q.Rows
	key := t.key(q.Rows)
	data := e.number(q.Rows)
	sealed := t.rows.Seal(key, data)
	p.puts = append(p.puts, put{t.rows, key, sealed})
	if isMessage(e.row.Kind()) {
		p.puts = append(p.puts, put{t.anchors, key, sealAnchor(t.anchors, key, q.Messages)})
		q.Messages++
	}
	q.Rows++
	p.state.setSequence(child, q)
	if child != "" {
		p.touched[child] = true
	}
	p.state.head.Bytes += int64(len(data))
	p.state.track(e.row)
	return Stored{Row: e.row, JSON: sealed[:len(data):len(data)]}
}

// finish adds the state itself, as that of the next commit.
func (p *plan) finish() error {
	p.state.head.Commit++
	return p.putState()
}

func (p *plan) putState() error {
	for child := range p.touched {
		if err := p.json(p.layout.children, []byte(child), p.state.children[child]); err != nil {
			return err
		}
	}
	return p.json(p.layout.meta, headKey, p.state.head)
}

func (p *plan) json(space boltfile.Space, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.puts = append(p.puts, put{space, key, space.Seal(key, data)})
	return nil
}

// apply stores the plan.
func (p *plan) apply(tx *bolt.Tx) error {
	ordered := p.layout.ordered()
	buckets := map[string]*bolt.Bucket{}
	for _, w := range p.puts {
		b := buckets[string(w.space.Name)]
		if b == nil {
			b = tx.Bucket(w.space.Name)
			if slices.Contains(ordered, string(w.space.Name)) {
				b.FillPercent = appendFill
			}
			buckets[string(w.space.Name)] = b
		}
		if err := b.Put(w.key, w.value); err != nil {
			return err
		}
	}
	return nil
}

// isMessage reports whether a page counts rows of the kind.
func isMessage(k row.Kind) bool { return k == row.KindUser || k == row.KindAssistant }

// sealAnchor returns the value of a message's anchor: how many messages are
// before it, which shows when one is missing.
func sealAnchor(space boltfile.Space, key []byte, index int64) []byte {
	return space.Seal(key, binary.BigEndian.AppendUint64(make([]byte, 0, 12), uint64(index)))
}

func unsealAnchor(space boltfile.Space, key, sealed []byte) (int64, error) {
	plain, err := space.Unseal(key, sealed)
	if err != nil {
		return 0, err
	}
	if len(plain) != 8 {
		return 0, damaged("an anchor has %d bytes", len(plain))
	}
	return int64(binary.BigEndian.Uint64(plain)), nil
}
