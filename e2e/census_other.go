//go:build !linux

package e2e

import "os"

// census knows no process on systems without /proc.
func census(string, []string) ([]Process, error) { return nil, nil }

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
