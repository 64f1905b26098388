package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"garcon/proto/row"
	"garcon/store/ledger"
	"garcon/store/runtimefile"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMain lets a test run this binary as another process that holds a lease.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLD_LEASE_OF"); dir != "" {
		if _, err := OpenRoot(dir, RoleController); err != nil {
			os.Exit(3)
		}
		_, _ = os.Stdout.WriteString("held\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestOneControllerToARoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "root")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), "HOLD_LEASE_OF="+dir)
	stdin, err := holder.StdinPipe()
	must(t, err)
	stdout, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	_, err = io.ReadFull(stdout, make([]byte, 5))
	must(t, err)

	_, err = OpenRoot(dir, RoleController)
	held, ok := errors.AsType[*LeaseHeldError](err)
	if !ok || held.PID != 0 {
		t.Fatalf("error %v", err)
	}
	must(t, runtimefile.Write(filepath.Join(dir, "runtime.json"), runtimefile.Descriptor{
		Schema: runtimefile.Schema, Role: "controller", InstanceID: "i", URL: "http://127.0.0.1:99", PID: holder.Process.Pid, StartedAt: 1, Capability: "c",
	}))
	// What the lock file holds means nothing.
	must(t, os.Truncate(filepath.Join(dir, "controller.lock"), 0))
	_, err = OpenRoot(dir, RoleController)
	held, ok = errors.AsType[*LeaseHeldError](err)
	if !ok || held.PID != holder.Process.Pid || held.URL != "http://127.0.0.1:99" || !strings.Contains(err.Error(), "http://127.0.0.1:99") {
		t.Fatalf("error %v", err)
	}
	// Another role is another lease.
	executor, err := OpenRoot(dir, RoleExecutor)
	must(t, err)
	if executor.Dir() != filepath.Join(dir, "executor") {
		t.Errorf("the executor's directory is %s", executor.Dir())
	}
	must(t, executor.Close())

	// The lease ends with the process, however that ends.
	must(t, holder.Process.Kill())
	_ = holder.Wait()
	_ = stdin.Close()
	r, err := OpenRoot(dir, RoleController)
	must(t, err)
	if _, err := runtimefile.Read(r.RuntimeFile()); !errors.Is(err, runtimefile.ErrMissing) {
		t.Errorf("the descriptor of the process that is gone: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the root's mode is %v, %v", info.Mode(), err)
	}
	must(t, r.Close())
	if _, err := os.Stat(filepath.Join(dir, "controller.lock")); err != nil {
		t.Errorf("the lock file was removed: %v", err)
	}
}

func TestRootsThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		make func(t *testing.T, dir string)
		says string
	}{
		"group writable": {func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); must(t, os.Chmod(dir, 0o770)) }, "others can write"},
		"world writable": {func(t *testing.T, dir string) { must(t, os.Mkdir(dir, 0o700)); must(t, os.Chmod(dir, 0o777)) }, "others can write"},
		"file":           {func(t *testing.T, dir string) { must(t, os.WriteFile(dir, nil, 0o600)) }, "directory"},
		"foreign": {func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can make somebody else's directory; run the tests as root to include it")
			}
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Chown(dir, 12345, 12345))
		}, "belongs to user 12345"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "root")
			tt.make(t, dir)
			if _, err := OpenRoot(dir, RoleController); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestUnremovableDescriptor puts something that is not a descriptor in its place.
func TestUnremovableDescriptor(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "runtime.json", "x"), 0o700))
	if _, err := OpenRoot(dir, RoleController); err == nil || !strings.Contains(err.Error(), "runtime.json") {
		t.Fatalf("error %v", err)
	}
	// The lease was given back.
	must(t, os.RemoveAll(filepath.Join(dir, "runtime.json")))
	r, err := OpenRoot(dir, RoleController)
	must(t, err)
	must(t, r.Close())
}

func openRoot(t *testing.T) *Root {
	t.Helper()
	r, err := OpenRoot(t.TempDir(), RoleController)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

func TestWorkspaceNames(t *testing.T) {
	r := openRoot(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc", "a\x00b", "-rf", strings.Repeat("x", 65)} {
		if w, err := r.OpenWorkspace(t.Context(), name, Options{}); err == nil {
			t.Errorf("opened %q", name)
			must(t, w.Close())
		}
	}
}

// TestWorkspaceInsideTheExecutor gets there by names that do not say so.
func TestWorkspaceInsideTheExecutor(t *testing.T) {
	tests := map[string]func(t *testing.T, root string){
		"the workspace is a link": func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "executor", "data"), 0o700))
			must(t, os.MkdirAll(filepath.Join(root, "workspaces"), 0o700))
			must(t, os.Symlink(filepath.Join(root, "executor", "data"), filepath.Join(root, "workspaces", "default")))
		},
		"all workspaces are a link": func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "executor"), 0o700))
			must(t, os.Symlink("executor", filepath.Join(root, "workspaces")))
		},
		"a part of the workspace is a link": func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "executor", "chats"), 0o700))
			must(t, os.MkdirAll(filepath.Join(root, "workspaces", "default"), 0o700))
			must(t, os.Symlink(filepath.Join(root, "executor", "chats"), filepath.Join(root, "workspaces", "default", "chats")))
		},
		"the executor is a link to the workspaces": func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "workspaces"), 0o700))
			must(t, os.Symlink("workspaces", filepath.Join(root, "executor")))
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			r := openRoot(t)
			arrange(t, r.Dir())
			if _, err := r.OpenWorkspace(t.Context(), "default", Options{}); err == nil || !strings.Contains(err.Error(), "executor") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestWorkspacesThatAreRefused(t *testing.T) {
	executor, err := OpenRoot(t.TempDir(), RoleExecutor)
	must(t, err)
	defer executor.Close()
	if _, err := executor.OpenWorkspace(t.Context(), "default", Options{}); err == nil {
		t.Error("an executor opened a workspace")
	}
	for _, part := range []string{"workspaces", "workspaces/default", "workspaces/default/chats", "workspaces/default/attachments"} {
		r := openRoot(t)
		must(t, os.MkdirAll(filepath.Join(r.Dir(), part), 0o700))
		must(t, os.Chmod(filepath.Join(r.Dir(), part), 0o777))
		if _, err := r.OpenWorkspace(t.Context(), "default", Options{}); err == nil || !strings.Contains(err.Error(), "others can write") {
			t.Errorf("others can write to %s: %v", part, err)
		}
	}
	r := openRoot(t)
	file := filepath.Join(r.Dir(), "elsewhere.db")
	must(t, os.MkdirAll(filepath.Join(r.Dir(), "workspaces", "default"), 0o700))
	must(t, os.Symlink(file, filepath.Join(r.Dir(), "workspaces", "default", "workspace.db")))
	if _, err := r.OpenWorkspace(t.Context(), "default", Options{}); err == nil {
		t.Error("the workspace file is a link")
	}
	if _, err := os.Lstat(file); err == nil {
		t.Error("a file was made where the link leads")
	}
}

