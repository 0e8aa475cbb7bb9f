package pdb

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
)

// firstType is the lowest index of a record. Lower indexes are simple types.
const firstType = 0x1000

// maxTypeBlocks are the bytes of a type stream that are kept.
const maxTypeBlocks = 2 << 20

// typeStream finds the records of the type stream or of the id stream by their
// indexes.
type typeStream struct {
	b     *blocks
	first uint32
	count uint32
	// marks are the offsets of every markStep-th record.
	marks []uint32
	// records reads all records from the first one.
	records func(*window)

	defined sync.Once
	// sizes are those of classes that arrays have as elements but that are only
	// declared there, by the hash of the name.
	sizes map[uint64]uint64
}

// maxDeclared is the most classes whose sizes a typeStream looks for.
const maxDeclared = 1 << 16

// forwardReference is the property of a class that is only declared.
const forwardReference = 0x80

// className returns the name and the size of a class or union, and whether it is
// only declared.
func className(leaf uint16, data []byte) (name []byte, size uint64, declared, ok bool) {
	at := 16
	switch leaf {
	case lfClass, lfStructure, lfInterface:
	case lfUnion:
		at = 8
	default:
		return nil, 0, false, false
	}
	size, n := numeric(data, at)
	return nameAt(data, at+n), size, u16(data, 2)&forwardReference != 0, true
}

// definedSize returns the size of a class that is only declared at the place that
// refers to it: that of its definition in another record. The first call reads all
// records.
func (t *typeStream) definedSize(name []byte) uint64 {
	t.defined.Do(t.findSizes)
	return t.sizes[maphash.Bytes(nameSeed, name)]
}

var nameSeed = maphash.MakeSeed()

func (t *typeStream) findSizes() {
	t.sizes = map[uint64]uint64{}
	if t.records == nil {
		return
	}
	// each calls f with every record.
	each := func(f func(kind uint16, data []byte)) {
		var w window
		t.records(&w)
		for range t.count {
			_, kind, data, err := w.record(1)
			if err != nil || kind == 0 {
				return
			}
			f(kind, data)
		}
	}
	each(func(kind uint16, data []byte) {
		if kind != lfArray || len(t.sizes) == maxDeclared {
			return
		}
		leaf, element := t.record(u32(data, 0))
		if leaf == lfModifier {
			leaf, element = t.record(u32(element, 0))
		}
		if name, _, declared, ok := className(leaf, element); ok && declared {
			t.sizes[maphash.Bytes(nameSeed, name)] = 0
		}
	})
	if len(t.sizes) == 0 {
		return
	}
	each(func(kind uint16, data []byte) {
		name, size, declared, ok := className(kind, data)
		if !ok || declared || size == 0 {
			return
		}
		h := maphash.Bytes(nameSeed, name)
		if known, wanted := t.sizes[h]; wanted && known == 0 {
			t.sizes[h] = size
		}
	})
}

const markStep = 16

// openTypes scans the type stream with the number n. It returns nil if there is
// no such stream, or one of before 1999.
func (f *File) openTypes(ctx context.Context, n int) (*typeStream, error) {
	if n >= f.c.count() {
		return nil, nil
	}
	s, err := f.section(n)
	if err != nil || s.Size() < 56 {
		return nil, err
	}
	var h [56]byte
	if err := readFull(s, h[:], 0); err != nil {
		return nil, err
	}
	const v70, v80 = 19990903, 20040203
	if v := u32(h[:], 0); v != v70 && v != v80 {
		return nil, nil
	}
	start, bytes := int64(u32(h[:], 4)), int64(u32(h[:], 16))
	first, end := u32(h[:], 8), u32(h[:], 12)
	if start < 56 || start > s.Size() || first < firstType || end < first {
		return nil, fmt.Errorf("header: %d bytes of records at offset %d, indexes %#x to %#x", bytes, start, first, end)
	}
	t := &typeStream{first: first, b: newBlocks(s, s.Size(), blockSize, min(maxTypeBlocks, s.Size()/4))}
	var w window
	if f.Format == MSFZ {
		if s.Size() > maxMSFZTypes {
			return nil, fmt.Errorf("%d compressed bytes are more than the limit of %d", s.Size(), maxMSFZTypes)
		}
		t.b = newBlocks(s, s.Size(), spanSize, s.Size()+spanSize)
	}
	t.records = func(w *window) { w.reset(scanner{s, t.b, f.Format == MSFZ}, start, min(start+bytes, s.Size())) }
	t.records(&w)
	for ; t.count < end-first; t.count++ {
		at, kind, _, err := w.record(1)
		if err != nil {
			return nil, err
		}
		if kind == 0 {
			break
		}
		if t.count%markStep == 0 {
			if t.count%(1<<16) == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			t.marks = append(t.marks, uint32(at))
		}
	}
	return t, nil
}

// scanner reads a stream in large parts, through blocks if these keep them all.
type scanner struct {
	io.ReaderAt
	b    *blocks
	keep bool
}

func (s scanner) ReadAt(p []byte, off int64) (int, error) {
	if !s.keep {
		return s.ReaderAt.ReadAt(p, off)
	}
	q, err := s.b.bytes(off, int64(len(p)))
	return copy(p, q), err
}

// record returns the leaf and the data of record ti. The data stays valid. The
// leaf is 0 for an index without a record.
func (t *typeStream) record(ti uint32) (leaf uint16, data []byte) {
	if t == nil || ti < t.first || ti-t.first >= t.count {
		return 0, nil
	}
	i := ti - t.first
	off := int64(t.marks[i/markStep])
	var rest []byte // from off to the end of its block
	for range i % markStep {
		p := rest
		if len(p) < 2 {
			var err error
			if rest, err = t.b.rest(off); err != nil {
				return 0, nil
			}
			if p = rest; len(p) < 2 {
				if p, err = t.b.bytes(off, 2); err != nil {
					return 0, nil
				}
			}
		}
		n := 2 + int(u16(p, 0))
		off += int64(n)
		rest = rest[min(n, len(rest)):]
	}
	p, err := t.b.bytes(off, 4)
	if err != nil || u16(p, 0) < 2 {
		return 0, nil
	}
	leaf = u16(p, 2)
	if data, err = t.b.bytes(off+4, int64(u16(p, 0))-2); err != nil {
		return 0, nil
	}
	return leaf, data
}

// numeric returns the number of bytes of the numeric leaf at off, and its
// value if it is not negative.
func numeric(b []byte, off int) (value uint64, size int) {
	v := u16(b, off)
	if v < 0x8000 {
		return uint64(v), 2
	}
	rest := b[min(off+2, len(b)):]
	switch v {
	case 0x8000: // signed char
		if len(rest) > 0 {
			value = uint64(rest[0])
		}
		return value, 3
	case 0x8001, 0x8002: // short, unsigned short
		return uint64(u16(rest, 0)), 4
	case 0x8003, 0x8004: // long, unsigned long
		return uint64(u32(rest, 0)), 6
	case 0x8009, 0x800A: // quadword, unsigned quadword
		return uint64(u32(rest, 0)) | uint64(u32(rest, 4))<<32, 10
	}
	return 0, 2
}
