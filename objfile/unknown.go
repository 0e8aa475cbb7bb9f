package objfile

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// magics are the first bytes of common files that are not symbol files, with
// their names for messages.
var magics = []struct{ magic, words string }{
	{"PK\x03\x04", "a ZIP archive"},
	{"PK\x05\x06", "an empty ZIP archive"},
	{"PK\x07\x08", "a split ZIP archive"},
	{"\x1f\x8b", "a gzip file"},
	{"\x28\xb5\x2f\xfd", "a zstd file"},
	{"\xfd7zXZ\x00", "an xz file"},
	{"BZh", "a bzip2 file"},
	{"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"},
	{"Rar!\x1a\x07", "a RAR archive"},
	{"MSCF", "a cabinet"},
	{"ISc(", "an InstallShield cabinet"},
	{"SZDD\x88\xf0\x27\x33", "a file compressed by compress.exe"},
	{"KWAJ\x88\xf0\x27\xd1", "a file compressed by compress.exe"},
	{"!<arch>\ndebian-binary", "a Debian package"},
	{"!<arch>\n", "a static library (ar)"},
	{"!<thin>\n", "a thin static library (ar)"},
	{"\xed\xab\xee\xdb", "an RPM package"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an OLE compound document, such as an MSI package"},
	{"MDMP", "a minidump"},
	{"PAGEDU", "a Windows kernel dump"},
	{"BC\xc0\xde", "LLVM bitcode"},
	{"\xde\xc0\x17\x0b", "LLVM bitcode"},
	{"SYMC", "a symcache of Sentry's"},
	{"SQLite format 3\x00", "an SQLite database"},
	{"\x89PNG", "a PNG image"},
	{"GIF8", "a GIF image"},
	{"\xff\xd8\xff", "a JPEG image"},
	{"%PDF", "a PDF document"},
	{"ITSF", "a compiled help file"},
	{"bplist00", "a binary property list"},
	{"dex\n", "an Android dex file"},
	{"MPDB", "an embedded portable PDB without its image"},
	{"\xef\xbb\xbf", "a text file"},
	{"\xff\xfe", "a UTF-16 text file"},
	{"\xfe\xff", "a UTF-16 text file"},
	{"<?xml", "an XML file"},
	{"#!", "a script"},
}

// describe names the format of a file that is not a symbol file.
func describe(head []byte, size int64) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.words
		}
	}
	switch {
	case len(head) >= 262 && string(head[257:262]) == "ustar":
		return "a tar archive"
	case isCOFF(head, size):
		return "a COFF object"
	case len(bytes.TrimLeft(head, "\x00")) == 0:
		return "nothing but zero bytes"
	case isText(head):
		if t := bytes.TrimLeft(head, " \t\r\n"); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
			return "a JSON file"
		}
		return "a text file"
	}
	return "a format that has no symbols or is not known"
}

// isCOFF recognizes the three forms of object files that Microsoft's linker
// reads: plain, with many sections, and members of import libraries. The magic
// of a plain one is its machine number only.
func isCOFF(head []byte, size int64) bool {
	if len(head) < 20 {
		return false
	}
	le := binary.LittleEndian
	if le.Uint32(head) == 0xffff0000 {
		_, known := peArchs[le.Uint16(head[6:])]
		return known
	}
	_, known := peArchs[le.Uint16(head)]
	sections, symbols, optional := int64(le.Uint16(head[2:])), int64(le.Uint32(head[8:])), le.Uint16(head[16:])
	return known && sections > 0 && optional == 0 && 20+40*sections <= size && symbols <= size
}

// isText reports whether head is UTF-8 without control characters other than
// those of text. The last character may be incomplete.
func isText(head []byte) bool {
	for i := 0; i < len(head); {
		c := head[i]
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b || c == 0x7f {
			return false
		}
		r, n := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && n == 1 && (len(head) < headSize || utf8.FullRune(head[i:])) {
			return false
		}
		i += n
	}
	return true
}
