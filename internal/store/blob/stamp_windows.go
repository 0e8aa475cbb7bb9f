package blob

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// stampOf returns the stamp of an open file.
func stampOf(f *os.File) (stamp, error) {
	h := windows.Handle(f.Fd())
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return stamp{}, os.NewSyscallError("GetFileInformationByHandle", err)
	}
	s := stamp{
		inode: uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow),
		size:  int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow),
		mtime: info.LastWriteTime.Nanoseconds(),
	}
	// FILE_BASIC_INFO: the times of creation, last access, last write and last
	// change as FILETIMEs, then the attributes. Some network file systems do not
	// provide the time of the last change.
	var basic [40]byte
	if err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, &basic[0], uint32(len(basic))); err == nil {
		ft := windows.Filetime{LowDateTime: binary.LittleEndian.Uint32(basic[24:]), HighDateTime: binary.LittleEndian.Uint32(basic[28:])}
		s.ctime = ft.Nanoseconds()
	}
	return s, nil
}

// deviceError reports whether err means a damaged medium.
func deviceError(err error) bool {
	return errors.Is(err, windows.ERROR_CRC) || errors.Is(err, windows.ERROR_FILE_CORRUPT) || errors.Is(err, windows.ERROR_DISK_CORRUPT)
}
