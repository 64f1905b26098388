package chat

import (
	"bytes"
	"unicode/utf8"

	"garcon/proto/row"
	"garcon/store/ledger"
)

// sentPart is what a follower has been sent of a live part.
type sentPart struct {
	run, id  string
	title    string
	size     int // bytes of the part's text
	rewrites int
	// broken says that the text held bytes that are not UTF-8: what was sent is
	// longer than they were, so only the whole text can follow.
	broken bool
	// ended says that the part's row has been sent.
	ended bool
}

// liveNews returns what the follower has not been sent of the parts of a
// transcript, and notes that it has. Parts that became one of rows are skipped.
func (o *owner) liveNews(child string, sent map[uint64]*sentPart, rows []ledger.Stored) []row.Live {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []row.Live
	for _, p := range o.parts {
		if p.Child != child {
			continue
		}
		s := sent[p.serial]
		if s == nil {
			s = &sentPart{run: p.RunID, id: p.PartID, size: -1, ended: named(rows, p)}
			sent[p.serial] = s
		}
		if l, ok := s.next(p); ok && !s.ended {
			out = append(out, l)
		}
	}
	return out
}

// hasLiveNews reports whether liveNews or vanished would return something.
func (o *owner) hasLiveNews(child string, sent map[uint64]*sentPart) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := 0
	for _, p := range o.parts {
		if p.Child != child {
			continue
		}
		s := sent[p.serial]
		if s == nil || !s.ended && (s.size != whole(p.text) || s.rewrites != p.rewrites || s.title != p.Title) {
			return true
		}
		known++
	}
	return known < len(sent)
}

// next returns the update that brings a follower from s to p, and moves s.
func (s *sentPart) next(p *part) (row.Live, bool) {
	end := whole(p.text)
	if s.size == end && s.rewrites == p.rewrites && s.title == p.Title {
		return row.Live{}, false
	}
	l := p.Live
	l.Offset = 0
	if s.size >= 0 && s.rewrites == p.rewrites && s.size <= end && !s.broken {
		l.Offset = s.size
	}
	s.broken = !utf8.Valid(p.text[l.Offset:end])
	if s.broken {
		l.Offset = 0
	}
	l.Text = string(bytes.ToValidUTF8(p.text[l.Offset:end], []byte("\uFFFD")))
	s.size, s.rewrites, s.title = end, p.rewrites, p.Title
	return l, true
}

// whole returns the length of text without a rune at its end that is not yet
// complete.
func whole(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if b := text[len(text)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(text[len(text)-back:]) {
				return len(text) - back
			}
			break
		}
	}
	return len(text)
}

// named reports whether one of the rows replaces the part.
func named(rows []ledger.Stored, p *part) bool {
	for i := range rows {
		if r := &rows[i].Row; r.PartID != "" && r.PartID == p.PartID && r.RunID == p.RunID {
			return true
		}
	}
	return false
}

// endParts notes that rows were sent, so that nothing follows of the parts they
// replace.
func (o *owner) endParts(sent map[uint64]*sentPart, rows []ledger.Stored) {
	if !hasParts(rows) {
		return
	}
	for _, s := range sent {
		if named(rows, &part{Live: row.Live{RunID: s.run, PartID: s.id}}) {
			s.ended = true
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.parts {
		if sent[p.serial] == nil && named(rows, p) {
			sent[p.serial] = &sentPart{run: p.RunID, id: p.PartID, size: whole(p.text), rewrites: p.rewrites, title: p.Title, ended: true}
		}
	}
}

func hasParts(rows []ledger.Stored) bool {
	for i := range rows {
		if rows[i].Row.PartID != "" {
			return true
		}
	}
	return false
}

// vanished returns the serials of parts a follower knows that are no more.
func (o *owner) vanished(sent map[uint64]*sentPart) []uint64 {
	if len(sent) == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	here := make(map[uint64]bool, len(o.parts))
	for _, p := range o.parts {
		here[p.serial] = true
	}
	var out []uint64
	for serial := range sent {
		if !here[serial] {
			out = append(out, serial)
		}
	}
	return out
}
