package runtimefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
)

// The roles that write descriptors.
const (
	RoleController = "controller"
	RoleExecutor   = "executor"
)

// Name is what a descriptor's file is called.
const Name = "runtime.json"

// maxSize bounds a descriptor, in bytes: several times what one takes.
const maxSize = 16 << 10

// Descriptor says how to reach a running garcon.
type Descriptor struct {
	Schema     int    `json:"schema"`
	Role       string `json:"role"`
	InstanceID string `json:"instanceId"`
	// URL is http or https with a numeric loopback host and a port.
	URL string `json:"url"`
	PID int    `json:"pid"`
	// StartedAt is in Unix milliseconds.
	StartedAt int64 `json:"startedAt"`
	// Capability is fresh for every process; see [Bearer] and [Proof].
	Capability string `json:"capability"`
}

// Write puts the descriptor at path, atomically and readable by its owner only.
// What was there before is removed first: whoever finds it would talk to a
// process that is gone.
func Write(path string, d Descriptor) (err error) {
	if reason := d.check(); reason != nil {
		return fmt.Errorf("write runtime file %s: %s", path, reason.Reason)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the runtime file of an earlier process: %w", err)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	temp := path + "." + d.InstanceID + ".tmp"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write runtime file: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write runtime file %s: %w", path, err), os.Remove(temp))
	}
	return nil
}

// Read reads and checks the descriptor at path. It fails with [ErrMissing] when
// there is no file and with an [*InvalidError] when there is one that must not
// be trusted.
func Read(path string) (Descriptor, error) {
	f, err := openOwn(path)
	if err != nil {
		return Descriptor{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Descriptor{}, fmt.Errorf("read runtime file: %w", err)
	}
	refuse := func(p Problem, format string, args ...any) (Descriptor, error) {
		return Descriptor{}, &InvalidError{Path: path, Problem: p, Reason: fmt.Sprintf(format, args...)}
	}
	if len(data) > maxSize {
		return refuse(ProblemMalformed, "it is larger than %d bytes", maxSize)
	}
	var head struct {
		Schema *int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Schema == nil {
		return refuse(ProblemMalformed, "it is not a descriptor")
	}
	if *head.Schema != Schema {
		return refuse(ProblemSchema, "it has schema %d and this garcon reads schema %d: use the version that runs there", *head.Schema, Schema)
	}
	var d Descriptor
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return refuse(ProblemMalformed, "it is not a descriptor: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse(ProblemMalformed, "something follows the descriptor")
	}
	if invalid := d.check(); invalid != nil {
		invalid.Path = path
		return Descriptor{}, invalid
	}
	return d, nil
}

// check says what is wrong with the members of a descriptor.
func (d Descriptor) check() *InvalidError {
	malformed := func(reason string) *InvalidError {
		return &InvalidError{Problem: ProblemMalformed, Reason: reason}
	}
	switch {
	case d.Schema != Schema:
		return malformed("it has no schema")
	case d.Role != RoleController && d.Role != RoleExecutor:
		return malformed("it names no role")
	case d.InstanceID == "" || d.Capability == "":
		return malformed("it lacks the instance or the capability")
	case d.PID <= 0 || d.StartedAt <= 0:
		return malformed("it lacks the process or its start")
	case !loopbackURL(d.URL):
		return &InvalidError{Problem: ProblemURL, Reason: "its address is not on numeric loopback"}
	}
	return nil
}

// loopbackURL reports whether s is an address of this machine that no name
// service has a say in, and nothing more than an address.
func loopbackURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	addr, err := netip.ParseAddrPort(u.Host)
	return err == nil && addr.Addr().IsLoopback() && addr.Addr().Zone() == "" && addr.Port() != 0 && u.String() == u.Scheme+"://"+u.Host
}

// RemoveOwn removes the descriptor at path if it is that of the instance. Any
// other is left alone: it belongs to a later process.
func RemoveOwn(path, instanceID string) error {
	d, err := Read(path)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	if d.InstanceID != instanceID {
		return nil
	}
	return os.Remove(path)
}

// Path returns where the role's descriptor is under the config root.
func Path(root, role string) string {
	if role == RoleExecutor {
		return filepath.Join(root, "executor", Name)
	}
	return filepath.Join(root, Name)
}
