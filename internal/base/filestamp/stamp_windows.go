package filestamp

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/windows"
)

// Of returns the stamp of an open file.
func Of(f *os.File) (Stamp, error) {
	h := windows.Handle(f.Fd())
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return Stamp{}, os.NewSyscallError("GetFileInformationByHandle", err)
	}
	s := Stamp{
		Inode:   uint64(info.FileIndexHigh)<<32 | uint64(info.FileIndexLow),
		Size:    int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow),
		Written: info.LastWriteTime.Nanoseconds(),
	}
	// FILE_BASIC_INFO: the times of creation, last access, last write and last
	// change as FILETIMEs, then the attributes. Some network file systems do not
	// provide the time of the last change.
	var basic [40]byte
	if err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, &basic[0], uint32(len(basic))); err == nil {
		ft := windows.Filetime{LowDateTime: binary.LittleEndian.Uint32(basic[24:]), HighDateTime: binary.LittleEndian.Uint32(basic[28:])}
		s.Changed = ft.Nanoseconds()
	}
	return s, nil
}
