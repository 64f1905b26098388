package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"garcon/proto/api"
)

// mountSmall puts the world's workspaces on a file system of their own of 8 MiB
// and returns its directory. What agents keep is elsewhere: it is the
// transcript that is to run out of space.
func (w *World) mountSmall() string {
	w.t.Helper()
	dir := filepath.Join(w.Root, "workspaces")
	for _, d := range []string{w.Root, dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=0700")
	if errors.Is(err, syscall.EPERM) && os.Getenv("CI") == "" {
		// The store's own tests fail writes by injection everywhere.
		w.t.Skip("mounting a small file system is not allowed here; run the tests as root to include it")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		for _, r := range w.roles {
			r.Kill()
		}
		w.WaitNothingLeft()
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			w.t.Error(err)
		}
	})
	return dir
}

// fill writes a file into dir that leaves about free bytes on its disk.
func (w *World) fill(dir string, free int64) (empty func()) {
	w.t.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		w.t.Fatal(err)
	}
	name := filepath.Join(dir, "filler")
	size := int64(fs.Bavail)*fs.Bsize - free
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The disk gets full during a turn: the turn fails with an error that says so,
// everything stays readable, and once there is space the chat goes on without a
// restart.
func TestDiskFullDuringATurn(t *testing.T) {
	w := New(t)
	disk := w.mountSmall()
	c := w.Controller()
	var first struct{ ChatID string }
	if err := json.Unmarshal([]byte(w.Must("chats", "start", "--agent", "demo", "--json", "say before")), &first); err != nil {
		t.Fatal(err)
	}
	empty := w.fill(disk, 256<<10)
	r := w.Garcon("chats", "resume", "--json", first.ChatID, "burst 200000")
	var doc struct{ Receipt api.Receipt }
	if err := json.Unmarshal([]byte(r.Stdout), &doc); err != nil {
		t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	if r.Code != 1 || doc.Receipt.Outcome != api.TurnFailed || doc.Receipt.Error == nil || doc.Receipt.Error.Code != api.CodeStorageFull {
		t.Errorf("the turn ended with %d %s\n%s", r.Code, r.Stdout, r.Stderr)
	}
	if !strings.Contains(r.Stderr, "disk is full") {
		t.Errorf("standard error does not say why: %s", r.Stderr)
	}
	if read := w.Must("chats", "read", "--all", first.ChatID); !strings.Contains(read, "burst 200000") {
		t.Errorf("the transcript lacks the message:\n%s", read)
	}
	if list := w.Must("chats", "list"); !strings.Contains(list, first.ChatID+"\tidle") {
		t.Errorf("the chat is not idle: %s", list)
	}
	// What cannot be stored is refused, not accepted and lost.
	for _, args := range [][]string{
		{"chats", "start", "--agent", "demo", "--json", "-"},
		{"chats", "resume", "--json", first.ChatID, "-"},
	} {
		r, err := w.Run(Command{Args: args, Stdin: "say " + strings.Repeat("no ", 300_000)})
		if err != nil || r.Code != 3 && r.Code != 1 || !strings.Contains(r.Stdout, string(api.CodeStorageFull)) {
			t.Errorf("garcon %q: %v %d\n%s%s", args, err, r.Code, r.Stdout, r.Stderr)
		}
	}
	empty()
	if out := w.Must("chats", "resume", first.ChatID, "say after"); !strings.HasSuffix(out, "after\n") {
		t.Errorf("after the disk had space: %s", out)
	}
	w.Must("chats", "start", "--agent", "demo", "say new")
	w.Must("doctor")
	if code := c.Stop(); code != 0 {
		t.Errorf("the controller ended with %d\n%s", code, c.Logs())
	}
	// All of it is there for the next one.
	w.Controller()
	if read := w.Must("chats", "read", "--all", first.ChatID); !strings.Contains(read, "say after") || !strings.Contains(read, "say before") {
		t.Error("the transcript is not whole after a restart")
	}
}
