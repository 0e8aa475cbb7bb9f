package durable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// errNotDir is the error for a file where a directory is expected.
const errNotDir = syscall.ENOTDIR

// syncsDirs: this system cannot flush directories.
const syncsDirs = false

func syncDirFile(*os.File) error { return nil }

// RetryRename calls rename and retries it for two seconds while another process
// holds the target open. Virus scanners, indexers and readers without
// FILE_SHARE_DELETE usually close a file soon.
func RetryRename(rename func() error) error { return retryWhileBusy(rename) }

// Rename renames a file below root and replaces an existing file, even one with
// the read-only attribute. It retries as [RetryRename] does.
func Rename(root *os.Root, from, to string) error {
	looked := false
	return retryWhileBusy(func() error {
		err := root.Rename(from, to)
		if !errors.Is(err, windows.ERROR_ACCESS_DENIED) || looked {
			return err
		}
		// Only once: this opens the file, and writers that replace one file at the
		// same moment would hinder each other without end.
		looked = true
		info, statErr := root.Lstat(to)
		if statErr != nil || !info.Mode().IsRegular() || info.Mode()&0o200 != 0 || root.Chmod(to, 0o666) != nil {
			return err
		}
		return root.Rename(from, to)
	})
}

// retryWhileBusy calls do again while another program holds the file open. A file
// that is being deleted, or is mapped as an image, is reported as access denied.
func retryWhileBusy(do func() error) error {
	deadline := time.Now().Add(busyWait)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := do()
		if !IsBusy(err) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(wait/2 + rand.N(wait)) // so that several writers do not meet again
	}
}

// IsBusy reports whether an error means that another program holds a file open in
// a way that forbids the operation.
func IsBusy(err error) bool {
	return errors.Is(err, errPending) ||
		errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
		errors.Is(err, windows.ERROR_LOCK_VIOLATION) ||
		errors.Is(err, windows.ERROR_DELETE_PENDING) ||
		errors.Is(err, windows.ERROR_USER_MAPPED_FILE)
}

// BusyError returns the error of an operation on a file below root. A file that is
// deleted already, but that another program holds open, keeps its name and refuses
// all access as if permissions were missing (STATUS_DELETE_PENDING): the error is
// then one of [IsBusy]. With missing permissions, the file still has attributes.
func BusyError(root *os.Root, name string, err error) error {
	if !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return err
	}
	if _, statErr := root.Lstat(name); errors.Is(statErr, windows.ERROR_ACCESS_DENIED) || errors.Is(statErr, windows.ERROR_DELETE_PENDING) {
		return fmt.Errorf("%w: %w", errPending, err)
	}
	return err
}

// OpenShared opens a file for reading and lets other programs write, rename and
// remove it meanwhile.
func OpenShared(name string) (*os.File, error) {
	p, err := windows.UTF16PtrFromString(longPath(name))
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(p, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// longPath spells a path that is too long for the usual functions so that they
// take it.
func longPath(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil || len(abs) < 248 || strings.HasPrefix(abs, `\\?\`) {
		return name
	}
	if rest, ok := strings.CutPrefix(abs, `\\`); ok {
		return `\\?\UNC\` + rest
	}
	return `\\?\` + abs
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

// FileID returns the number of a file in its file system. A copy of the file has
// another one.
func FileID(name string) (uint64, error) {
	f, err := OpenShared(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // opened for reading
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return 0, os.NewSyscallError("GetFileInformationByHandle", err)
	}
	return uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow), nil
}
