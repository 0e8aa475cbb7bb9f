//go:build unix

package proctree

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// Tree is a process with all its descendants.
type Tree struct {
	limits Limits
	cmd    *exec.Cmd
}

// New prepares a process that has not started for its limits. Close must be called.
func New(cmd *exec.Cmd, l Limits) (*Tree, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	return &Tree{limits: l, cmd: cmd}, nil
}

// Start starts the process that New has prepared. On systems that can do it, the process is killed
// when the thread that calls Start ends: the caller locks it.
func (t *Tree) Start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := limit(cmd.Process.Pid, t.limits); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = t.Kill()
		_ = cmd.Wait()
		return err
	}
	return nil
}

// Kill kills all processes of the tree, which has been started.
func (t *Tree) Kill() error {
	err := syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
		err = os.ErrProcessDone // EPERM: on some systems, when only zombies are left
	}
	if t.limits.Mark != "" {
		killMarked(t.limits.Mark)
	}
	return err
}

// Close frees what the system keeps for the limits, and ends what is left of the tree where that has
// an owner.
func (t *Tree) Close() {}

// Why returns the limit that a failed process exceeded. The limit of memory counts
// if the process used more than half of it, because its next
// allocation may have been large, or if the system killed it, which happens for
// memory only.
func (t *Tree) Why(state *os.ProcessState) Limit {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		switch ws.Signal() {
		case syscall.SIGKILL:
			return MemoryLimit
		case syscall.SIGXFSZ:
			return FileLimit
		}
	}
	if used, ok := maxResident(state); ok && t.limits.Memory > 0 && used > t.limits.Memory/2 {
		return MemoryLimit
	}
	return NoLimit
}
