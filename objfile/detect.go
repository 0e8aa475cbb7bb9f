package objfile

import (
	"bytes"
	"math"

	"github.com/symdepot/symdepot/pdb"
)

// symbolMagics are the first bytes of the formats that dispatch supports.
var symbolMagics = []string{
	"MZ", "DI", pdb.MagicMSF, pdb.MagicPDB20, pdb.MagicMSFZ, "BSJB",
	"\x7fELF", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe",
	"\xca\xfe\xba\xbf", "\xca\xfe\xba\xbe", "\x00asm", "MODULE ", "SYSB", "BCSymbolMap",
}

// SniffLen is the number of bytes from the start of a file that Detect needs.
const SniffLen = 4 << 10

// Detect checks the first SniffLen bytes and the name of a file. It returns nil
// if the file may be a symbol file, otherwise an error that wraps
// ErrNotSymbolFile. It saves unpacking files that Identify would reject.
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
