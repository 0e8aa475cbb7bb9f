package filestamp

import (
	"os"

	"golang.org/x/sys/unix"
)

// Known is set if Tells is ever true on this system.
const Known = true

// telling has the statfs types of file systems on local disks that give a file another Stamp.Changed
// with every change. Shares have the clocks of other machines, and tmpfs does not
// always notice what a program writes through a mapping of a file into its memory (mmap(2)).
var telling = map[uint32]bool{
	unix.EXT4_SUPER_MAGIC:  true, // ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:   true,
	unix.BTRFS_SUPER_MAGIC: true,
	unix.F2FS_SUPER_MAGIC:  true,
}

// Tells reports whether an open file is on a file system that is known to give it another stamp with
// every change, but for those within one tick of the clock of the file system.
func Tells(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && telling[uint32(st.Type)] //nolint:gosec // the numbers have 32 bits
}
