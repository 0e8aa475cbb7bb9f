package pdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// bin appends values in little-endian order: uint8, uint16, uint32, int as
// uint32, string with its NUL, and bytes.
func bin(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = le.AppendUint16(b, v)
		case uint32:
			b = le.AppendUint32(b, v)
		case int:
			b = le.AppendUint32(b, uint32(v))
		case string:
			b = append(append(b, v...), 0)
		case []byte:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("%T", v))
		}
	}
	return b
}

// rec builds a symbol or type record, padded to a multiple of 4.
func rec(kind uint16, values ...any) []byte {
	data := bin(values...)
	data = append(data, make([]byte, -len(data)&3)...)
	return append(bin(uint16(len(data)+2), kind), data...)
}

// sub builds a subsection of line numbers.
func sub(kind uint32, values ...any) []byte {
	data := bin(values...)
	return append(bin(kind, uint32(len(data))), append(data, make([]byte, -len(data)&3)...)...)
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// proc builds S_GPROC32 of n bytes at off of section 1.
func proc(name string, off, n int, typ uint32) []byte {
	return rec(symGlobalProc, 0, 0, 0, n, 0, 0, typ, off, uint16(1), uint8(0), name)
}

// pub builds S_PUB32 of a function at off of section 1.
func pub(name string, off int) []byte { return rec(symPublic, 2, off, uint16(1), name) }

// lineBlock builds a subsection with the lines of n bytes at off of section 1:
// pairs of an offset and a line in the file at 0 of the file table.
func lineBlock(off, n int, pairs ...int) []byte {
	return sub(c13Lines, off, uint16(1), uint16(0), n, fileLines(0, pairs...))
}

// fileLines builds a block of lines of one file.
func fileLines(file int, pairs ...int) []byte {
	b := bin(file, len(pairs)/2, 12+4*len(pairs))
	for i := 0; i < len(pairs); i += 2 {
		b = append(b, bin(pairs[i], uint32(pairs[i+1])|1<<31)...)
	}
	return b
}

// testModule is a module to be built.
type testModule struct {
	name         string
	symbols, c13 []byte
}

// testPDB is a PDB to be built.
type testPDB struct {
	flags, machine uint16
	modules        []testModule
	publics        []byte
	types, ids     [][]byte
	names          string // after the NUL of the empty name
	omap           []byte
	fpo, frames    []byte
	contribs       []byte
	noSections     bool
}

// sectionBytes builds headers: .text of 0x1000 bytes at rva, and .data.
func sectionBytes(rva int) []byte {
	text := bin([]byte(".text\x00\x00\x00"), 0x1000, rva, 0x1000, 0x400, 0, 0, uint16(0), uint16(0), 0x60000020)
	data := bin([]byte(".data\x00\x00\x00"), 0x1000, rva+0x1000, 0x1000, 0x400, 0, 0, uint16(0), uint16(0), uint32(0xC0000040))
	return append(text, data...)
}

// typeBytes builds a type stream of records.
func typeBytes(records [][]byte) []byte {
	body := cat(records...)
	h := make([]byte, 56)
	le.PutUint32(h, 20040203)
	le.PutUint32(h[4:], 56)
	le.PutUint32(h[8:], firstType)
	le.PutUint32(h[12:], firstType+uint32(len(records)))
	le.PutUint32(h[16:], uint32(len(body)))
	return append(h, body...)
}

// streams returns the streams of the PDB.
func (p testPDB) streams() []content {
	const fixed = 12
	names := append([]byte{0}, p.names...)
	list := make([]content, fixed)
	list[0].null = true
	list[IPIStream] = content{data: typeBytes(p.ids)}
	list[TPIStream] = content{data: typeBytes(p.types)}
	list[5] = content{data: bin(uint32(0xEFFEEFFE), 1, len(names), names)}
	list[6] = content{data: p.publics}
	list[7] = content{data: sectionBytes(0x1000)}
	list[8] = content{data: p.omap}
	list[9] = content{data: p.fpo}
	list[10] = content{data: p.frames}
	list[11] = content{data: sectionBytes(0x5000)}
	list[InfoStream] = content{data: infoBytes(20000404, 1, 1, testGUID, map[string]int{"/names": 5}, 20140508)}

	var mods []byte
	for _, m := range p.modules {
		r := make([]byte, 64)
		symbols := cat(bin(signatureC13), m.symbols)
		le.PutUint16(r[34:], uint16(len(list)))
		le.PutUint32(r[36:], uint32(len(symbols)))
		le.PutUint32(r[44:], uint32(len(m.c13)))
		list = append(list, content{data: cat(symbols, m.c13, bin(0))})
		r = append(r, bin(m.name, m.name+".obj")...)
		mods = append(mods, append(r, make([]byte, -len(r)&3)...)...)
	}
	optional := []uint16{9, noStream, noStream, noStream, noStream, 7, noStream, noStream, noStream, 10, noStream}
	if p.noSections {
		optional[5] = noStream
	}
	if p.omap != nil {
		optional[4], optional[10] = 8, 11
	}
	h := dbiBytes(dbiOpts{age: 1, flags: p.flags, machine: p.machine, globals: noStream, publics: noStream, record: 6})[:64]
	le.PutUint32(h[24:], uint32(len(mods)))
	le.PutUint32(h[28:], uint32(len(p.contribs)))
	le.PutUint32(h[48:], uint32(2*len(optional)))
	le.PutUint32(h[52:], 0)
	h = cat(h, mods, p.contribs)
	for _, n := range optional {
		h = le.AppendUint16(h, n)
	}
	list[DBIStream] = content{data: h}
	return list
}

func (p testPDB) bytes(t testing.TB) []byte { return msfBytes(t, 512, p.streams()) }

// print returns the functions of the PDB as text.
func (p testPDB) print(t testing.TB) string {
	t.Helper()
	b := p.bytes(t)
	return printed(tableOf(t, bytes.NewReader(b), int64(len(b)), 0))
}

// Two files in /names, at the offsets 1 and 5, and the file table that refers
// to them at 0 and 8.
const testNames = "a.c\x00b.h\x00prog\x00"

func testFiles() []byte {
	return sub(c13Checksums, 1, uint8(0), uint8(0), uint16(0), 5, uint8(0), uint8(0), uint16(0))
}

// testTypes are the types of the tests, from firstType on.
var testTypes = [][]byte{
	rec(lfArgList, 0), // 1000 ()
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(0), 0x1000),                             // 1001 void ()
	rec(lfStructure, uint16(0), uint16(0), 0, 0, 0, uint16(12), "ns::S"),                   // 1002 ns::S
	rec(lfModifier, 0x1002, uint16(1)),                                                     // 1003 const S
	rec(lfPointer, 0x1003, 0x1000C|0x1<<5),                                                 // 1004 S const&
	rec(lfPointer, 0x1002, 0x1000C),                                                        // 1005 S*
	rec(lfPointer, 0x1003, 0x1000C),                                                        // 1006 S const*
	rec(lfArgList, 5, 0x1004, 0x74, 0x670, 0x1008, 0),                                      // 1007
	rec(lfPointer, 0x1001, 0x1000C),                                                        // 1008 void (*)()
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(5), 0x1007),                             // 1009
	rec(lfMFunction, 3, 0x1002, 0x1006, uint8(0), uint8(0), uint16(0), 0x1000, 0),          // 100a const method
	rec(lfMFunction, 3, 0x1002, 0, uint8(0), uint8(0), uint16(1), 0x100C, 0),               // 100b static
	rec(lfArgList, 4, 0x100D, 0x100E, 0x100F, 0x1011),                                      // 100c
	rec(lfEnum, uint16(0), uint16(0), 0x74, 0, "E"),                                        // 100d
	rec(lfPointer, 0x1010, 0x1000C|1<<5),                                                   // 100e array reference
	rec(lfPointer, 0x1001, 0x1000C|4<<5|1<<10),                                             // 100f void (&& const)()
	rec(lfArray, 0x1002, 0x23, uint16(24), ""),                                             // 1010 S[2]
	rec(lfPointer, 0x100A, 0x1000C|3<<5, 0x1002, uint16(0)),                                // 1011 method pointer
	rec(lfMFunction, 3, 0x1002, 0x670, uint8(0), uint8(0), uint16(1), 0x1013, 0),           // 1012 "this" is no S*
	rec(lfArgList, 1, 0x74),                                                                // 1013
	rec(lfUnion, uint16(0), uint16(0), 0, uint16(0x8004), 70000, "U<int>"),                 // 1014
	rec(lfPointer, 0x1016, 0x1000C),                                                        // 1015 pointer to 1016
	rec(lfPointer, 0x1015, 0x1000C),                                                        // 1016 pointer to 1015: a cycle
	rec(lfArgList, 1, 0x1015),                                                              // 1017
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(1), 0x1017),                             // 1018
	rec(lfArgList, 1, 0x101A),                                                              // 1019
	rec(lfModifier, 0x101A, uint16(1)),                                                     // 101a const of itself
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(1), 0x1019),                             // 101b
	rec(lfArgList, 2, 0x1014, 0x1FFF),                                                      // 101c
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(2), 0x101C),                             // 101d
	rec(lfModifier, 0x670, uint16(1)),                                                      // 101e
	rec(lfArgList, 2, 0x101E, 0x101F),                                                      // 101f: its second argument is itself
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(2), 0x101F),                             // 1020
	rec(lfStructure, uint16(0), uint16(0), 0, 0, 0, uint16(1), "`anonymous namespace'::T"), // 1021
	rec(lfArgList, 1, 0x1021),                                                              // 1022
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(1), 0x1022),                             // 1023
	rec(lfStructure, uint16(0), uint16(0x80), 0, 0, 0, uint16(0), "D"),                     // 1024 only declared
	rec(lfArray, 0x1024, 0x23, uint16(60), ""),                                             // 1025 D[3], defined below
	rec(lfArgList, 2, 0x1025, 0x1029),                                                      // 1026
	rec(lfProcedure, 3, uint8(0), uint8(0), uint16(2), 0x1026),                             // 1027
	rec(lfUnion, uint16(0), uint16(0x80), 0, uint16(0), "Nowhere"),                         // 1028 defined nowhere
	rec(lfArray, 0x1028, 0x23, uint16(60), ""),                                             // 1029
	rec(lfStructure, uint16(0), uint16(0), 0, 0, 0, uint16(20), "D"),                       // 102a
}

