package main

import (
	"io/fs"
	"syscall"
	"time"
)

// mountedNoatime is ST_NOATIME of statfs.
const mountedNoatime = 0x400

// keepsLastUse says whether the file system notes when files are read.
func keepsLastUse(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && st.Flags&mountedNoatime == 0
}

// lastUse returns when a file was last read.
func lastUse(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Atim.Unix())
	}
	return info.ModTime()
}
