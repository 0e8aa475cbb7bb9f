package bench

import (
	"os/exec"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// needBench skips a benchmark outside make bench, and fails it without a program that
// it measures beside. Those are not in tools.txt, because make test runs none of them:
// make bench installs wrk, the others come with Debian.
func needBench(t *testing.T, tools ...string) {
	t.Helper()
	commandtest.NeedBench(t)
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v; make bench installs what its benchmarks need where it can", err)
		}
	}
}
