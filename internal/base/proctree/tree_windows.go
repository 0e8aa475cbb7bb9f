package proctree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Tree is a process with all its descendants in a job object. When the last handle
// of the job object is closed, also by the end of this process, they are killed.
type Tree struct {
	limits Limits
	job    windows.Handle
}

// New prepares a process that has not started for its limits. Close must be called.
func New(cmd *exec.Cmd, l Limits) (*Tree, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("create a job object: %w", err)
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
	if l.Memory > 0 {
		info.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_MEMORY
		info.JobMemoryLimit = uintptr(l.Memory)
	}
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		return nil, errors.Join(fmt.Errorf("limit a job object: %w", err), windows.CloseHandle(job))
	}
	// The process must be in the job object before its first instruction.
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
	return &Tree{limits: l, job: job}, nil
}

// Start starts the process that New has prepared. On systems that can do it, the process is killed
// when the thread that calls Start ends: the caller locks it.
func (t *Tree) Start(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	err := t.assign(uint32(cmd.Process.Pid))
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return err
}

func (t *Tree) assign(pid uint32) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return fmt.Errorf("open the process: %w", err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if err := windows.AssignProcessToJobObject(t.job, h); err != nil {
		return fmt.Errorf("put the process into its job object: %w", err)
	}
	return resume(pid)
}

// resume resumes the only thread of a suspended process.
func resume(pid uint32) error {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer func() { _ = windows.CloseHandle(snap) }()
	e := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snap, &e); err == nil; err = windows.Thread32Next(snap, &e) {
		if e.OwnerProcessID != pid {
			continue
		}
		th, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			return fmt.Errorf("open a thread: %w", err)
		}
		_, err = windows.ResumeThread(th)
		return errors.Join(err, windows.CloseHandle(th))
	}
	return fmt.Errorf("find the thread of the process: %w", err)
}

// Kill kills all processes of the tree, which has been started.
func (t *Tree) Kill() error { return windows.TerminateJobObject(t.job, 1) }

// Close frees what the system keeps for the limits, and ends what is left of the tree where that has
// an owner.
func (t *Tree) Close() { _ = windows.CloseHandle(t.job) }

// Why returns the limit that a failed process exceeded.
func (t *Tree) Why(*os.ProcessState) Limit {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	err := windows.QueryInformationJobObject(t.job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	if err == nil && t.limits.Memory > 0 && int64(info.PeakJobMemoryUsed) > t.limits.Memory/2 {
		return MemoryLimit
	}
	return NoLimit
}
