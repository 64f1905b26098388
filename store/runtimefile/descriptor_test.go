//go:build unix

package runtimefile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func valid() Descriptor {
	return Descriptor{Schema: Schema, Role: RoleController, InstanceID: "i", URL: "http://127.0.0.1:8080", PID: 7, StartedAt: 1796055588644, Capability: "c"}
}

func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runtime.json")
	if _, err := Read(path); !errors.Is(err, ErrMissing) {
		t.Errorf("nothing there: %v", err)
	}
	for _, instance := range []string{"first", "second"} {
		want := valid()
		want.InstanceID = instance
		if err := Write(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := RemoveOwn(path, "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err != nil {
		t.Errorf("another instance's descriptor was removed: %v", err)
	}
	if err := RemoveOwn(path, "second"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if err := RemoveOwn(path, "second"); err != nil {
		t.Errorf("a missing file is no failure: %v", err)
	}
}

func TestWriteReplacesWhateverWasThere(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "runtime.json"), filepath.Join(dir, "precious")
	if err := os.WriteFile(other, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, valid()); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "precious" {
		t.Errorf("the link's target holds %q, %v", data, err)
	}
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
}

func TestWriteRefusesWhatReadWould(t *testing.T) {
	d := valid()
	d.URL = "http://example.com:80"
	path := filepath.Join(t.TempDir(), "runtime.json")
	if err := Write(path, d); err == nil {
		t.Error("written")
	}
}

// content returns a descriptor's JSON with one member changed.
func content(t *testing.T, member string, value any) string {
	t.Helper()
	data, err := json.Marshal(valid())
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if value == nil {
		delete(m, member)
	} else {
		m[member] = value
	}
	data, err = json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRefusals(t *testing.T) {
	good := content(t, "pid", 7)
	file := func(text string, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		make    func(*testing.T, string)
		problem Problem
	}{
		"empty":            {file("", 0o600), ProblemMalformed},
		"not JSON":         {file("pid=7", 0o600), ProblemMalformed},
		"array":            {file("[]", 0o600), ProblemMalformed},
		"torn":             {file(good[:40], 0o600), ProblemMalformed},
		"two documents":    {file(good+good, 0o600), ProblemMalformed},
		"unknown member":   {file(content(t, "secret", "x"), 0o600), ProblemMalformed},
		"wrong type":       {file(content(t, "pid", "7"), 0o600), ProblemMalformed},
		"no schema":        {file(content(t, "schema", nil), 0o600), ProblemMalformed},
		"newer schema":     {file(content(t, "schema", 2), 0o600), ProblemSchema},
		"no role":          {file(content(t, "role", nil), 0o600), ProblemMalformed},
		"unknown role":     {file(content(t, "role", "root"), 0o600), ProblemMalformed},
		"no instance":      {file(content(t, "instanceId", ""), 0o600), ProblemMalformed},
		"no capability":    {file(content(t, "capability", ""), 0o600), ProblemMalformed},
		"no pid":           {file(content(t, "pid", 0), 0o600), ProblemMalformed},
		"no start":         {file(content(t, "startedAt", 0), 0o600), ProblemMalformed},
		"huge":             {file(good+strings.Repeat(" ", maxSize), 0o600), ProblemMalformed},
		"group readable":   {file(good, 0o640), ProblemPermissions},
		"world readable":   {file(good, 0o604), ProblemPermissions},
		"group writable":   {file(good, 0o620), ProblemPermissions},
		"public host":      {file(content(t, "url", "http://192.0.2.1:80"), 0o600), ProblemURL},
		"host name":        {file(content(t, "url", "http://localhost:80"), 0o600), ProblemURL},
		"wildcard":         {file(content(t, "url", "http://0.0.0.0:80"), 0o600), ProblemURL},
		"no port":          {file(content(t, "url", "http://127.0.0.1"), 0o600), ProblemURL},
		"port 0":           {file(content(t, "url", "http://127.0.0.1:0"), 0o600), ProblemURL},
		"other scheme":     {file(content(t, "url", "ws://127.0.0.1:80"), 0o600), ProblemURL},
		"user":             {file(content(t, "url", "http://u@127.0.0.1:80"), 0o600), ProblemURL},
		"path":             {file(content(t, "url", "http://127.0.0.1:80/x"), 0o600), ProblemURL},
		"fragment":         {file(content(t, "url", "http://127.0.0.1:80#x"), 0o600), ProblemURL},
		"zone":             {file(content(t, "url", "http://[::1%25lo]:80"), 0o600), ProblemURL},
		"directory":        {func(t *testing.T, p string) { mustDo(t, os.Mkdir(p, 0o700)) }, ProblemNotRegular},
		"pipe":             {func(t *testing.T, p string) { mustDo(t, syscall.Mkfifo(p, 0o600)) }, ProblemNotRegular},
		"link to itself":   {func(t *testing.T, p string) { mustDo(t, os.Symlink(p, p)) }, ProblemSymlink},
		"link to nothing":  {func(t *testing.T, p string) { mustDo(t, os.Symlink(p+".none", p)) }, ProblemSymlink},
		"link to a good":   {linked(os.Symlink, good), ProblemSymlink},
		"hard link":        {linked(os.Link, good), ProblemHardLink},
		"somebody else's":  {foreign(good), ProblemOwner},
		"executor's place": {file(content(t, "role", "executor"), 0o600), ProblemMalformed},
	}
	seen := map[string]string{}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			path := Path(root, RoleController)
			tt.make(t, path)
			for _, mode := range []Mode{Auto, Controller} {
				_, _, err := Discover(root, mode)
				invalid, ok := errors.AsType[*InvalidError](err)
				if !ok || invalid.Problem != tt.problem {
					t.Fatalf("%s: %v, want the problem %s", mode, err, tt.problem)
				}
				if invalid.Path != path || !strings.Contains(err.Error(), path) {
					t.Errorf("the error does not name the file: %v", err)
				}
				if other, ok := seen[invalid.Reason]; ok && tests[other].problem != tt.problem {
					t.Errorf("the same sentence for %s and %s: %s", name, other, invalid.Reason)
				}
				seen[invalid.Reason] = name
			}
		})
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func linked(link func(string, string) error, text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		target := path + ".target"
		mustDo(t, os.WriteFile(target, []byte(text), 0o600))
		mustDo(t, link(target, path))
	}
}

