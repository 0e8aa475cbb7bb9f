//go:build linux || darwin

package filestamp

import (
	"os"
	"syscall"
)

// Of returns the stamp of an open file.
func Of(f *os.File) (Stamp, error) {
	info, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{Size: info.Size(), Written: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode, s.Changed = st.Ino, changeTime(st)
	}
	return s, nil
}
