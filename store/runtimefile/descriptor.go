package runtimefile

import "errors"

// The roles that write descriptors.
const (
	RoleController = "controller"
	RoleExecutor   = "executor"
)

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
func Write(path string, d Descriptor) error { return errors.ErrUnsupported }

// Read reads and checks the descriptor at path.
func Read(path string) (Descriptor, error) { return Descriptor{}, errors.ErrUnsupported }

// RemoveOwn removes the descriptor at path if it is that of the instance.
func RemoveOwn(path, instanceID string) error { return errors.ErrUnsupported }