func foreign(text string) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if os.Geteuid() != 0 {
			t.Skip("only root can make somebody else's file; run the tests as root to include it")
		}
		mustDo(t, os.WriteFile(path, []byte(text), 0o600))
		mustDo(t, os.Chown(path, 12345, 12345))
	}
}

func TestDiscover(t *testing.T) {
	write := func(t *testing.T, root, role string, started int64) {
		d := valid()
		d.Role, d.StartedAt = role, started
		path := Path(root, role)
		mustDo(t, os.MkdirAll(filepath.Dir(path), 0o700))
		mustDo(t, Write(path, d))
	}
	tests := []struct {
		name                 string
		controller, executor int64 // start times, 0 for none
		mode                 Mode
		want                 string // role, "" for none
		warns                bool
	}{
		{"nothing", 0, 0, Auto, "", false},
		{"controller", 5, 0, Auto, RoleController, false},
		{"executor", 0, 5, Auto, RoleExecutor, false},
		{"newer controller", 6, 5, Auto, RoleController, true},
		{"newer executor", 5, 6, Auto, RoleExecutor, true},
		{"tie", 5, 5, Auto, RoleController, true},
		{"asked for the older", 5, 6, Controller, RoleController, false},
		{"asked for the executor", 6, 5, Executor, RoleExecutor, false},
		{"asked for what is not there", 5, 0, Executor, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if tt.controller > 0 {
				write(t, root, RoleController, tt.controller)
			}
			if tt.executor > 0 {
				write(t, root, RoleExecutor, tt.executor)
			}
			d, warnings, err := Discover(root, tt.mode)
			if tt.want == "" {
				if !errors.Is(err, ErrMissing) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || d.Role != tt.want || len(warnings) > 0 != tt.warns {
				t.Errorf("got %s, warnings %q, %v", d.Role, warnings, err)
			}
		})
	}
}

// TestARefusedDescriptorNeverMakesWay breaks one role's descriptor while the
// other's is fine.
func TestARefusedDescriptorNeverMakesWay(t *testing.T) {
	for _, broken := range []string{RoleController, RoleExecutor} {
		root := t.TempDir()
		for _, role := range []string{RoleController, RoleExecutor} {
			d := valid()
			d.Role = role
			mustDo(t, os.MkdirAll(filepath.Dir(Path(root, role)), 0o700))
			mustDo(t, Write(Path(root, role), d))
		}
		mustDo(t, os.WriteFile(Path(root, broken), []byte("{"), 0o600))
		if d, _, err := Discover(root, Auto); err == nil {
			t.Errorf("with a broken %s the %s was taken", broken, d.Role)
		}
	}
}

func TestProofs(t *testing.T) {
	c := NewCapability()
	if c == NewCapability() || len(c) < 40 {
		t.Errorf("capability %q", c)
	}
	challenge := []byte("challenge")
	proof := Proof(c, "controller", "i", "u", challenge)
	if !Verify(c, "controller", "i", "u", challenge, proof) {
		t.Error("the proof does not verify")
	}
	for name, ok := range map[string]bool{
		"capability": Verify(c+"x", "controller", "i", "u", challenge, proof),
		"role":       Verify(c, "executor", "i", "u", challenge, proof),
		"instance":   Verify(c, "controller", "j", "u", challenge, proof),
		"url":        Verify(c, "controller", "i", "v", challenge, proof),
		"challenge":  Verify(c, "controller", "i", "u", []byte("other"), proof),
		"boundary":   Verify(c, "controller", "iu", "", challenge, proof),
		"empty":      Verify(c, "controller", "i", "u", challenge, ""),
	} {
		if ok {
			t.Errorf("verifies with another %s", name)
		}
	}
	bearer := Bearer(c)
	if !VerifyBearer(c, bearer) || VerifyBearer(c, c) || VerifyBearer(c, "") || VerifyBearer(c, proof) || strings.Contains(proof, bearer) {
		t.Error("bearer and proof are not two different secrets")
	}
}

func FuzzRead(f *testing.F) {
	data, err := json.Marshal(valid())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":1}`))
	path := filepath.Join(f.TempDir(), "runtime.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := Read(path); err == nil && d.check() != nil {
			t.Errorf("read %+v", d)
		}
	})
}
