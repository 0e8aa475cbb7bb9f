package pdb

import (
	"cmp"
	"slices"
	"sort"
)

// maxFrames limits the records of a stream of frame data.
const maxFrames = 16 << 20

// maxProgram limits the program text of a FRAMEDATA record.
const maxProgram = 4096

// frameData is one x86 frame record: FPO_DATA or FRAMEDATA. Sizes are in bytes.
type frameData struct {
	start, code   uint32 // internal address, size
	locals, param uint32
	stack         uint32
	program       uint32 // offset in the string table; FRAMEDATA only
	prolog, saved uint16
	fpo           bool
	kind          byte // of an FPO record: 0 FPO, 1 trap, 2 TSS, 3 with EBP as frame pointer
	usesBP        bool
	entry         bool // start is that of a function
}

// fpoRecord decodes an FPO_DATA record. The attributes are as winnt.h has them:
// 8 bits of prolog, 3 of registers, then SEH, use of EBP, a reserved bit, and 2
// of type.
func fpoRecord(b []byte) frameData {
	a := u16(b, 14)
	return frameData{
		start: u32(b, 0), code: u32(b, 4), locals: 4 * u32(b, 8), param: 4 * uint32(u16(b, 12)),
		prolog: a & 0xFF, saved: 4 * (a >> 8 & 7), usesBP: a>>12&1 != 0, kind: byte(a >> 14),
		fpo: true, entry: true,
	}
}

// frameRecord decodes a FRAMEDATA record.
func frameRecord(b []byte) frameData {
	return frameData{
		start: u32(b, 0), code: u32(b, 4), locals: u32(b, 8), param: u32(b, 12), stack: u32(b, 16),
		program: u32(b, 20), prolog: u16(b, 24), saved: u16(b, 26), entry: u32(b, 28)&4 != 0,
	}
}

// readFrames reads both streams of frame data, sorted by address. A FRAMEDATA
// record replaces the FPO record of the same address.
func (f *File) readFrames() ([]frameData, error) {
	var list []frameData
	for _, part := range []struct {
		stream int
		size   int64
		decode func([]byte) frameData
	}{{optNewFPO, 32, frameRecord}, {optFPO, 16, fpoRecord}} {
		b, err := f.optionalStream(part.stream, part.size, maxFrames)
		if err != nil {
			return nil, err
		}
		for p := range slices.Chunk(b, int(part.size)) {
			list = append(list, part.decode(p))
		}
	}
	// FRAMEDATA records come first in the list, and stay first.
	slices.SortStableFunc(list, func(x, y frameData) int { return cmp.Compare(x.start, y.start) })
	kept := list[:0]
	for _, r := range list {
		if n := len(kept); n > 0 && kept[n-1].start == r.start && !kept[n-1].fpo && r.fpo {
			continue
		}
		kept = append(kept, r)
	}
	return kept, nil
}

// parameters returns the bytes of parameters on the stack of the function that
// starts at an internal address.
func parameters(frames []frameData, addr uint64) (uint32, bool) {
	i := sort.Search(len(frames), func(i int) bool { return uint64(frames[i].start) >= addr })
	if i < len(frames) && uint64(frames[i].start) == addr {
		return frames[i].param, true
	}
	return 0, false
}