var testIDs = [][]byte{
	rec(lfStringID, 0, "ns"),                 // 1000
	rec(lfFuncID, 0x1000, 0x1001, "free"),    // 1001
	rec(lfMFuncID, 0x1002, 0x100A, "method"), // 1002
	rec(lfFuncID, 0, 0x1009, "many"),         // 1003
	rec(lfStringID, 0, "?A0x12ab34cd"),       // 1004
	rec(lfFuncID, 0x1004, 0x1001, "hidden"),  // 1005
	rec(lfFuncID, 0x1006, 0x1001, "own"),     // 1006: its scope is itself
	rec(lfFuncID, 0, 0x1018, "cycle"),        // 1007
}

// Names are in the form of Breakpad symbol files that dump_syms makes.
func TestPrinter(t *testing.T) {
	b := testPDB{types: testTypes, ids: testIDs}.bytes(t)
	f := mustOpen(t, b)
	types, err := f.openTypes(t.Context(), TPIStream)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := f.openTypes(t.Context(), IPIStream)
	if err != nil {
		t.Fatal(err)
	}
	p := printer{types: types, ids: ids}
	for _, c := range []struct {
		typ  uint32
		want string
	}{
		{0, "f"},
		{0x1001, "f()"},
		{0x1009, "f(ns::S const&, int, char*, void (*)(), ...)"},
		{0x100A, "f() const"},
		{0x100B, "f(E, ns::S[2]&, void (&& const)(), void (ns::S::*)())"},
		{0x1012, "f(char*, int)"},
		{0x101D, "f(U<int>, <unknown type>)"},
		{0x1023, "f((anonymous namespace)::T)"},
		{0x1027, "f(D[3], Nowhere[])"},
		{0x1018, "f"}, // without the parameters that have no end
		{0x101B, "f"},
		{0x1020, "f"},
		{0x1002, "f"},
		{0x2000, "f"},
		{crossScope, "f"},
	} {
		if got := string(p.function([]byte("f"), c.typ, false)); got != c.want {
			t.Errorf("type %#x: %q, want %q", c.typ, got, c.want)
		}
	}
	for _, c := range []struct {
		id   uint32
		want string
	}{
		{0x1001, "ns::free()"},
		{0x1002, "ns::S::method() const"},
		{0x1003, "many(ns::S const&, int, char*, void (*)(), ...)"},
		{0x1005, "(anonymous namespace)::hidden()"},
		{0x1006, "own::own()"},
		{0x1007, "cycle"},
		{0x1000, ""},
		{0x3000, ""},
	} {
		if got := string(p.inlinee(c.id)); got != c.want {
			t.Errorf("id %#x: %q, want %q", c.id, got, c.want)
		}
	}
	if got := string(p.function([]byte("f"), 0x1003, true)); got != "f(ns::S const&, int, char*, void (*)(), ...)" {
		t.Errorf("a procedure with an id: %q, want its parameters", got)
	}
}

