package symstore

import (
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows/registry"
)

// RecordsLastUse reports whether the file system notes when files are read. Since
// Vista, Windows does so only if configured. The setting of the server of a share
// is unknown.
func RecordsLastUse(dir string) bool {
	if abs, err := filepath.Abs(dir); err == nil && strings.HasPrefix(abs, `\\`) {
		return true
	}
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Control\FileSystem`, registry.QUERY_VALUE)
	if err != nil {
		return false
	}
	defer key.Close()
	// 0 and 2: enabled by the user and by the system; 1 and 3: disabled by them.
	v, _, err := key.GetIntegerValue("NtfsDisableLastAccessUpdate")
	return err == nil && v&1 == 0
}

// LastUse returns when a file was last read.
func LastUse(info fs.FileInfo) time.Time {
	if ws, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return time.Unix(0, ws.LastAccessTime.Nanoseconds())
	}
	return info.ModTime()
}
