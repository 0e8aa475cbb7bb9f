//go:build !windows

package symtest

// Wine returns the version of Wine that runs this process; empty outside of it.
func Wine() string { return "" }
