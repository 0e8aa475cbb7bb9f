package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
)

// Tables of assemblies (ECMA-335, II.22).
const (
	tableTypeRef   = 0x01
	tableTypeDef   = 0x02
	tableMethodPtr = 0x05
	tableMethodDef = 0x06
	tableMemberRef = 0x0A
	tableTypeSpec  = 0x1B
	tableNested    = 0x29
	lastKnown      = tableNested // the tables behind it are not read
)

// Kinds of columns; a column that is a row of one table has the number of the table. Those from
// typeDefOrRef on are rows of one of several tables, which the lowest bits tell.
const (
	two = -1 - iota // bytes
	four
	text
	guid
	blob
	typeDefOrRef
	hasConstant
	hasCustomAttribute
	hasFieldMarshal
	hasDeclSecurity
	memberRefParent
	hasSemantics
	methodDefOrRef
	memberForwarded
	implementation
	customAttributeType
	resolutionScope
)

// coded are the tables of a column that is a row of one of several, in the order of their tags. -1 is
// a tag that is not used (ECMA-335, II.24.2.6).
var coded = map[int][]int{
	typeDefOrRef: {0x02, 0x01, 0x1B},
	hasConstant:  {0x04, 0x08, 0x17},
	hasCustomAttribute: {
		0x06, 0x04, 0x01, 0x02, 0x08, 0x09, 0x0A, 0x00, 0x0E, 0x17, 0x14, 0x11, 0x1A, 0x1B, 0x20, 0x23, 0x26, 0x27, 0x28, 0x2A, 0x2C, 0x2B,
	},
	hasFieldMarshal:     {0x04, 0x08},
	hasDeclSecurity:     {0x02, 0x06, 0x20},
	memberRefParent:     {0x02, 0x01, 0x1A, 0x06, 0x1B},
	hasSemantics:        {0x14, 0x17},
	methodDefOrRef:      {0x06, 0x0A},
	memberForwarded:     {0x04, 0x06},
	implementation:      {0x26, 0x23, 0x27},
	customAttributeType: {-1, -1, 0x06, 0x0A, -1},
	resolutionScope:     {0x00, 0x1A, 0x23, 0x01},
}

// columns are the kinds of the columns of each table up to lastKnown (ECMA-335, II.22; the tables with
// one column and those of Edit and Continue are not in the standard).
var columns = [lastKnown + 1][]int{
	0x00: {two, text, guid, guid, guid},
	0x01: {resolutionScope, text, text},
	0x02: {four, text, text, typeDefOrRef, 0x04, 0x06},
	0x03: {0x04},
	0x04: {two, text, blob},
	0x05: {0x06},
	0x06: {four, two, two, text, blob, 0x08},
	0x07: {0x08},
	0x08: {two, two, text},
	0x09: {0x02, typeDefOrRef},
	0x0A: {memberRefParent, text, blob},
	0x0B: {two, hasConstant, blob},
	0x0C: {hasCustomAttribute, customAttributeType, blob},
	0x0D: {hasFieldMarshal, blob},
	0x0E: {two, hasDeclSecurity, blob},
	0x0F: {two, four, 0x02},
	0x10: {four, 0x04},
	0x11: {blob},
	0x12: {0x02, 0x14},
	0x13: {0x14},
	0x14: {two, text, typeDefOrRef},
	0x15: {0x02, 0x17},
	0x16: {0x17},
	0x17: {two, text, blob},
	0x18: {two, 0x06, hasSemantics},
	0x19: {0x02, methodDefOrRef, methodDefOrRef},
	0x1A: {text},
	0x1B: {blob},
	0x1C: {two, memberForwarded, text, 0x1A},
	0x1D: {four, 0x04},
	0x1E: {four, four},
	0x1F: {four},
	0x20: {four, two, two, two, two, four, blob, text, text},
	0x21: {four},
	0x22: {four, four, four},
	0x23: {two, two, two, two, four, blob, text, text, blob},
	0x24: {four, 0x23},
	0x25: {four, four, four, 0x23},
	0x26: {four, text, blob},
	0x27: {four, four, text, text, implementation},
	0x28: {four, four, text, implementation},
	0x29: {0x02, 0x02},
}

// Limits of names.
const (
	maxNesting = 32   // types in types
	maxName    = 4096 // bytes of one part of a name, and of a whole one
)

// Tables are the tables of an assembly, with which methods have names. They may be used by many
// goroutines.
type Tables struct {
	data    []byte // the whole metadata
	h       Header
	tables  [lastKnown + 1]table
	strings []byte
	blobs   []byte
}

