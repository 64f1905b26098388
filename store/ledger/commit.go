package ledger

import (
	"errors"
	"os"

	bolt "go.etcd.io/bbolt"

	"garcon/store/internal/boltfile"
)

// clientRecord is what the clients bucket remembers of a client message id.
type clientRecord struct {
	Fingerprint string `json:"fingerprint"`
	// First and Last are the ordinals of the rows it stored, -1 when it stored
	// none in the main transcript or when the view was replaced since.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// commit stores the batches in one transaction and tells their owners. It runs
// in the writer goroutine.
func (l *Ledger) commit(items []*pending) {
	if len(items) == 0 {
		return
	}
	outcomes, err := l.tryCommit(items)
	for i, p := range items {
		switch {
		case err != nil:
			p.done(Committed{First: -1, Last: -1}, err)
		default:
			p.done(outcomes[i].Committed, outcomes[i].err)
		}
	}
}

type outcome struct {
	Committed
	err error
}

func (l *Ledger) tryCommit(items []*pending) ([]outcome, error) {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead != nil {
		return nil, dead
	}
	if err := l.recover(); err != nil {
		return nil, l.fail(err)
	}
	known, err := l.knownClients(items)
	if err != nil {
		return nil, l.fail(err)
	}
	p := newPlan(l.set.layout, l.state)
	outcomes, fresh, err := p.batches(items, known)
	if err != nil {
		return nil, err
	}
	if len(p.puts) == 0 && !p.changed(l.state) {
		return outcomes, nil
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	if err := l.store(p); err != nil {
		return nil, l.fail(err)
	}
	l.publish(p.state, fresh)
	return outcomes, nil
}

// batches plans every batch in order. fresh holds the rows of all.
func (p *plan) batches(items []*pending, known map[string]clientRecord) (outcomes []outcome, fresh []Stored, err error) {
	rows := 0
	for _, it := range items {
		rows += len(it.rows)
	}
	outcomes = make([]outcome, len(items))
	fresh = make([]Stored, 0, rows)
	for i, it := range items {
		out := &outcomes[i]
		out.First, out.Last = -1, -1
		if it.clientID != "" {
			if before, ok := known[it.clientID]; ok {
				if before.Fingerprint != it.fingerprint {
					out.err = ErrConflict
					continue
				}
				out.First, out.Last, out.Replayed = before.First, before.Last, true
				continue
			}
		}
		start := len(fresh)
		for _, e := range it.rows {
			s := p.add(e)
			fresh = append(fresh, s)
			if e.row.Child == "" {
				if out.First < 0 {
					out.First = s.Row.Ordinal
				}
				out.Last = s.Row.Ordinal
			}
		}
		out.Rows = fresh[start:len(fresh):len(fresh)]
		if it.watermark != nil {
			p.state.watermark(*it.watermark)
		}
		if it.session != nil {
			p.state.head.Session = it.session
		}
		if it.clientID == "" {
			continue
		}
		record := clientRecord{it.fingerprint, out.First, out.Last}
		if err := p.json(p.layout.clients, []byte(it.clientID), record); err != nil {
			return nil, nil, err
		}
		known[it.clientID] = record
	}
	return outcomes, fresh, nil
}

// changed reports whether the plan changes the head without storing a row.
func (p *plan) changed(base *state) bool {
	h, b := p.state.head, base.head
	return h.Session != b.Session || len(h.Watermarks) != len(b.Watermarks) ||
		len(h.Watermarks) > 0 && &h.Watermarks[0] != &b.Watermarks[0]
}

// knownClients looks up the client message ids of the batches.
func (l *Ledger) knownClients(items []*pending) (map[string]clientRecord, error) {
	known := map[string]clientRecord{}
	var ids []string
	for _, it := range items {
		if it.clientID != "" {
			ids = append(ids, it.clientID)
		}
	}
	if len(ids) == 0 || l.file == nil {
		return known, nil
	}
	err := l.file.View(func(tx *bolt.Tx) error {
		for _, id := range ids {
			r, ok, err := l.set.layout.client(tx, id)
			if err != nil {
				return err
			}
			if ok {
				known[id] = r
			}
		}
		return nil
	})
	return known, err
}

// store writes the plan: into the file, or into a new one when this is the
// ledger's first commit.
func (l *Ledger) store(p *plan) error {
	if l.file != nil {
		err := l.file.Update(p.apply)
		if errors.Is(err, ErrStorage) {
			l.lost = append(l.lost, p.clients()...)
		}
		return err
	}
	file, err := boltfile.Create(l.path, l.set.format, l.set.faults, false, func(tx *bolt.Tx) error {
		if err := l.set.layout.create(tx); err != nil {
			return err
		}
		return p.apply(tx)
	})
	if errors.Is(err, os.ErrExist) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.file = file
	l.mu.Unlock()
	return nil
}

// clients returns the client message ids the plan stores.
func (p *plan) clients() []string {
	var ids []string
	for _, w := range p.puts {
		if string(w.space.Name) == string(p.layout.clients.Name) {
			ids = append(ids, string(w.key))
		}
	}
	return ids
}

// recover makes the file agree with what the owners of earlier batches were
// told. A commit that failed late, in its last wait for the disk, may have
// taken; its batches were reported as failed, so it is undone.
func (l *Ledger) recover() error {
	if l.file == nil || !l.file.Suspect() {
		return nil
	}
	if err := l.file.Reopen(); err != nil {
		return err
	}
	layout := l.set.layout
	var onDisk *state
	err := l.file.View(func(tx *bolt.Tx) (err error) {
		onDisk, err = layout.load(tx, l.id)
		return err
	})
	if err != nil {
		return err
	}
	if onDisk.head.Commit == l.state.head.Commit {
		l.lost = nil
		return nil
	}
	if onDisk.head.Commit < l.state.head.Commit {
		return damaged("it lost a commit that the disk had confirmed")
	}
	err = l.file.Update(func(tx *bolt.Tx) error { return l.undo(tx, onDisk) })
	if err == nil {
		l.lost = nil
	}
	return err
}

// undo takes the file from onDisk back to the ledger's state.
func (l *Ledger) undo(tx *bolt.Tx, onDisk *state) error {
	layout := l.set.layout
	p := newPlan(layout, l.state)
	if err := l.undoRows(tx, "", l.state.head.Main); err != nil {
		return err
	}
	children := tx.Bucket(layout.children.Name)
	for child, q := range onDisk.children {
		before, ok := l.state.children[child]
		if ok && before == q {
			continue
		}
		if err := l.undoRows(tx, child, before); err != nil {
			return err
		}
		if ok {
			p.touched[child] = true
		} else if err := children.Delete([]byte(child)); err != nil {
			return err
		}
	}
	for _, id := range l.lost {
		if err := tx.Bucket(layout.clients.Name).Delete([]byte(id)); err != nil {
			return err
		}
	}
	if err := p.putState(); err != nil {
		return err
	}
	return p.apply(tx)
}

// undoRows removes the rows and anchors of a transcript after those q counts.
func (l *Ledger) undoRows(tx *bolt.Tx, child string, q sequence) error {
	t := l.set.layout.transcript(child)
	for _, space := range []boltfile.Space{t.rows, t.anchors} {
		b := tx.Bucket(space.Name)
		var keys [][]byte
		c := b.Cursor()
		for k, _ := c.Seek(t.key(q.Rows)); k != nil; k, _ = c.Next() {
			if _, ok := t.ordinal(k); !ok {
				break
			}
			keys = append(keys, append([]byte(nil), k...))
		}
		for _, k := range keys {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
	}
	return nil
}
