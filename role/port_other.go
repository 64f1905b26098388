//go:build !linux

package role

import (
	"errors"
	"syscall"
)

func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// holderOf cannot name the holder of a port on this system.
func holderOf(int) string { return "" }
