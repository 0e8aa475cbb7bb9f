package watch

import (
	"cmp"
	"encoding/binary"
	"io"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
)

// ends has the parts of an ELF file that say what it is: the beginning, the notes and
// the interpreter, and what is around the section headers. The rest is not held in memory.
type ends struct {
	size  int64
	parts []extent // in order, without overlaps
	short bool     // bytes were asked for that are not held
}

// extent is a part of a file.
type extent struct {
	off  int64
	data []byte
}

const (
	headKept = 128 << 10
	tailKept = 1 << 20  // in front of the section headers, and as much behind them
	noteKept = 64 << 10 // of one segment
	notesMax = 16       // segments
)

// readEnds reads the wanted parts of a stream of size bytes, and moves to its end.
func readEnds(r io.Reader, size int64, wanted [][2]int64) (*ends, error) {
	e := &ends{size: size}
	at := int64(0)
	for _, x := range wanted {
		from, to := max(x[0], at), min(x[1], size)
		if to <= from {
			continue
		}
		if err := scan.Discard(r, from-at); err != nil {
			return nil, err
		}
		data := make([]byte, to-from)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, noEOF(err)
		}
		at = to
		if n := len(e.parts); n > 0 && e.parts[n-1].off+int64(len(e.parts[n-1].data)) == from {
			e.parts[n-1].data = append(e.parts[n-1].data, data...)
			continue
		}
		e.parts = append(e.parts, extent{from, data})
	}
	return e, scan.Discard(r, size-at)
}

// largeParts returns the parts of a large ELF file to read, in order. head has its first bytes.
func largeParts(head []byte, size int64) [][2]int64 {
	shoff := sectionHeaders(head)
	if shoff <= 0 || shoff > size {
		shoff = size
	}
	return inOrder(append(noteSegments(head), [2]int64{0, headKept}, [2]int64{shoff - tailKept, shoff + tailKept}))
}

// skippingParts returns the parts of an ELF file to read out of r, if decompression begins
// anew in front of its section headers, and so its middle need not be decompressed; else nil. Who
// decompresses the section headers may have all that is decompressed in front of them.
func skippingParts(r io.Reader, head []byte, size int64) [][2]int64 {
	shoff := sectionHeaders(head)
	if shoff <= 0 || shoff >= size {
		return nil
	}
	tail := scan.Restart(r, shoff)
	if tail <= int64(len(head)) {
		return nil
	}
	return inOrder(append(noteSegments(head), [2]int64{0, int64(len(head))}, [2]int64{tail, size}))
}

func inOrder(list [][2]int64) [][2]int64 {
	sorting.By(list, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return list
}

func elfOrder(head []byte) binary.ByteOrder {
	if head[5] == 2 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// sectionHeaders returns the offset of the section headers of an ELF file; 0 if it has
// none.
func sectionHeaders(head []byte) int64 {
	if len(head) < 64 {
		return 0
	}
	order := elfOrder(head)
	if head[4] == 2 {
		return int64(order.Uint64(head[40:]))
	}
	return int64(order.Uint32(head[32:]))
}

// noteSegments returns where an ELF file has notes and the name of its interpreter,
// according to the program headers in its first bytes.
func noteSegments(head []byte) (list [][2]int64) {
	if len(head) < 64 {
		return nil
	}
	const interp, note = 3, 4
	order := elfOrder(head)
	phoff, each, count := int64(order.Uint32(head[28:])), 32, int(order.Uint16(head[44:]))
	if head[4] == 2 {
		phoff, each, count = int64(order.Uint64(head[32:])), 56, int(order.Uint16(head[56:]))
	}
	for i := range min(count, 64) {
		at := phoff + int64(i*each)
		if at < 0 || at > int64(len(head)-each) || len(list) >= notesMax { // phoff may be any number
			break
		}
		h := head[at:]
		if t := order.Uint32(h); t != interp && t != note {
			continue
		}
		off, size := int64(order.Uint32(h[4:])), int64(order.Uint32(h[16:]))
		if head[4] == 2 {
			off, size = int64(order.Uint64(h[8:])), int64(order.Uint64(h[32:]))
		}
		if off >= 0 && size > 0 {
			list = append(list, [2]int64{off, off + min(size, noteKept)})
		}
	}
	return list
}

// ReadAt implements io.ReaderAt. The error is objfile.ErrUnread for bytes that are not
// held.
func (e *ends) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= e.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), e.size-off))
	for _, x := range e.parts {
		if off >= x.off && off+int64(n) <= x.off+int64(len(x.data)) {
			copy(p, x.data[off-x.off:][:n])
			if n < len(p) {
				return n, io.EOF
			}
			return n, nil
		}
	}
	e.short = true
	return 0, objfile.ErrUnread
}
