package cold

import (
	"encoding/binary"

	"github.com/symdepot/symdepot/internal/store/deflate"
)

const (
	cabinetMagic = "MSCF\x00\x00\x00\x00"
	cabinetHead  = 36
	folderHead   = 8
	// maxFolders is how many folders of a cabinet are looked at. One folder is usual.
	maxFolders = 256
	// What the flags of a cabinet say ([MS-CAB], 2.1): it goes on in another one; its structures
	// have reserved bytes.
	cabinetGoesOn   = 3
	cabinetReserves = 4
	mszipMethod     = 1
)

// isCabinet says whether b begins as a cabinet of version 1.3 does.
func isCabinet(b []byte) bool {
	return len(b) >= cabinetHead && string(b[:len(cabinetMagic)]) == cabinetMagic && b[24] == 3 && b[25] == 1
}

// cabinet looks at the folders of the cabinet at a place, and returns where the last one that is
// unpacked ends; 0 if there is none.
func (f *finder) cabinet(at int64) (end int64, err error) {
	head := make([]byte, cabinetHead+4)
	if at+int64(len(head)) > f.src.Size {
		return 0, nil
	}
	if err := readAll(f.src, head, at); err != nil {
		return 0, err
	}
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint16(head[i:])) }
	limit := min(f.src.Size, at+int64(binary.LittleEndian.Uint32(head[8:])))
	n, flags := min(number(26), maxFolders), number(30)
	size, list := int64(folderHead), at+cabinetHead
	if flags&cabinetReserves != 0 {
		list += 4 + number(36)
		size += int64(head[38])
		if head[39] != 0 { // of each block of data
			return 0, nil
		}
	}
	if flags&cabinetGoesOn != 0 || list+n*size > limit {
		return 0, nil
	}
	folders := make([]byte, n*size)
	if err := readAll(f.src, folders, list); err != nil {
		return 0, err
	}
	next := list + n*size
	for ; len(folders) > 0; folders = folders[size:] {
		from, blocks := at+int64(binary.LittleEndian.Uint32(folders)), int(binary.LittleEndian.Uint16(folders[4:]))
		if folders[6]&15 != mszipMethod || from < next || from >= limit || blocks == 0 {
			continue
		}
		to, err := f.folder(from, limit, blocks)
		if err != nil {
			return 0, err
		}
		if to > 0 {
			end, next = to, to
		}
	}
	return end, nil
}

// folder looks at a folder of a cabinet, and returns where it ends; 0 if it stays as it is.
func (f *finder) folder(at, limit int64, blocks int) (end int64, err error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if f.failures >= maxFailures || len(f.streams) >= maxStreams {
		return 0, nil
	}
	s, err := f.analyzeFolder(at, limit, blocks)
	if err != nil || s.Len == 0 {
		f.failures++
		return 0, f.passed(err)
	}
	if s.Size < deflate.MinStream {
		return 0, nil
	}
	f.found(s)
	return s.At + s.Len, nil
}

// analyzeFolder makes the recipe of a folder, unless that is of no use. The length of the stream
// is 0 if the program of the folder is unknown.
func (f *finder) analyzeFolder(at, limit int64, blocks int) (s deflate.Stream, err error) {
	end, err := deflate.FolderEnd(f.ctx, f.src, at, limit, blocks)
	if err != nil {
		return s, err
	}
	if !f.recipes {
		s = deflate.Stream{At: at, Len: end - at, Kind: deflate.Folder}
		s.Size, err = f.analyzer.MeasureFolder(f.ctx, f.src, at, end)
		return s, err
	}
	ok, err := f.analyzer.ProbeFolder(f.ctx, f.src, at, end)
	if err != nil || !ok {
		return s, err
	}
	return f.analyzer.AnalyzeFolder(f.ctx, f.src, at, end)
}
