//go:build amd64 || arm64

package crash

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied are the system calls that a child never needs once it runs: those that open files,
// connections and processes. They fail with EPERM from then on. Source: seccomp(2).
var denied = append([]uintptr{
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
	unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_OPEN,
	unix.SYS_PIDFD_GETFD, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_MKNODAT, unix.SYS_TRUNCATE, unix.SYS_IO_URING_SETUP, unix.SYS_BPF, unix.SYS_UNSHARE,
	unix.SYS_SETNS, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
}, deniedHere...)

// confine takes from this process what a child does not need: files, connections and programs. It
// does nothing on a system without filters of system calls.
func confine() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	filter := filterOf(denied)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 && errno != unix.ENOSYS && errno != unix.EINVAL {
		return fmt.Errorf("install a filter of system calls: %w", errno)
	}
	return nil
}

// Offsets in struct seccomp_data.
const (
	dataNumber = 0
	dataArch   = 4
)

// filterOf returns the program of a filter that denies some system calls, and all of another
// architecture than this program's.
func filterOf(calls []uintptr) []unix.SockFilter {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	const load, equal, above, answer = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	deny := stmt(answer, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM))
	f := []unix.SockFilter{
		stmt(load, dataArch),
		{Code: equal, K: auditArch, Jt: 1}, deny,
		stmt(load, dataNumber),
		{Code: above, K: 0x40000000, Jf: 1}, deny, // x32
	}
	for _, n := range calls {
		f = append(f, unix.SockFilter{Code: equal, K: uint32(n), Jf: 1}, deny)
	}
	return append(f, stmt(answer, unix.SECCOMP_RET_ALLOW))
}
