package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"garcon/proto/exec"
)

const (
	recordFile = "processes.json"
	recordLock = "processes.lock"
	// sweepGrace is how long processes of an earlier runtime may take to end
	// by themselves; it delays the start of this one.
	sweepGrace = time.Second
)

// recordEntry is one native process as the record file keeps it, so that a
// later runtime can tell what this one left behind.
type recordEntry struct {
	Cookie string `json:"cookie"`
	Name   string `json:"name"`
	// PID and Start are zero until the process has started. Start is in the
	// system's own unit, see procStat.
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"`
}

// record is the file of the native processes that live. It is not synced to the
// disk: the processes do not survive a power cut either.
type record struct {
	path string

	mu      sync.Mutex
	entries map[string]recordEntry
}

func newRecord(dir string) *record {
	return &record{path: filepath.Join(dir, recordFile), entries: map[string]recordEntry{}}
}

// put adds or replaces the entry of a cookie.
func (r *record) put(e recordEntry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries[e.Cookie] = e
	return r.writeLocked()
}

func (r *record) remove(cookie string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.entries, cookie)
	return r.writeLocked()
}

// clear makes the record empty once what it said has been dealt with.
func (r *record) clear() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.entries)
	return r.writeLocked()
}

func (r *record) writeLocked() error {
	list := make([]recordEntry, 0, len(r.entries))
	for _, e := range r.entries {
		list = append(list, e)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	next := r.path + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("record processes: %w", err)
	}
	if err := os.Rename(next, r.path); err != nil {
		return fmt.Errorf("record processes: %w", err)
	}
	return nil
}

// sweep ends what an earlier runtime left behind according to its record. A
// process is its own only if it carries a recorded cookie and did not start
// before the recorded process did.
func (r *record) sweep() ([]exec.SweptProcess, error) {
	data, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read process record: %w", err)
	}
	var list []recordEntry
	if err := json.Unmarshal(data, &list); err != nil {
		// The file is replaced as a whole, so this is damage from outside.
		// Nothing in it can be trusted, and nothing is ended for it.
		return nil, fmt.Errorf("process record %s is damaged: %w", r.path, err)
	}
	byCookie := map[string]recordEntry{}
	for _, e := range list {
		if len(e.Cookie) == cookieLength {
			byCookie[e.Cookie] = e
		}
	}
	if len(byCookie) == 0 {
		return nil, nil
	}
	var swept []exec.SweptProcess
	f := family{
		onlyCookies: true,
		ours: func(cookie string, st procStat) bool {
			e, ok := byCookie[cookie]
			if !ok || st.start < e.Start || st.pid == e.PID && st.start != e.Start {
				return false
			}
			command := commandOf(st.pid)
			if command == "" {
				command = st.name
			}
			swept = append(swept, exec.SweptProcess{PID: st.pid, Command: command})
			return true
		},
	}
	hurry := make(chan struct{})
	timer := time.AfterFunc(sweepGrace, func() { close(hurry) })
	defer timer.Stop()
	if left, _ := f.end(hurry); len(left) > 0 {
		return swept, fmt.Errorf("%d processes of an earlier runtime could not be ended, such as %d (%s)", len(left), left[0].pid, left[0].name)
	}
	return swept, nil
}
