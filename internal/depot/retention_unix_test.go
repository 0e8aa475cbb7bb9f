//go:build unix

package depot

import (
	"io/fs"
	"syscall"
)

// allocated is the disk space of a file.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}
