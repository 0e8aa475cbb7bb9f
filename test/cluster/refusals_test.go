package cluster

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestNodesClockRefused starts servers on machines whose clocks are wrong by more
// than five minutes.
func TestNodesClockRefused(t *testing.T) {
	t.Parallel()
	if !clockTurns() {
		t.Skip("needs Linux on amd64, where a test can change the clock of one process")
	}
	c := commandtest.NewCluster(t, 1)
	for _, by := range []string{"6m", "-6m"} {
		cmd := c.Command(t.Context(), "serve", "--listen", "127.0.0.1:0", "--quiet")
		cmd.Env = append(cmd.Env, "SYMDEPOT_TEST_CLOCK="+by)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(out), "differs from the server's by 6m0s: synchronize both clocks") {
			t.Errorf("the clock is ahead by %s: exit %d, want 3 and what to do\n%s", by, code, out)
		}
	}
}
