//go:build !linux

package watch

import "io/fs"

// fileStamp knows the size and the modification time only.
func fileStamp(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
}

// folderID does not know folders: a file system that is not mounted leaves no empty
// folder there.
func folderID(fs.FileInfo) string { return "" }
