//go:build !linux && !darwin && !windows

package main

import (
	"io/fs"
	"time"
)

// keepsLastUse says whether the file system notes when files are read.
func keepsLastUse(string) bool { return false }

// lastUse returns when a file was last read.
func lastUse(info fs.FileInfo) time.Time { return info.ModTime() }
