//go:build linux || darwin

package blob

import (
	"os"
	"syscall"
)

// stampOf returns the stamp of an open file.
func stampOf(f *os.File) (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.ctime = st.Ino, changeTime(st)
	}
	return s, nil
}
