package symtest

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// Lines starts cmd with additional variables of the environment ("NAME=value") and
// returns the lines that it prints. Its standard error is that of the test. The
// caller reads all lines and then calls cmd.Wait.
func Lines(tb testing.TB, cmd *exec.Cmd, env ...string) *bufio.Scanner {
	tb.Helper()
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	return bufio.NewScanner(out)
}
