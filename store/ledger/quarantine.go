package ledger

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"garcon/store/internal/boltfile"
)

const (
	// quarantineMark is between a ledger's file name and the time at which it
	// was set aside.
	quarantineMark = ".quarantine-"
	quarantineTime = "20060102T150405.000000000Z"
	// reasonSuffix names the text file that says why.
	reasonSuffix = ".txt"
	// maxReason bounds a reason, in bytes.
	maxReason = 4 << 10
)

// Quarantined lists the files that were set aside, oldest first.
func (s *Set) Quarantined() []Quarantine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.aside)
}

// quarantine renames the chat's damaged file and remembers why.
func (s *Set) quarantine(id string, damage *boltfile.DamageError) error {
	q := Quarantine{ChatID: id, Reason: damage.Reason, Time: s.clock().UTC()}
	q.Reason = q.Reason[:min(len(q.Reason), maxReason)]
	q.Path = s.path(id) + quarantineMark + q.Time.Format(quarantineTime)
	for n := 2; ; n++ {
		// The clock may stand still or go back; a kept file is never replaced.
		if _, err := os.Lstat(q.Path); err != nil {
			break
		}
		q.Path = fmt.Sprintf("%s%s%s-%d", s.path(id), quarantineMark, q.Time.Format(quarantineTime), n)
	}
	if err := os.Rename(s.path(id), q.Path); err != nil {
		s.log.Error("set a damaged ledger aside", "chat", id, "err", err)
		q.Path = s.path(id)
	} else if err := os.WriteFile(q.Path+reasonSuffix, []byte(q.Reason+"\n"), 0o600); err != nil {
		s.log.Warn("note why a ledger was set aside", "chat", id, "err", err)
	}
	s.log.Error("a ledger is damaged and was set aside", "chat", id, "file", q.Path, "reason", q.Reason, "stack", damage.Stack)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aside = append(s.aside, q)
	return q.err()
}

func (q Quarantine) err() error {
	return &QuarantineError{ChatID: q.ChatID, Path: q.Path, Reason: q.Reason}
}

// missing explains why the chat has no file.
func (s *Set) missing(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range slices.Backward(s.aside) {
		if q.ChatID == id {
			return q.err()
		}
	}
	return fmt.Errorf("%w: chat %s has no transcript", ErrNotFound, id)
}

// findQuarantined lists what earlier processes set aside in dir.
func findQuarantined(dir string, entries []os.DirEntry) []Quarantine {
	var found []Quarantine
	for _, e := range entries {
		id, stamp, ok := strings.Cut(e.Name(), ".db"+quarantineMark)
		if !ok || strings.HasSuffix(e.Name(), reasonSuffix) {
			continue
		}
		q := Quarantine{ChatID: id, Path: filepath.Join(dir, e.Name()), Reason: "not recorded"}
		stamp, _, _ = strings.Cut(stamp, "-")
		var err error
		if q.Time, err = time.Parse(quarantineTime, stamp); err != nil {
			if info, err := e.Info(); err == nil {
				q.Time = info.ModTime().UTC()
			}
		}
		if reason, err := os.ReadFile(q.Path + reasonSuffix); err == nil {
			q.Reason = strings.TrimSpace(string(reason[:min(len(reason), maxReason)]))
		}
		found = append(found, q)
	}
	slices.SortStableFunc(found, func(a, b Quarantine) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Path, b.Path))
	})
	return found
}
