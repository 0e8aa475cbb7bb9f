//go:build !race

package symtest

// Race reports whether the test runs under the race detector, which needs more
// memory and time.
const Race = false
