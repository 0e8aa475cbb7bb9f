//go:build !windows

package symtest

// Wine returns an empty string: this is not Windows.
func Wine() string { return "" }
