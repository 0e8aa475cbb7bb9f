package blob

import (
	"errors"
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
		s.inode, s.ctime = st.Ino, st.Ctim.Nano()
	}
	return s, nil
}

// deviceError reports whether err means a damaged medium, beyond the errors that
// package syscall defines on all systems.
func deviceError(err error) bool {
	return errors.Is(err, syscall.EUCLEAN) || errors.Is(err, syscall.EBADMSG)
}
