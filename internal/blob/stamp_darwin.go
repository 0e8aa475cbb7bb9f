package blob

import (
	"os"
	"syscall"
)

// stampOf returns the state of an open file.
func stampOf(f *os.File) (stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return stamp{}, err
	}
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.ctime = st.Ino, st.Ctimespec.Nano()
	}
	return s, nil
}

// deviceError reports no further errors than EIO here.
func deviceError(error) bool { return false }
