package objfile

import (
	"bytes"
	"math"

	"github.com/symdepot/symdepot/pdb"
)

// symbolMagics begin the files that dispatch knows.
var symbolMagics = []string{
	"MZ", "DI", pdb.MagicMSF, pdb.MagicPDB20, pdb.MagicMSFZ, "BSJB", "\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe",
	"\xca\xfe\xba\xbf", "\xca\xfe\xba\xbe", "\x00asm", "MODULE ", "SYSB", "BCSymbolMap",
}

// SniffLen is the number of bytes from the start of a file that Detect needs.
const SniffLen = 4 << 10

// Detect reports from the first SniffLen bytes of a file, and its name, whether
// it may be a symbol file: nil if it may, else the reason, wrapping
// ErrNotSymbolFile. It saves unpacking files that Identify would refuse.
func Detect(head []byte, name string) error {
	for _, m := range symbolMagics {
		if bytes.HasPrefix(head, []byte(m)) {
			return nil
		}
	}
	if isSymCache(name) || isPerfMap(head) || isUUIDMap(head) {
		return nil
	}
	if len(head) == 0 {
		return notSymbol("empty file")
	}
	return notSymbol("%s", describe(head, math.MaxInt64))
}