func TestWorkspaceKeeps(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		r, err := OpenRoot(dir, RoleController)
		must(t, err)
		w, err := r.OpenWorkspace(t.Context(), "default", Options{Version: "1"})
		must(t, err)
		l, err := w.Ledgers().OpenOrCreate(t.Context(), "1", ledger.CreateMeta{View: "v"})
		must(t, err)
		c, err := l.Append(t.Context(), ledger.Batch{Rows: []row.Row{row.New("", "", &row.User{Text: "x"})}})
		if err != nil || c.First != int64(round) {
			t.Fatalf("round %d: %+v, %v", round, c, err)
		}
		l.Release()
		must(t, w.Registry().PutSetting(t.Context(), "round", json.RawMessage("1")))
		if len(w.Quarantined()) != 0 {
			t.Fatalf("set aside: %+v", w.Quarantined())
		}
		must(t, w.Close())
		must(t, r.Close())
	}
}

func TestAttachmentSweep(t *testing.T) {
	r := openRoot(t)
	w, err := r.OpenWorkspace(t.Context(), "default", Options{})
	must(t, err)
	defer func() { must(t, w.Close()) }()
	a := w.Attachments()
	put := func(content string) string {
		digest, _, err := a.Put(t.Context(), strings.NewReader(content), 100)
		must(t, err)
		return digest
	}
	age := func(digest string) {
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(filepath.Join(a.dir, digest), old, old))
	}
	wanted, fresh, old, again := put("wanted"), put("fresh"), put("old one"), put("again")
	for _, d := range []string{wanted, old, again} {
		age(d)
	}
	put("again") // a message will refer to it in a moment
	must(t, os.WriteFile(filepath.Join(a.dir, "README"), nil, 0o600))
	freed, err := a.Sweep(t.Context(), func(d string) bool { return d == wanted }, time.Minute)
	if err != nil || freed != int64(len("old one")) {
		t.Fatalf("freed %d, %v", freed, err)
	}
	for digest, want := range map[string]bool{wanted: true, fresh: true, old: false, again: true, "README": false} {
		if a.Has(digest) != want {
			t.Errorf("%s is there: %v", digest, !want)
		}
	}
	if _, err := os.Stat(filepath.Join(a.dir, "README")); err != nil {
		t.Error("a foreign file was swept")
	}
	for range 2 {
		must(t, a.Remove(wanted))
	}
	if a.Has(wanted) || !errors.Is(a.Remove("../x"), ErrDigest) {
		t.Error("remove")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Sweep(gone, func(string) bool { return false }, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAttachments(t *testing.T) {
	r := openRoot(t)
	w, err := r.OpenWorkspace(t.Context(), "default", Options{})
	must(t, err)
	a := w.Attachments()
	content := []byte("content")
	sum := sha256.Sum256(content)
	want := "sha256-" + hex.EncodeToString(sum[:])
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			digest, size, err := a.Put(context.Background(), bytes.NewReader(content), 7)
			if digest != want || size != 7 || err != nil {
				t.Errorf("put gave %s, %d, %v", digest, size, err)
			}
		})
	}
	wg.Wait()
	if _, _, err := a.Put(t.Context(), bytes.NewReader(content), 6); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	if _, _, err := a.Put(t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF), 7); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("broken upload: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := a.Put(gone, bytes.NewReader(content), 7); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled upload: %v", err)
	}
	f, size, err := a.Open(want)
	must(t, err)
	got, err := io.ReadAll(f)
	if must(t, f.Close()); err != nil || string(got) != "content" || size != 7 {
		t.Errorf("read %q of %d, %v", got, size, err)
	}
	for _, bad := range []string{"", "x", "../workspace.db", want + "/..", "sha256-" + strings.Repeat("G", 64), strings.ToUpper(want), "sha256-" + strings.Repeat("A", 64)} {
		if _, _, err := a.Open(bad); !errors.Is(err, ErrDigest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, _, err := a.Open("sha256-" + strings.Repeat("0", 64)); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	// Only the one file is there, and what a killed process left goes.
	left := filepath.Join(a.dir, incomingPrefix+"123")
	must(t, os.WriteFile(left, nil, 0o600))
	_, err = openAttachments(a.dir)
	must(t, err)
	entries, err := os.ReadDir(a.dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != want {
		t.Errorf("files %v, %v", entries, err)
	}
	must(t, w.Close())
}
