package watch

import (
	"io/fs"
	"syscall"
)

const nonblock = syscall.O_NONBLOCK

func fileStamp(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.inode = st.Ctim.Nano(), st.Ino
	}
	return s
}
