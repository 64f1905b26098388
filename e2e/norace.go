//go:build !race

package e2e

// buildFlags build the binary as this test was built.
var buildFlags []string
