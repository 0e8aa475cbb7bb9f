package symtest

import "testing"

// Step runs a subtest on which the rest of the test depends: if it fails, the test
// ends.
func Step(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, f) {
		t.FailNow()
	}
}
