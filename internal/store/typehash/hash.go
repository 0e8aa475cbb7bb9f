// Package typehash makes the hashes of the type records of a PDB again.
//
// A PDB has a hash of each record of its type streams, TPI and IPI (LLVM, "The PDB TPI and IPI Streams", "Hash
// Values"). A hash follows from its record: a file can be stored without them. Where one type
// moves, so do the numbers of types in all records behind it, and their hashes are others altogether.
package typehash

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Kinds of type records (LLVM, CodeViewTypes.def) that have a hash of another kind.
const (
	leafClass         = 0x1504
	leafStructure     = 0x1505
	leafUnion         = 0x1506
	leafEnum          = 0x1507
	leafInterface     = 0x1519
	leafUDTSrcLine    = 0x1606
	leafUDTModSrcLine = 0x1607
)

// Properties of a class, union or enumeration (LLVM, ClassOptions).
const (
	forwardReference = 0x80
	scoped           = 0x100
	uniqueName       = 0x200
)

// of is the hash of a record, of which it gets all bytes, from its length on (LLVM, hashTypeRecord). It is
// right for the records of known programs, and anything for others.
func of(record []byte) uint32 {
	switch leaf := binary.LittleEndian.Uint16(record[2:]); leaf {
	case leafClass, leafStructure, leafInterface:
		return ofNamed(record, 20, true)
	case leafUnion:
		return ofNamed(record, 12, true)
	case leafEnum:
		return ofNamed(record, 16, false)
	case leafUDTSrcLine, leafUDTModSrcLine:
		if len(record) >= 8 {
			return ofString(record[4:8])
		}
	}
	return ofBytes(record)
}

// ofNamed is the hash of a record of a class, union or enumeration, whose name is at an offset, after a size
// if it has one.
func ofNamed(record []byte, at int, sized bool) uint32 {
	if at > len(record) {
		return ofBytes(record)
	}
	if sized {
		if at += numeric(record[at:]); at > len(record) {
			return ofBytes(record)
		}
	}
	options := binary.LittleEndian.Uint16(record[6:])
	name, rest, _ := bytes.Cut(record[at:], []byte{0})
	if options&forwardReference != 0 || options&uniqueName != 0 && anonymous(name) {
		return ofBytes(record)
	}
	if options&scoped == 0 {
		return ofString(name)
	}
	if options&uniqueName != 0 {
		name, _, _ = bytes.Cut(rest, []byte{0})
		return ofString(name)
	}
	return ofBytes(record)
}

// anonymous says whether a name is one that stands for none.
func anonymous(name []byte) bool {
	for _, s := range [...]string{"<unnamed-tag>", "__unnamed"} {
		if rest, ok := bytes.CutSuffix(name, []byte(s)); ok && (len(rest) == 0 || bytes.HasSuffix(rest, []byte("::"))) {
			return true
		}
	}
	return false
}

// numeric is the length of the number at the begin of b (LLVM, "Numeric Leaf").
func numeric(b []byte) int {
	if len(b) < 2 {
		return len(b) + 1
	}
	switch v := binary.LittleEndian.Uint16(b); {
	case v < 0x8000:
		return 2
	case v == 0x8000:
		return 3
	case v <= 0x8002:
		return 4
	case v <= 0x8004:
		return 6
	}
	return 10
}

// table has, for each of the last eight bytes before some others, what a value of it adds to the CRC-32.
var table = func() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for k := 1; k < len(t); k++ {
		for i, v := range t[k-1] {
			t[k][i] = t[0][v&255] ^ v>>8
		}
	}
	return t
}()

// long is from how many bytes on package crc32 is faster: most records are short.
const long = 64

// ofBytes is a CRC-32 that begins with 0 and is not inverted in the end (LLVM, hashBufferV8).
func ofBytes(b []byte) (h uint32) {
	if len(b) >= long {
		return ^crc32.Update(0xffffffff, crc32.IEEETable, b)
	}
	for ; len(b) >= 8; b = b[8:] {
		h ^= binary.LittleEndian.Uint32(b)
		v := binary.LittleEndian.Uint32(b[4:])
		h = table[7][h&255] ^ table[6][h>>8&255] ^ table[5][h>>16&255] ^ table[4][h>>24] ^
			table[3][v&255] ^ table[2][v>>8&255] ^ table[1][v>>16&255] ^ table[0][v>>24]
	}
	if len(b) >= 4 {
		h ^= binary.LittleEndian.Uint32(b)
		h = table[3][h&255] ^ table[2][h>>8&255] ^ table[1][h>>16&255] ^ table[0][h>>24]
		b = b[4:]
	}
	for _, v := range b {
		h = table[0][byte(h)^v] ^ h>>8
	}
	return h
}

// ofString is the hash of a name (LLVM, hashStringV1). Package pdb has it too, for the PDBs that it writes. This one is
// part of the form of cold files and must never change.
func ofString(b []byte) (h uint32) {
	for ; len(b) >= 4; b = b[4:] {
		h ^= binary.LittleEndian.Uint32(b)
	}
	if len(b) >= 2 {
		h ^= uint32(binary.LittleEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		h ^= uint32(b[0])
	}
	h |= 0x20202020
	h ^= h >> 11
	return h ^ h>>16
}
