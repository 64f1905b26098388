package runtime

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"garcon/proto/exec"
	"garcon/provider"
)

func TestMain(m *testing.M) {
	if provider.IsGuard(os.Args) {
		os.Exit(provider.RunGuard(context.Background(), os.Stdin))
	}
	os.Exit(m.Run())
}

func TestNew(t *testing.T) {
	dir := t.TempDir()
	base := t.TempDir()
	var host provider.Host
	rt, err := New(t.Context(), Options{
		Version: "1", StateDir: dir, ProjectBase: base,
		Adapters: func(h provider.Host) ([]provider.Adapter, error) {
			var err error
			host, err = h.For("fake")
			return []provider.Adapter{&fakeAdapter{}}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := rt.Info(t.Context())
	if err != nil || info.ExecutorID != exec.LocalID || info.Version != "1" || info.InstanceID == "" || len(info.Integrations) != 1 {
		t.Errorf("info %+v, %v", info, err)
	}
	if st, err := os.Stat(host.StateDir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("state of the adapter: %v, %v", st, err)
	}
	p, err := host.Processes.Start(t.Context(), provider.Command{Name: "sleep", Path: "sleep", Args: []string{"1000"}, Dir: base})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Options{StateDir: dir, ProjectBase: base}); err == nil {
		t.Error("two runtimes share a state directory")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := rt.Close(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("Close left a process")
	}
	// Everything is free for the next one.
	next, err := New(t.Context(), Options{StateDir: dir, ProjectBase: base})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestNewFailures(t *testing.T) {
	broken := errors.New("broken")
	for name, adapters := range map[string]func(provider.Host) ([]provider.Adapter, error){
		"error": func(provider.Host) ([]provider.Adapter, error) { return nil, broken },
		"twice": func(provider.Host) ([]provider.Adapter, error) {
			return []provider.Adapter{&fakeAdapter{}, &fakeAdapter{}}, nil
		},
	} {
		dir := t.TempDir()
		if _, err := New(t.Context(), Options{StateDir: dir, ProjectBase: dir, Adapters: adapters}); err == nil {
			t.Errorf("%s: no error", name)
		}
		rt, err := New(t.Context(), Options{StateDir: dir, ProjectBase: dir})
		if err != nil {
			t.Errorf("%s: the failed start left something behind: %v", name, err)
			continue
		}
		rt.Close(t.Context())
	}
	if _, err := New(t.Context(), Options{StateDir: t.TempDir(), ProjectBase: "/no/such/base"}); err == nil {
		t.Error("a missing project base was accepted")
	}
}