// table is the place of a table in the data.
type table struct {
	off   int64
	width int64   // bytes of a row
	from  []int64 // where the columns of a row begin
	wide  []bool  // columns of 4 bytes
}

// OpenTables reads the places of the tables of metadata. It keeps data. The error wraps ErrFormat for
// bytes that are not metadata, fs.ErrNotExist for metadata without tables, and io.ErrUnexpectedEOF if a
// table exceeds its stream.
func OpenTables(data []byte) (*Tables, error) {
	root, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	t := &Tables{data: data, strings: root.bytes(data, "#Strings"), blobs: root.bytes(data, "#Blob")}
	h, ok, err := root.Header()
	if err == nil && !ok {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("metadata tables: %w", err)
	}
	t.h = h
	if h.Rows[tableMethodPtr] > 0 {
		return nil, errors.New("metadata tables: methods out of order, as Edit and Continue writes them, are not supported")
	}
	off := int64(0)
	for i := range columns {
		to := &t.tables[i]
		for _, c := range columns[i] {
			n := t.size(c)
			to.from, to.wide = append(to.from, to.width), append(to.wide, n == 4)
			to.width += n
		}
		size := int64(h.Rows[i]) * to.width
		if size > h.Data.Size-off {
			return nil, fmt.Errorf("metadata tables: table %#x of %d rows in a stream of %d bytes: %w",
				i, h.Rows[i], h.Data.Size, io.ErrUnexpectedEOF)
		}
		to.off = h.Data.Offset + off
		off += size
	}
	return t, nil
}

// bytes returns the content of a stream; nil without one.
func (m *Root) bytes(data []byte, name string) []byte {
	s := m.streams[name]
	return data[s.Offset : s.Offset+s.Size]
}

// Methods returns the number of methods that the assembly defines.
func (t *Tables) Methods() uint32 { return t.h.Rows[tableMethodDef] }

// size is the bytes of a column.
func (t *Tables) size(column int) int64 {
	wide := false
	switch column {
	case two:
	case four:
		wide = true
	case text:
		wide = t.h.Wide.Strings
	case guid:
		wide = t.h.Wide.GUIDs
	case blob:
		wide = t.h.Wide.Blobs
	default:
		tables, tag := []int{column}, 0
		if column < 0 {
			tables = coded[column]
			tag = tagBits(column)
		}
		for _, i := range tables {
			wide = wide || i >= 0 && t.h.Rows[i] >= 1<<(16-tag)
		}
	}
	if wide {
		return 4
	}
	return 2
}

// tagBits is the number of bits that tell the table of a column.
func tagBits(column int) int { return bits.Len(uint(len(coded[column]) - 1)) }

// cell reads a column of row n, from 1, of a table.
func (t *Tables) cell(table int, n uint32, column int) (uint32, error) {
	if n == 0 || n > t.h.Rows[table] {
		return 0, fmt.Errorf("row %d of the %d in table %#x: %w", n, t.h.Rows[table], table, fs.ErrNotExist)
	}
	in := &t.tables[table]
	at := in.off + int64(n-1)*in.width + in.from[column]
	if in.wide[column] {
		return binary.LittleEndian.Uint32(t.data[at:]), nil
	}
	return uint32(binary.LittleEndian.Uint16(t.data[at:])), nil
}

// text reads a text of the #Strings heap that a column of a row refers to.
func (t *Tables) text(table int, n uint32, column int) (string, error) {
	at, err := t.cell(table, n, column)
	if err != nil {
		return "", err
	}
	if int64(at) >= int64(len(t.strings)) {
		return "", fmt.Errorf("text %d in a heap of %d bytes: %w", at, len(t.strings), io.ErrUnexpectedEOF)
	}
	s := t.strings[at:]
	end := bytes.IndexByte(s[:min(len(s), maxName+1)], 0)
	if end < 0 {
		return "", fmt.Errorf("the text at %d has more than %d bytes, or no end", at, maxName)
	}
	return string(s[:end]), nil
}

