//go:build unix

package durable

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner of the file that it replaces. The error is that of a
// process that may not give files away: then nothing is replaced.
func keepOwner(f *os.File, old fs.FileInfo) error {
	st, ok := old.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == os.Getuid() && int(st.Gid) == os.Getgid() {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
