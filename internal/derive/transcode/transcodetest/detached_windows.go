package transcodetest

import "os/exec"

// detached starts a process.
func detached(cmd *exec.Cmd) error { return cmd.Start() }