// last finds the last row of a table whose column, which is sorted, is at most want; 0 for none.
func (t *Tables) last(table, column int, want uint32) (uint32, error) {
	low, high := uint32(0), t.h.Rows[table]
	for low < high {
		mid := high - (high-low)/2
		v, err := t.cell(table, mid, column)
		if err != nil {
			return 0, err
		}
		if v <= want {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low, nil
}

// Method returns the full name of method n, from 1, of the assembly, as .NET's stack traces spell it:
// System.Collections.Generic.List`1.Sort. The types that a type is nested in stand before it, with
// dots. The error wraps fs.ErrNotExist if there are fewer methods.
func (t *Tables) Method(n uint32) (string, error) {
	name, err := t.text(tableMethodDef, n, 3)
	var owner uint32
	if err == nil {
		owner, err = t.last(tableTypeDef, 5, n)
	}
	var of string
	if err == nil && owner > 0 {
		of, err = t.typeName(tableTypeDef, owner, 0)
	}
	if err == nil {
		name, err = join(of, name)
	}
	if err != nil {
		return "", fmt.Errorf("metadata: method %d: %w", n, err)
	}
	return name, nil
}

// join returns the name of a method of a type, or of a type in another or in a namespace. Functions outside
// of types belong to <Module>. The limit is for each name: many methods can have the name of one long type.
func join(of, name string) (string, error) {
	if of == "" || of == "<Module>" {
		return name, nil
	}
	if len(of)+1+len(name) > maxName {
		return "", fmt.Errorf("a name has more than %d bytes", maxName)
	}
	return of + "." + name, nil
}

// Member returns the full name of a method that the assembly refers to, by its row in MemberRef, from
// 1, in the form of Method.
func (t *Tables) Member(n uint32) (string, error) {
	name, err := t.text(tableMemberRef, n, 1)
	var parent uint32
	if err == nil {
		parent, err = t.cell(tableMemberRef, n, 0)
	}
	var of string
	if err == nil {
		tag := tagBits(memberRefParent)
		if i := int(parent & (1<<tag - 1)); i < len(coded[memberRefParent]) {
			of, err = t.typeName(coded[memberRefParent][i], parent>>tag, 0)
		} else {
			err = fmt.Errorf("parent %#x", parent)
		}
	}
	if err == nil {
		name, err = join(of, name)
	}
	if err != nil {
		return "", fmt.Errorf("metadata: member %d: %w", n, err)
	}
	return name, nil
}

// typeName returns the full name of a type: a row of TypeDef, TypeRef or TypeSpec. depth is how many
// types are nested in it.
func (t *Tables) typeName(table int, n uint32, depth int) (string, error) {
	if depth > maxNesting {
		return "", fmt.Errorf("more than %d types are nested", maxNesting)
	}
	var outer uint32 // row of the type that has it, in the same table
	switch table {
	case tableTypeDef:
		at, err := t.last(tableNested, 0, n)
		if err != nil {
			return "", err
		}
		if at > 0 {
			if inner, err := t.cell(tableNested, at, 0); err != nil {
				return "", err
			} else if inner == n {
				if outer, err = t.cell(tableNested, at, 1); err != nil {
					return "", err
				}
			}
		}
	case tableTypeRef:
		scope, err := t.cell(tableTypeRef, n, 0)
		if err != nil {
			return "", err
		}
		if scope&3 == 3 {
			outer = scope >> 2
		}
	case tableTypeSpec:
		return t.generic(n, depth)
	default:
		return "", fmt.Errorf("table %#x has no types", table)
	}
	name, err := t.text(table, n, 1)
	if err != nil {
		return "", err
	}
	if outer > 0 {
		of, err := t.typeName(table, outer, depth+1)
		if err != nil {
			return "", err
		}
		return join(of, name)
	}
	space, err := t.text(table, n, 2)
	if err != nil {
		return "", err
	}
	return join(space, name)
}

// Element types of signatures (ECMA-335, II.23.1.16).
const (
	elementValueType = 0x11
	elementClass     = 0x12
	elementGeneric   = 0x15
)

// generic returns the name of the generic type that row n of TypeSpec is an instance of.
func (t *Tables) generic(n uint32, depth int) (string, error) {
	at, err := t.cell(tableTypeSpec, n, 0)
	if err != nil {
		return "", err
	}
	if int64(at) >= int64(len(t.blobs)) {
		return "", fmt.Errorf("blob %d in a heap of %d bytes: %w", at, len(t.blobs), io.ErrUnexpectedEOF)
	}
	r := Blob{Rest: t.blobs[at:]}
	r.Unsigned() // length
	kind, of, token := r.Unsigned(), r.Unsigned(), r.Unsigned()
	switch tag := int(token & 3); {
	case r.Err != nil:
		return "", r.Err
	case kind != elementGeneric || of != elementClass && of != elementValueType || tag >= len(coded[typeDefOrRef]):
		return "", fmt.Errorf("the type is no instance of a generic one: element %#x", kind)
	default:
		return t.typeName(coded[typeDefOrRef][tag], token>>2, depth+1)
	}
}
