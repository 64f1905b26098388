package claude

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// flushWait is how long a session file may lag behind what the CLI has
	// said: older ones write it a tenth of a second later.
	flushWait = 2 * time.Second
	// flushPoll is how often the file is looked at meanwhile.
	flushPoll = 10 * time.Millisecond
	// tailSize is how much of the end of a file is looked at, in bytes: what
	// newer CLIs write behind an entry is shorter.
	tailSize = 1 << 20
	// maxTails bounds the sessions that are remembered.
	maxTails = 1024
)

// tails knows the last entry that was seen of each session that runs here, so
// that reading a session does not miss what was said a moment ago.
type tails struct {
	mu   sync.Mutex
	last map[string]string
}

// note remembers the last entry of a session.
func (t *tails) note(session, entry string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || len(t.last) >= maxTails {
		t.last = map[string]string{}
	}
	t.last[session] = entry
}

func (t *tails) get(session string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[session]
}

// forget drops an entry that was found, unless there is a later one.
func (t *tails) forget(session, entry string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[session] == entry {
		delete(t.last, session)
	}
}

// flushed waits until the file of a session has what was seen of it. It gives up
// quietly: a CLI that died will not write any more.
func (a *adapter) flushed(ctx context.Context, project, session string) {
	entry := a.tails.get(session)
	if entry == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushWait)
	defer cancel()
	tick := time.NewTicker(flushPoll)
	defer tick.Stop()
	for {
		if path, err := a.transcripts().find(project, session); err == nil && endsWith(path, entry) {
			break
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	a.tails.forget(session, entry)
}

// endsWith reports whether an entry stands near the end of a file.
func endsWith(path, entry string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tailSize), tailSize))
	return err == nil && bytes.Contains(data, []byte(`"`+entry+`"`))
}