// Each opcode of binary annotations, as bytes.
func TestAnnotations(t *testing.T) {
	l := &moduleLines{r: &reader{files: map[uint32]functab.FileID{1: 1, 5: 2}}, files: []checksum{{off: 0, name: 1}, {off: 8, name: 5}}}
	for _, c := range []struct {
		name string
		in   string
		want string
	}{
		{"offset, length", "\x03\x10\x04\x08", "110-118:1:10"},
		{"offset and line", "\x0b\x24\x04\x03", "104-107:1:11"}, // +4, line +1
		{"backward line", "\x06\x07\x03\x02\x04\x01", "102-103:1:7"},
		{"length and offset", "\x0c\x05\x03\x0c\x02\x10", "103-108:1:10 113-115:1:10"},
		{"rows without length run on", "\x03\x01\x06\x02\x03\x04\x04\x02", "101-105:1:10 105-107:1:11"},
		{"length moves the offset", "\x03\x01\x04\x02\x03\x04\x04\x01", "101-103:1:10 107-108:1:10"},
		{"absolute offset", "\x01\x20\x03\x01\x04\x01", "121-122:1:10"},
		{"file", "\x03\x01\x05\x08\x03\x01\x04\x01", "101-102:1:10 102-103:2:10"},
		{"file that is no entry", "\x05\x03\x03\x01\x04\x01", "101-102:0:10"},
		{"two-byte number", "\x03\x81\x00\x04\x01", "200-201:1:10"},
		{"four-byte number", "\x03\xc0\x00\x01\x00\x04\x01", "200-201:1:10"},
		{"columns and ends are skipped", "\x07\x01\x08\x00\x09\x05\x0a\x01\x0d\x05\x02\x00\x03\x01\x04\x01", "101-102:1:10"},
		{"last without length", "\x03\x01", "101-102:1:10"},
		{"end", "\x03\x01\x04\x01\x00\x03\x05", "101-102:1:10"},
		{"bad number", "\x03\x01\x04\x01\x03\xff", "101-102:1:10"},
		{"unknown operation", "\x03\x01\x04\x01\x0e\x01\x03\x01", "101-102:1:10"},
		{"cut", "\x0c\x05", ""},
		{"backwards", "\x01\x20\x03\x00\x01\x10\x03\x00\x04\x04", "110-114:1:10 120-121:1:10"},
	} {
		rows := l.annotated(nil, []byte(c.in), 0x100, source{1, 0, 10}, true, 100)
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%x-%x:%d:%d", r.start, r.end, r.file, r.line))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
	if rows := l.annotated(nil, bytes.Repeat([]byte{3, 1}, 100), 0, source{}, false, 7); len(rows) != 7 {
		t.Errorf("%d rows of at most 7", len(rows))
	}
}

// inlineModule has a procedure of 0x40 bytes at 0x100, into which many is
// inlined, and into that free.
func inlineModule() testModule {
	return testModule{"a", cat(
		proc("outer", 0x100, 0x40, 0x1001),
		rec(symInlineSite, 0, 0, 0x1003, []byte("\x03\x10\x04\x10\x0b\x21\x04\x08")), // 110-120 line 50; 121-129 line 51
		rec(symInlineSite, 0, 0, 0x1001, []byte("\x03\x14\x04\x04\x00\x00")),         // 114-118 line 70
		rec(symInlineSiteEnd),
		rec(symInlineSiteEnd),
		rec(symInlineSite, 0, 0, 0x1002, []byte("\x03\x16\x04\x04\x03\x10\x04\x04")), // 116-11a is taken; 12a-12e line 80
		rec(symInlineSiteEnd),
		rec(symEnd),
	), cat(
		testFiles(),
		lineBlock(0x100, 0x40, 0, 1, 0x10, 2, 0x20, firstNoLine+0xFEE, 0x29, 3, 0x30, 0, 0x38, 4),
		sub(c13Inlinees, 0, 0x1003, 0, 50, 0x1001, 8, 70, 0x1002, 8, 80),
	)}
}

func TestInlineSites(t *testing.T) {
	got := testPDB{machine: 0x8664, modules: []testModule{inlineModule()}, types: testTypes, ids: testIDs, names: testNames}.print(t)
	const want = `FUNC 1100 40 0 outer()
INLINE 0 2 a.c many(ns::S const&, int, char*, void (*)(), ...) 1110 10 1121 8
INLINE 1 50 a.c ns::free() 1114 4
INLINE 0 3 a.c ns::S::method() const 112a 4
1100 10 1 a.c
1110 4 50 a.c
1114 4 70 b.h
1118 8 50 a.c
1120 1 2 a.c
1121 8 51 a.c
1129 1 3 a.c
112a 4 80 b.h
112e 2 3 a.c
1130 8 0 
1138 8 4 a.c
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Records that are procedures under another name, or parts of one.
func TestPieces(t *testing.T) {
	linker := testModule{linkerModule, rec(symTrampoline, uint16(0), uint16(5), 0x800, 0x100, uint16(1), uint16(1)), nil}
	got := testPDB{
		flags: 1, machine: 0x8664, types: testTypes, names: testNames,
		modules: []testModule{
			{"a", cat(
				proc("hot", 0x100, 0x10, 0x1001),
				rec(symBlock, 0, 0, 8, 0x300, uint16(1), ""), // moved away
				rec(symEnd),
				rec(symBlock, 0, 0, 4, 0x104, uint16(1), ""),
				rec(symEnd),
				rec(symEnd),
				rec(symSepCode, 0, 0, 6, 0, 0x400, 0x100, uint16(1), uint16(1)),
				rec(symEnd),
				rec(symThunk, 0, 0, 0, 0x500, uint16(1), uint16(7), uint8(1), "[thunk]:f"),
				rec(symEnd),
				proc("empty", 0x600, 0, 0x1001),
				rec(symEnd),
				proc("data", 0, 8, 0x1001)[:0],
				rec(symGlobalProc, 0, 0, 0, 8, 0, 0, 0x1001, 0, uint16(2), uint8(0), "in data"),
				rec(symEnd),
				rec(symGlobalProc, 0, 0, 0, 0x2000, 0, 0, 0, 0xFF0, uint16(1), uint8(0), "?long@@YAXXZ"),
				rec(symEnd),
				rec(0x100B, 0, 0, 0, 4, 0, 0, 0x1001, 0x700, uint16(1), uint8(0), uint8(3), []byte("old")),
				rec(symEnd),
			), cat(testFiles(), lineBlock(0x300, 8, 0, 9), lineBlock(0x400, 6, 0, 10))},
			linker,
		},
	}.print(t)
	const want = `FUNC 1100 10 0 hot()
FUNC 1300 8 0 hot()
1300 8 9 a.c
FUNC 1400 6 0 hot()
1400 6 10 a.c
FUNC 1500 7 0 [thunk]:f
FUNC 1700 4 0 old()
FUNC 1800 5 0 hot()
FUNC 1ff0 10 0 `
	if !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Code of an assembler has lines and public symbols only.
func TestPlaceholders(t *testing.T) {
	contrib := bin(uint32(0xF12EBA2D), uint16(1), uint16(0), 0x1E0, 0x60, 0x60000020, uint16(0), uint16(0), 0, 0)
	got := testPDB{
		machine: machineX86, names: testNames, contribs: contrib,
		publics: cat(pub("_copy", 0x200), pub("_move", 0x200), pub("_fill@12", 0x210), pub("__real@3ff0000000000000", 0x218), pub("_before", 0x1E0),
			pub("_far", 0x300), rec(symPublic, 0, 0, uint16(2), "_data"), pub("@fast@8", 0x320), pub("vec@@16", 0x330), pub("__xmm@00", 0x340)),
		modules: []testModule{{"a", proc("inner", 0x20C, 2, 0), cat(testFiles(),
			lineBlock(0x1E8, 4, 0, 7),
			lineBlock(0x200, 0x20, 0, 10, 4, 11, 0x10, 20, 0x1C, 0),
			lineBlock(0x280, 4, 0, 30))}},
	}.print(t)
	const want = `FUNC 11e8 4 0 before
11e8 4 7 a.c
FUNC m 1200 c 0 copy
1200 4 10 a.c
1204 8 11 a.c
FUNC 120c 2 0 inner
120c 2 11 a.c
FUNC 1210 10 c fill
1210 c 20 a.c
121c 4 0 
FUNC 1280 4 0 <unknown in test.pdb>
1280 4 30 a.c
PUBLIC 11e0 0 before
PUBLIC 1300 0 far
PUBLIC 1320 8 fast
PUBLIC 1330 10 vec
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// An OMAP splits a function into pieces, removes code and moves symbols.
func TestOMAPPieces(t *testing.T) {
	m := inlineModule()
	got := testPDB{
		machine: machineX86, modules: []testModule{m}, types: testTypes, ids: testIDs, names: testNames,
		publics: cat(pub("_gone", 0x200), pub("_there", 0x210)),
		omap:    bin(0x5000, 0x1000, 0x5114, 0x1800, 0x5118, 0x1118, 0x5124, 0, 0x5138, 0x1900, 0x5200, 0, 0x5210, 0x1A00),
		frames:  cat(bin(0x5110, 0x14, 0, 4, 0, 9, uint16(4), uint16(0), 4), bin(0x5200, 8, 0, 4, 0, 9, uint16(4), uint16(0), 4)),
	}.print(t)
	const want = `FUNC 1100 14 0 outer()
INLINE 0 2 a.c many(ns::S const&, int, char*, void (*)(), ...) 1110 4
1100 10 1 a.c
1110 4 50 a.c
FUNC 1118 c 4 outer()
INLINE 0 2 a.c many(ns::S const&, int, char*, void (*)(), ...) 1118 8 1121 3
1118 8 50 a.c
1120 1 2 a.c
1121 3 51 a.c
FUNC 1800 4 4 outer()
INLINE 0 2 a.c many(ns::S const&, int, char*, void (*)(), ...) 1800 4
INLINE 1 50 a.c ns::free() 1800 4
1800 4 70 b.h
FUNC 1900 8 0 outer()
1900 8 4 a.c
PUBLIC 1a00 0 there
STACK WIN 4 1110 4 4 0 4 0 0 0 1 prog
STACK WIN 4 1118 c 0 0 4 0 0 0 1 prog
STACK WIN 4 1800 4 0 0 4 0 0 0 1 prog
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The attributes of FPO_DATA are as winnt.h has them. LLVM and the pdb crate
// read the prolog from 4 bits and the use of EBP from bit 10.
func TestFPO(t *testing.T) {
	const prolog, registers, seh, bp, nonFPO = 0x25, 3 << 8, 1 << 11, 1 << 12, 3 << 14
	got := testPDB{
		machine: machineX86, names: testNames,
		modules: []testModule{{"a", proc("f", 0x100, 0x20, 0), nil}},
		fpo: cat(
			bin(0x1100, 0x20, 2, uint16(3), uint16(prolog|registers|bp)),
			bin(0x1200, 0x20, 0, uint16(0), uint16(seh)),
			bin(0x1300, 0x20, 0, uint16(0), uint16(nonFPO)),
			bin(0x1400, 0x20, 0, uint16(0), uint16(0)),
		),
		frames: cat(
			bin(0x1400, 0x20, 16, 8, 32, 9, uint16(1), uint16(4), 4),
			bin(0x1401, 0x1F, 16, 8, 32, 9, uint16(0), uint16(4), 0),
			bin(0x1401, 0x1F, 16, 8, 32, 9, uint16(0), uint16(4), 0),
			bin(0x1500, uint32(1<<31+1), 0, 0, 0, 9, uint16(0), uint16(0), 0),
			bin(0x1600, 4, 0, 0, 0, 77777, uint16(0), uint16(0), 0),
		),
	}.print(t)
	const want = `FUNC 1100 20 c f
STACK WIN 0 1100 20 20 0 c c 8 0 0 true
STACK WIN 0 1200 20 0 0 0 0 0 0 0 false
STACK WIN 4 1400 20 1 0 8 4 10 20 1 prog
STACK WIN 4 1401 1f 0 0 8 4 10 20 1 prog
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A module refers to an inlined function by what another module exports.
func TestCrossScope(t *testing.T) {
	m := inlineModule()
	m.symbols = bytes.ReplaceAll(m.symbols, bin(0x1003), bin(uint32(crossScope|1)))
	m.c13 = cat(bytes.ReplaceAll(m.c13, bin(0x1003), bin(uint32(crossScope|1))), sub(c13Imports, 9, 2, 0x77, 0x1234))
	p := testPDB{machine: 0x8664, types: testTypes, ids: testIDs, names: testNames}
	p.modules = []testModule{m, {"PROG", rec(symEnd), sub(c13Exports, 0x55, 0x1001, 0x1234, 0x1003)}}
	got := p.print(t)
	if want := "INLINE 0 2 a.c many(ns::S const&, int, char*, void (*)(), ...) 1110 10 1121 8\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
	p.modules = p.modules[:1] // the other module is not there
	got = p.print(t)
	if want := "INLINE 0 2 a.c <name omitted> 1110 10 1121 8\n"; !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant %s", got, want)
	}
}

// A linker without the type of a function leaves its decorated name, or that of
// its public symbol.
func TestDecorated(t *testing.T) {
	got := testPDB{
		machine: machineX86, publics: cat(pub("?first@@YAXH@Z", 0x100), pub("?second@@YAXXZ", 0x100), pub("_third@8", 0x200)),
		modules: []testModule{{"a", cat(proc("first", 0x100, 4, 0), rec(symEnd), proc("third", 0x200, 4, 0), rec(symEnd), proc("?fourth@@YAXXZ", 0x300, 4, 0)), nil}},
	}.print(t)
	const want = `FUNC m 1100 4 0 first(int)
FUNC 1200 4 8 third
FUNC 1300 4 0 fourth(void)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is left out is named; the rest is there.
func TestFunctionWarnings(t *testing.T) {
	good := testModule{"good", cat(proc("good", 0x100, 4, 0), rec(symEnd)), nil}
	base := testPDB{machine: 0x8664, modules: []testModule{good, {"bad", proc("bad", 0x200, 4, 0), cat(testFiles(), lineBlock(0x200, 4, 0, 1))}}, names: testNames}
	change := func(f func(streams []content)) []byte {
		s := base.streams()
		f(s)
		return msfBytes(t, 512, s)
	}
	const goodFunc, badFunc = "FUNC 1100 4 0 good\n", "FUNC 1200 4 0 bad\n"
	for _, c := range []struct {
		name string
		b    []byte
		want []string
	}{
		{"sound", change(func([]content) {}), []string{goodFunc, badFunc, "1200 4 1 a.c\n"}},
		{"short module stream", change(func(s []content) { s[13].data = s[13].data[:40] }), []string{goodFunc, "warning: module 1 (bad): its stream has 40 of"}},
		{"lines cut", change(func(s []content) { s[13].data = s[13].data[:len(s[13].data)-20] }), []string{goodFunc, badFunc, "warning: module 1 (bad): line numbers: a subsection of"}},
		{"other signature", change(func(s []content) { s[13].data[0] = 2 }), []string{goodFunc, "warning: module 1 (bad): symbols: signature 2 is not supported"}},
		{"module number", change(func(s []content) { le.PutUint16(s[DBIStream].data[64+34:], 999) }), []string{badFunc, "warning: module 0 (good): stream 999 of 14: "}},
		{"string table", change(func(s []content) { s[5].data[0] = 0 }), []string{goodFunc, badFunc, "1200 4 1 \n", "warning: string table: the signature is"}},
		{"types", change(func(s []content) { le.PutUint32(s[TPIStream].data[4:], 7) }), []string{goodFunc, badFunc, "warning: types: header: 0 bytes of records at offset 7"}},
		{"sections", change(func(s []content) { s[7] = content{null: true} }), []string{"warning: the PDB has no section headers"}},
		{"fastlink", change(func(s []content) {
			s[InfoStream].data = infoBytes(20000404, 1, 1, testGUID, map[string]int{"/names": 5}, FeatureMinimal)
		}), []string{goodFunc, "warning: the PDB was linked with /DEBUG:FASTLINK"}},
		{"old modules", change(func(s []content) { le.PutUint32(s[DBIStream].data[4:], 19960307) }), []string{"warning: the module records have the form of before 1997"}},
		{"no symbols of an image", change(func(s []content) { s[DBIStream] = content{null: true} }), []string{"warning: the PDB has types only"}},
	} {
		got := printed(tableOf(t, bytes.NewReader(c.b), int64(len(c.b)), 0))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, got)
			}
		}
		if strings.Contains(got, "warning") != strings.Contains(strings.Join(c.want, ""), "warning") {
			t.Errorf("%s:\n%s\nwant a warning only where the table has one", c.name, got)
		}
	}
}

// Input that would cost much time or memory, or a wrong line.
func TestHostileFunctions(t *testing.T) {
	deep := proc("deep", 0x100, 0x10, 0)
	for range 2000 {
		deep = append(deep, rec(symInlineSite, 0, 0, 0x1001, []byte{3, 1, 4, 1})...)
	}
	for range 2000 {
		deep = append(deep, rec(symInlineSiteEnd)...)
	}
	deep = cat(deep, rec(symEnd), proc("after", 0x200, 4, 0), rec(symEnd))
	wide := cat(proc("wide", 0x100, 0x10, 0), bytes.Repeat(cat(rec(symInlineSite, 0, 0, 0x1001, bytes.Repeat([]byte{3, 0, 4, 1}, 1000)), rec(symInlineSiteEnd)), 2000), rec(symEnd))
	for _, c := range []struct {
		name         string
		symbols, c13 []byte
		want, not    string
	}{
		{"deep inlining", deep, testFiles(), "FUNC 1200 4 0 after\n", "INLINE 512 "},
		{"many inlined rows", wide, testFiles(), "warning: module 0 (a): inlined calls of the function at 0x1100: more than the limit\n", "\x00"},
		{"closers without openers", cat(rec(symInlineSiteEnd), rec(symEnd), rec(symProcIDEnd), proc("f", 0x100, 4, 0), rec(symInlineSiteEnd), rec(symEnd), rec(symEnd)), nil, "FUNC 1100 4 0 f\n", "warning"},
		{"procedure without end", cat(proc("f", 0x100, 4, 0), rec(symInlineSite, 0, 0, 0x1001, []byte{3, 1, 4, 1}), proc("g", 0x200, 4, 0)), testFiles(), "FUNC 1200 4 0 g\n", "warning"},
		{"block that states no size", cat(proc("f", 0x100, 4, 0), rec(symEnd)), cat(testFiles(), sub(c13Lines, 0x100, uint16(1), uint16(0), 4, 0, 1, 0, 0, 5, 0, 1, 0, 2, 6)), "1102 2 6 a.c\n", "warning"},
		{"more rows than bytes", cat(proc("f", 0x100, 4, 0), rec(symEnd)), cat(testFiles(), sub(c13Lines, 0x100, uint16(1), uint16(0), 4, 0, uint32(0xFFFFFFFF), uint32(0xFFFFFFFF), 0, 5)), "1100 4 5 a.c\n", "warning"},
		{"rows behind the function", cat(proc("f", 0x100, 4, 0), rec(symEnd)), cat(testFiles(), lineBlock(0x100, 4, 0, 5, 2, 6, 100, 7)), "1102 2 6 a.c\n", " 7 a.c"},
		{"blocks of two files", cat(proc("f", 0x100, 8, 0), rec(symEnd)), cat(testFiles(), sub(c13Lines, 0x100, uint16(1), uint16(0), 8, fileLines(0, 0, 1, 4, 2), fileLines(8, 2, 30, 6, 31))), "1100 2 1 a.c\n1102 2 30 b.h\n1104 2 2 a.c\n1106 2 31 b.h\n", "warning"},
		{"rows out of order", cat(proc("f", 0x100, 8, 0), rec(symEnd)), cat(testFiles(), lineBlock(0x100, 8, 4, 2, 0, 1)), "1100 4 1 a.c\n1104 4 2 a.c\n", "warning"},
		{"two procedures in a contribution", cat(proc("f", 0x100, 4, 0), rec(symEnd), proc("g", 0x104, 4, 0), rec(symEnd)), cat(testFiles(), lineBlock(0x100, 8, 0, 1, 2, 2, 6, 3)), "FUNC 1104 4 0 g\n1104 2 2 a.c\n1106 2 3 a.c\n", "warning"},
		{"contributions of one address", cat(proc("f", 0x100, 4, 0), rec(symEnd)), cat(testFiles(), lineBlock(0x100, 4, 0, 1), lineBlock(0x100, 4, 0, 2)), "FUNC 1100 4 0 f\n1100 4 1 a.c\n", " 2 a.c"},
		{"unknown file", cat(proc("f", 0x100, 4, 0), rec(symEnd)), cat(testFiles(), sub(c13Lines, 0x100, uint16(1), uint16(0), 4, fileLines(4, 0, 1))), "1100 4 1 \n", "warning"},
		{"lines of nothing", nil, cat(testFiles(), sub(c13Lines, 0x100, uint16(9), uint16(0), 4, 0, 1, 0, 0, 5), sub(c13Lines), sub(c13Inlinees), sub(c13Imports, 1), sub(c13Inlinees, 1, 1, 1, 1, uint32(0xFFFFFFFF))), "", "FUNC"},
	} {
		p := testPDB{machine: 0x8664, types: testTypes, ids: testIDs, names: testNames, modules: []testModule{{"a", c.symbols, c.c13}}}
		got := p.print(t)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: want %q, not %q; got\n%.3000s", c.name, c.want, c.not, got)
		}
	}
}

// All containers give the same functions.
func TestFunctionsContainers(t *testing.T) {
	p := testPDB{machine: 0x8664, modules: []testModule{inlineModule()}, types: testTypes, ids: testIDs, names: testNames, publics: pub("x", 0x300)}
	want := p.print(t)
	for _, method := range []uint32{plain, zstdM, deflate} {
		b := msfzBytes(t, method, 256, p.streams())
		if got := printed(tableOf(t, bytes.NewReader(b), int64(len(b)), 0)); got != want {
			t.Errorf("MSFZ, method %d:\n%s\nwant\n%s", method, got, want)
		}
	}
	b := compact(t, "hello-x86.pdb")
	if got, want := printed(tableOf(t, bytes.NewReader(b), int64(len(b)), 0)), printed(fileTable(t, "../testdata/pdb/hello-x86.pdb", 0)); got != want {
		t.Errorf("hello-x86.pdb in small pages:\n%s\nwant\n%s", got, want)
	}
}

// A file that ends early gives what is whole: fewer functions and lines, but no
// other ones.
func TestFunctionsTruncated(t *testing.T) {
	whole := readFile(t, "hello-x86.pdb")
	all := printed(fileTable(t, "../testdata/pdb/hello-x86.pdb", 0))
	read := 0
	for n := len(whole); n > 0; n -= 512 {
		f, err := Open(bytes.NewReader(whole[:n]), int64(n))
		if err != nil {
			continue
		}
		read++
		b := functab.NewBuilder(f.Module("test.pdb"), functab.Limits{})
		if err := f.Functions(t.Context(), b, FunctionOptions{}); err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		table, err := b.Table(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(printed(table)) {
			// Names may lack their parameters, and lines their files.
			bare, _, _ := strings.Cut(strings.TrimSpace(line), "(")
			if !strings.HasPrefix(line, "warning: ") && !strings.HasPrefix(line, "PUBLIC ") && !strings.Contains(all, strings.Replace(bare, " c 0 sum", " c 4 sum", 1)) {
				t.Errorf("%d bytes: %q is not in the whole file", n, line)
			}
		}
	}
	if read < 5 {
		t.Errorf("only %d of the truncated files could be opened", read)
	}
}

// A page of other bytes gives an error or a table, whatever the page was.
func TestFunctionsDamaged(t *testing.T) {
	p := testPDB{flags: 1, machine: machineX86, types: testTypes, ids: testIDs, names: testNames, modules: []testModule{inlineModule()},
		publics: cat(pub("_x@4", 0x300)), frames: bin(0x1400, 0x20, 16, 8, 32, 9, uint16(1), uint16(4), 4)}
	for name, whole := range map[string][]byte{"synthetic": p.bytes(t), "hello-x86.pdb": compact(t, "hello-x86.pdb")} {
		for _, fill := range []byte{0, 1, 0x7F, 0xFF} {
			for at := 0; at < len(whole); at += 64 {
				b := bytes.Clone(whole)
				for i := range b[at:min(at+64, len(b))] {
					b[at+i] = fill
				}
				f, err := Open(bytes.NewReader(b), int64(len(b)))
				if err != nil {
					continue
				}
				builder := functab.NewBuilder(f.Module("test.pdb"), functab.Limits{Bytes: 16 << 20})
				if err := f.Functions(t.Context(), builder, FunctionOptions{Workers: 1}); err != nil && !errors.Is(err, functab.ErrLimit) {
					t.Errorf("%s, %#x at %d: %v; want ErrLimit or none", name, fill, at, err)
				}
			}
		}
	}
}

func TestFunctionsStop(t *testing.T) {
	p := testPDB{machine: 0x8664, modules: []testModule{inlineModule()}, types: testTypes, ids: testIDs, names: testNames}
	b := p.bytes(t)
	f := mustOpen(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Functions(ctx, functab.NewBuilder(f.Module("a"), functab.Limits{}), FunctionOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: error %v, want context.Canceled", err)
	}
	if err := f.Functions(t.Context(), functab.NewBuilder(f.Module("a"), functab.Limits{Functions: 1, Bytes: 1}), FunctionOptions{}); !errors.Is(err, functab.ErrLimit) {
		t.Errorf("a full Builder: error %v, want ErrLimit", err)
	}
}

func FuzzFunctions(f *testing.F) {
	p := testPDB{
		flags: 1, machine: machineX86, types: testTypes, ids: testIDs, names: testNames,
		publics: cat(pub("_copy", 0x200), pub("?f@@YAXXZ", 0x100), pub("_x@4", 0x300)),
		fpo:     bin(0x1100, 0x20, 2, uint16(3), uint16(0x25)),
		frames:  bin(0x1400, 0x20, 16, 8, 32, 9, uint16(1), uint16(4), 4),
		modules: []testModule{inlineModule(), {"b", rec(symTrampoline, uint16(0), uint16(5), 0x800, 0x100, uint16(1), uint16(1)),
			cat(testFiles(), lineBlock(0x200, 0x20, 0, 10, 4, 11), sub(c13Imports, 9, 2, 0x77, 0x1234), sub(c13Exports, 0x55, 0x1001))}},
	}
	f.Add(p.bytes(f))
	p.omap = bin(0x5000, 0x1000, 0x5114, 0x1800, 0x5118, 0x1118, 0x5124, 0, 0x5138, 0x1900)
	f.Add(p.bytes(f))
	f.Add(msfzBytes(f, plain, 256, p.streams()))
	f.Add(compact(f, "hello-x64.pdb"))
	f.Add(compact(f, "hello-x86.pdb"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		builder := functab.NewBuilder(p.Module("a.pdb"), functab.Limits{Bytes: 64 << 20})
		if err := p.Functions(t.Context(), builder, FunctionOptions{Workers: 2}); err != nil {
			return
		}
		table, err := builder.Table(t.Context())
		if err != nil {
			return
		}
		printTable(io.Discard, table)
	})
}

// FuzzSources: the lists of any file end, and texts are no longer than their files.
func FuzzSources(f *testing.F) {
	p := testPDB{
		flags: 1, machine: machineX86, types: testTypes, ids: testIDs, names: testNames,
		modules: []testModule{inlineModule(), {"b", nil, cat(testFiles(), lineBlock(0x200, 0x20, 0, 10, 4, 11))}},
	}
	f.Add(p.bytes(f))
	f.Add(msfzBytes(f, plain, 256, p.streams()))
	f.Add(compact(f, "hello-x64.pdb"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		n := 0
		if _, err := p.SourceFiles(t.Context(), func(s SourceFile) error {
			if n++; s.Name == "" || len(s.Name) > maxStringLength {
				t.Errorf("a name of %d bytes, want 1 to %d", len(s.Name), maxStringLength)
			}
			return nil
		}); err == nil && n > 2*len(b) {
			t.Errorf("%d names of %d bytes, want fewer", n, len(b))
		}
		list, err := p.InjectedSources()
		if err != nil {
			return
		}
		for _, s := range list[:min(len(list), 100)] {
			r, err := s.Open()
			if err == nil && r.Size() > s.Size {
				t.Errorf("%q has %d bytes, want at most %d", s.Name, r.Size(), s.Size)
			}
		}
		_, _ = p.SourceLinks()
	})
}
