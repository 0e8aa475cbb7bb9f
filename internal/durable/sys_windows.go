package durable

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// errNotDir is the error for a file where a directory is wanted.
const errNotDir = syscall.ENOTDIR

// syncsDirs says that directories are not flushed here.
const syncsDirs = false

func syncDirFile(*os.File) error { return nil }

// RetryRename calls rename, again and again for two seconds while the target is
// held open: virus scanners, indexers and readers without the share mode for
// deletion let go of it soon.
func RetryRename(rename func() error) error {
	deadline := time.Now().Add(2 * time.Second)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := rename()
		busy := errors.Is(err, windows.ERROR_ACCESS_DENIED) ||
			errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
			errors.Is(err, windows.ERROR_LOCK_VIOLATION)
		if !busy || time.Now().After(deadline) {
			return err
		}
		time.Sleep(wait)
	}
}

// IsNoSpace says whether an error means a full disk or a used-up quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, windows.ERROR_DISK_FULL) ||
		errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// stillActive is the exit code of a process that has none yet (STILL_ACTIVE).
const stillActive = 259

// Alive says whether a process exists. One that may not be asked does.
func Alive(pid int) bool {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return !errors.Is(err, windows.ERROR_INVALID_PARAMETER)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var code uint32
	err = windows.GetExitCodeProcess(h, &code)
	return err != nil || code == stillActive
}
