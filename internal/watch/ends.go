package watch

import (
	"encoding/binary"
	"io"

	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/objfile"
)

// ends has the beginning of a large ELF file and the part around its section headers,
// which say what the file is. The rest is not held in memory.
type ends struct {
	size int64
	head []byte
	from int64 // offset of tail
	tail []byte
}

const (
	headKept = 256 << 10
	tailKept = 1 << 20 // in front of the section headers, and as much behind them
)

// readEnds reads a stream of size bytes to its end. head has its first bytes.
func readEnds(r io.Reader, head []byte, size int64) (io.ReaderAt, error) {
	e := &ends{size: size, head: make([]byte, min(headKept, size))}
	if _, err := io.ReadFull(r, e.head); err != nil {
		return nil, noEOF(err)
	}
	at := int64(len(e.head))
	shoff := sectionHeaders(head)
	if shoff <= 0 || shoff > size {
		shoff = size
	}
	e.from = max(at, shoff-tailKept)
	if err := scan.Discard(r, e.from-at); err != nil {
		return nil, err
	}
	e.tail = make([]byte, min(size, shoff+tailKept)-e.from)
	if _, err := io.ReadFull(r, e.tail); err != nil {
		return nil, noEOF(err)
	}
	return e, scan.Discard(r, size-e.from-int64(len(e.tail)))
}

// sectionHeaders returns the offset of the section headers of an ELF file; 0 if it has
// none.
func sectionHeaders(head []byte) int64 {
	if len(head) < 64 {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	if head[4] == 2 {
		return int64(order.Uint64(head[40:]))
	}
	return int64(order.Uint32(head[32:]))
}

// ReadAt implements io.ReaderAt. The error is objfile.ErrUnread for bytes in the middle.
func (e *ends) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= e.size {
		return 0, io.EOF
	}
	n := len(p)
	if int64(n) > e.size-off {
		n = int(e.size - off)
	}
	end := off + int64(n)
	switch {
	case end <= int64(len(e.head)):
		copy(p, e.head[off:end])
	case off >= e.from && end <= e.from+int64(len(e.tail)):
		copy(p, e.tail[off-e.from:end-e.from])
	default:
		return 0, objfile.ErrUnread
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
