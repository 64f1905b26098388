package runtimefile

import (
	"errors"
	"fmt"
)

// Mode says which role a command line wants to talk to.
type Mode string

// The modes of discovery.
const (
	Auto       Mode = "auto"
	Controller Mode = "controller"
	Executor   Mode = "executor"
)

// Discover returns the descriptor a command line should use. In [Auto] mode it
// is the newer of the two, the controller's on a tie, with a warning when both
// exist; [ErrMissing] when neither does. A descriptor that is refused is an
// error in any case: it never makes way for the other role's.
func Discover(root string, mode Mode) (d Descriptor, warnings []string, err error) {
	switch mode {
	case Controller, Executor:
		d, err := readRole(root, string(mode))
		return d, nil, err
	case Auto:
	default:
		return Descriptor{}, nil, fmt.Errorf("unknown runtime %q", mode)
	}
	controller, err := readRole(root, RoleController)
	noController := errors.Is(err, ErrMissing)
	if err != nil && !noController {
		return Descriptor{}, nil, err
	}
	executor, err := readRole(root, RoleExecutor)
	noExecutor := errors.Is(err, ErrMissing)
	if err != nil && !noExecutor {
		return Descriptor{}, nil, err
	}
	switch {
	case noController && noExecutor:
		return Descriptor{}, nil, ErrMissing
	case noExecutor:
		return controller, nil, nil
	case noController:
		return executor, nil, nil
	}
	chosen := controller
	if executor.StartedAt > controller.StartedAt {
		chosen = executor
	}
	return chosen, []string{fmt.Sprintf(
		"a controller and an executor both run with %s; using the %s. Choose with --runtime.", root, chosen.Role)}, nil
}

// readRole reads a role's descriptor and checks that it is that role's.
func readRole(root, role string) (Descriptor, error) {
	path := Path(root, role)
	d, err := Read(path)
	if err == nil && d.Role != role {
		return Descriptor{}, &InvalidError{Path: path, Problem: ProblemMalformed, Reason: "it is that of a " + d.Role + ", in the place of a " + role + "'s"}
	}
	return d, err
}
