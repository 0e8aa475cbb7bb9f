package durable

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// errNotDir is the error for a file where a directory is expected.
const errNotDir = syscall.ENOTDIR

// syncsDirs says that this system does not flush directories.
const syncsDirs = false

func syncDirFile(*os.File) error { return nil }

// RetryRename calls rename and retries it for two seconds while another process
// holds the target open. Virus scanners, indexers and readers without
// FILE_SHARE_DELETE usually close a file soon.
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

// IsNoSpace reports whether an error means a full disk or an exhausted quota.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, windows.ERROR_DISK_FULL) ||
		errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// stillActive is the exit code of a running process (STILL_ACTIVE).
const stillActive = 259

// Alive reports whether a process exists, including one that this process may
// not query.
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
