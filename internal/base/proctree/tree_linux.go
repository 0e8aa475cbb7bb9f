package proctree

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// limit sets the limits of a process that has just started. The microseconds before
// are not worth a helper program that sets the limits from inside. Reserved
// addresses do not count, because runtimes and Wine reserve very many.
func limit(pid int, l Limits) error {
	var errs []error
	set := func(what int, n int64) {
		if n > 0 {
			errs = append(errs, unix.Prlimit(pid, what, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}, nil))
		}
	}
	set(unix.RLIMIT_DATA, l.Memory)
	set(unix.RLIMIT_FSIZE, l.File)
	errs = append(errs, unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
	return errors.Join(errs...)
}

// killMarked kills the processes that have left the process group of the tree, as
// daemons do. It recognizes them by their environment. It waits until they have
// ended, up to a limit.
func killMarked(mark string) {
	for range 100 {
		if !killOnce([]byte("TMPDIR=" + mark + string(filepath.Separator))) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killOnce reports whether it killed a process.
func killOnce(want []byte) (any bool) {
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return false
	}
	for _, name := range list {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Processes of other users cannot be read, and do not belong to the tree.
		env, err := os.ReadFile(name)
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.HasPrefix(v, want) }) {
			any = syscall.Kill(pid, syscall.SIGKILL) == nil || any
		}
	}
	return any
}

func maxResident(state *os.ProcessState) (int64, bool) {
	ru, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, false
	}
	return ru.Maxrss << 10, true
}
