package runtimefile

import "errors"

// Mode says which role a command line wants to talk to.
type Mode string

// The modes of discovery.
const (
	Auto       Mode = "auto"
	Controller Mode = "controller"
	Executor   Mode = "executor"
)

// Path returns where the role's descriptor is under the config root.
func Path(root, role string) string { return "" }

// Discover returns the descriptor a command line should use. In [Auto] mode it
// is the newer of the two, the controller's on a tie, with a warning when both
// exist; [ErrMissing] when neither does.
func Discover(root string, mode Mode) (d Descriptor, warnings []string, err error) {
	return Descriptor{}, nil, errors.ErrUnsupported
}
