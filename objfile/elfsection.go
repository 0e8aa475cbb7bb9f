package objfile

import (
	"fmt"
	"io"
	"io/fs"
)

// ELFSection returns the place of the named section in the ELF file of size bytes:
// n raw bytes at off, compressed if the section is. The error wraps fs.ErrNotExist
// if the section is missing, empty or has no bytes in the file, ErrNotSymbolFile if
// the file is not an ELF file, and ErrBroken if it is malformed.
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
