//go:build unix

package transcode

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// treeLimits bound a tree of processes; sizes in bytes, zero or less is none.
type treeLimits struct {
	memory, file int64
	mark         string // is in the environment of every process of the tree
}

// tree is a process with all its descendants.
type tree struct {
	limits treeLimits
	cmd    *exec.Cmd
}

func newTree(cmd *exec.Cmd, l treeLimits) (*tree, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	return &tree{limits: l, cmd: cmd}, nil
}

func (t *tree) start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := limit(cmd.Process.Pid, t.limits); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = t.kill()
		_ = cmd.Wait()
		return err
	}
	return nil
}

// kill kills all processes of the tree, which has been started.
func (t *tree) kill() error {
	err := syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
		err = os.ErrProcessDone // EPERM: on some systems, when only zombies are left
	}
	killMarked(t.limits.mark)
	return err
}

func (t *tree) close() {}

// why returns the class of the limit that a failed process exceeded. The memory
// limit counts if the process used more than half of it, because its next
// allocation may have been large, or if the system killed it, which happens for
// memory only. ClassExit means no limit.
func (t *tree) why(state *os.ProcessState) Class {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		switch ws.Signal() {
		case syscall.SIGKILL:
			return ClassMemory
		case syscall.SIGXFSZ:
			return ClassTooLarge
		}
	}
	if used, ok := maxResident(state); ok && t.limits.memory > 0 && used > t.limits.memory/2 {
		return ClassMemory
	}
	return ClassExit
}
