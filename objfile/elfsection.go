package objfile

import (
	"fmt"
	"io"
	"io/fs"
)

// ELFSection returns where in the ELF file of size bytes the contents of the
// named section stand: n raw bytes at off, still compressed if the file has
// them so. A section that is missing, empty or has no bytes in the file gives
// an error that wraps fs.ErrNotExist; a file that is no ELF file one that
// wraps ErrNotSymbolFile; a malformed one ErrBroken.
func ELFSection(r io.ReaderAt, size int64, name string) (off, n int64, err error) {
	f, err := openELF(newBudget(r, size, IDBudget+FeatureBudget))
	if err != nil {
		return 0, 0, err
	}
	if err := f.loadSections(); err != nil {
		return 0, 0, f.fail(err)
	}
	if err := f.loadNames(); err != nil {
		return 0, 0, f.fail(err)
	}
	for _, s := range f.secs {
		if s.hasContents() && name != "" && string(f.name(s)) == name {
			return int64(s.off), int64(s.size), nil
		}
	}
	return 0, 0, fmt.Errorf("ELF section %q: %w", name, fs.ErrNotExist)
}
