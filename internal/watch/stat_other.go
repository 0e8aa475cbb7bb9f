//go:build !linux

package watch

import "io/fs"

const nonblock = 0

// fileStamp knows the size and the modification time only.
func fileStamp(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
}
