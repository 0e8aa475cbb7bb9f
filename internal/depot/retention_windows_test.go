package depot

import "io/fs"

// allocated is about the disk space of a file: that of whole clusters.
func allocated(info fs.FileInfo) int64 { return (info.Size() + 4095) / 4096 * 4096 }
