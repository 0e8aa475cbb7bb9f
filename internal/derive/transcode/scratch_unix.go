//go:build unix

package transcode

import (
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func diskFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(uint64(st.Bavail) * uint64(st.Bsize)), nil //nolint:unconvert // the types differ between systems
}

// ownFolder reports whether a folder belongs to this user and nobody else may
// write to it.
func ownFolder(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}

// userSuffix distinguishes the scratch folders of several users, who share the
// folder for temporary files.
func userSuffix() string { return "-" + strconv.Itoa(os.Geteuid()) }
