package watch

import (
	"fmt"
	"io/fs"
	"syscall"
)

func fileStamp(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.inode = st.Ctim.Nano(), st.Ino
	}
	return s
}

// folderID tells a folder from another one that has or had its path.
func folderID(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x:%x", st.Dev, st.Ino)
}
