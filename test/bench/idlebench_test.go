//go:build linux

package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestBenchIdle measures the program of a release: its size, and the resident memory of a server
// that nobody asks.
func TestBenchIdle(t *testing.T) {
	commandtest.NeedBench(t)
	dir := asReleased(t)
	info, err := os.Stat(filepath.Join(dir, "symdepot"))
	if err != nil {
		t.Fatal(err)
	}
	s := commandtest.ServeDepotOf(t, dir, filepath.Join(t.TempDir(), "depot"), "--quiet")
	start, _ := commandtest.Resident(t, s.Cmd.Process.Pid)
	symtest.Await(t, time.Minute, "the server has given back the memory of its start", func() bool {
		_, now := commandtest.Resident(t, s.Cmd.Process.Pid)
		return now < start*3/4
	})
	_, now := commandtest.Resident(t, s.Cmd.Process.Pid)
	t.Logf("program %.1f MiB (want at most 34); idle server %.1f MiB resident (want at most 30), %.1f MiB while it starts",
		float64(info.Size())/(1<<20), now, start)
}
