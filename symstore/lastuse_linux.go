package symstore

import (
	"io/fs"
	"syscall"
	"time"
)

// mountedNoatime is ST_NOATIME of statfs.
const mountedNoatime = 0x400

// RecordsLastUse reports whether the file system notes when files are read.
func RecordsLastUse(dir string) bool {
	var ws syscall.Statfs_t
	return syscall.Statfs(dir, &ws) == nil && ws.Flags&mountedNoatime == 0
}

// LastUse returns when a file was last read.
func LastUse(info fs.FileInfo) time.Time {
	if ws, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(ws.Atim.Unix())
	}
	return info.ModTime()
}
