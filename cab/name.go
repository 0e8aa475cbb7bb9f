package cab

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// cp1252 has the code points of 0x80 to 0x9F in Windows code page 1252, the
// usual encoding of names without the UTF-8 attribute. The five bytes that the
// code page does not define are as in Latin-1.
var cp1252 = [32]rune{
	0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
	0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
}

// decodeName decodes a stored name. Invalid UTF-8 counts as code page 1252.
func decodeName(raw []byte, attributes uint16) string {
	ascii := true
	for _, b := range raw {
		ascii = ascii && b < 0x80
	}
	if ascii || attributes&AttrUTF8 != 0 && utf8.Valid(raw) {
		return string(raw)
	}
	var s strings.Builder
	s.Grow(3 * len(raw))
	for _, b := range raw {
		if b >= 0x80 && b < 0xA0 {
			s.WriteRune(cp1252[b-0x80])
		} else {
			s.WriteRune(rune(b))
		}
	}
	return s.String()
}

// Path returns the name of the file with forward slashes, for use below a
// folder. ok is false if the name is unsafe: absolute, with a drive or "..",
// with control characters, or invalid on this operating system.
func (f *File) Path() (path string, ok bool) {
	path = strings.ReplaceAll(f.Name, `\`, "/")
	for _, r := range path {
		if r < 0x20 || r == ':' || r == 0x7F {
			return "", false
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return "", false
		}
	}
	if _, err := filepath.Localize(path); err != nil {
		return "", false
	}
	return path, true
}
