package durable

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// startWriteBehind makes the kernel begin to write a part of the file.
func startWriteBehind(f *os.File, offset, n int64) {
	if f == nil || n <= 0 {
		return
	}
	// Only a hint: the flush reports the errors.
	_ = unix.SyncFileRange(int(f.Fd()), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}

// bulk flushes a whole file system. A nil bulk cannot.
type bulk struct{ dir *os.File }

// bulkSystems are the file systems, by their statfs type, on which syncfs is
// known to make everything durable and to report errors. Others are not trusted:
// FUSE does not forward the call to its server, and overlayfs does not report
// the errors of the file system below it.
var bulkSystems = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:  true, // ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
	unix.TMPFS_MAGIC:       true,
	0x2fc12fc1:             true, // ZFS
}

// syncfsReports reports whether syncfs returns write errors, which it does since
// Linux 5.8.
var syncfsReports = sync.OnceValue(func() bool {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 8
})

// openBulk opens the directory for flushing its file system, or returns nil. The
// kernel reports the write errors that happen after the open.
func openBulk(root *os.Root) *bulk {
	if !syncfsReports() {
		return nil
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil || !bulkSystems[uint32(st.Type)] {
		_ = dir.Close() // opened for reading
		return nil
	}
	return &bulk{dir}
}

func (b *bulk) sync() error {
	for {
		if err := unix.Syncfs(int(b.dir.Fd())); err != unix.EINTR {
			return os.NewSyscallError("syncfs", err)
		}
	}
}

func (b *bulk) close() {
	if b != nil {
		_ = b.dir.Close() // opened for reading
	}
}
