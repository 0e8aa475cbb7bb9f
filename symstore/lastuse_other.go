//go:build !linux && !darwin && !windows

package symstore

import (
	"io/fs"
	"time"
)

// RecordsLastUse reports whether the file system notes when files are read.
func RecordsLastUse(string) bool { return false }

// LastUse returns when a file was last read.
func LastUse(info fs.FileInfo) time.Time { return info.ModTime() }
