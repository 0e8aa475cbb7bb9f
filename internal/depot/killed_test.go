package depot

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// children are what the test binary does, until it is killed, if a variable of the
// environment with the name is set: its value names the depot.
var children = map[string]func(depot string) error{stageChild: pushForever, retainChild: retainForever, coldChild: coolForever}

// child is a process of children that is to be killed.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	steps int           // that it does before
	late  time.Duration // how long after the last of them
}

// startChild starts a child of a name on a depot.
func startChild(t *testing.T, name, depot string, steps int, late time.Duration) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	return &child{cmd: cmd, lines: symtest.Lines(t, cmd, name+"="+depot), steps: steps, late: late}
}

// killed kills the child after its steps, and waits for its end. isStep is called with
// each line that it prints. A child that ends by itself has failed.
func (c *child) killed(t *testing.T, isStep func(line string) bool) {
	t.Helper()
	for c.lines.Scan() {
		if !isStep(c.lines.Text()) {
			continue
		}
		if c.steps--; c.steps == 0 {
			time.AfterFunc(c.late, func() { _ = c.cmd.Process.Kill() })
		}
	}
	if err := c.cmd.Wait(); c.steps > 0 {
		t.Errorf("a process ended by itself, %d steps before it was to be killed: %v", c.steps, err)
	}
}
