package mstools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symstore"
)

// indexAllowed returns an error if symstore.exe would find an index of symdepot's own
// form among its own files: in a store that it wrote last, or behind the lines of its
// own index. With --force it allows both.
func (r *symstoreRun) indexAllowed(name string) error {
	if r.args.has("-force") {
		return nil
	}
	const form = "the index has symdepot's own form, which symstore.exe may not read"
	dir, err := foreignStore(name)
	switch {
	case err != nil:
		return err
	case dir != "":
		return term.UsageError(fmt.Sprintf("%s lies in the store %s, which another tool wrote last, and %s: "+
			"give /x a path outside, or add --force",
			name, dir, form))
	case !r.args.has("a"):
		return nil
	}
	own, err := ownIndex(name)
	if err == nil && !own {
		err = term.UsageError(fmt.Sprintf("another tool wrote %s, and %s: write a new index without /a, or add --force", name, form))
	}
	return err
}

// foreignStore returns the root of the store around a path, if another tool made its last
// transaction.
func foreignStore(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	for dir := filepath.Dir(abs); ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "000Admin")) || exists(filepath.Join(dir, "000admin")) {
			other, err := lastByOther(dir)
			if !other {
				dir = ""
			}
			return dir, err
		}
		if dir == filepath.Dir(dir) {
			return "", nil
		}
	}
}

func lastByOther(dir string) (bool, error) {
	s, err := symstore.Open(dir, symstore.Options{ReadOnly: true})
	if err != nil {
		return false, err
	}
	other, err := s.LastByOther()
	return other, errors.Join(err, s.Close())
}

// ownIndex reports whether lines can be added to an index: it has the form of this
// program, or does not exist yet, or is empty.
func ownIndex(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return true, err
	}
	return symstore.IsIndex(f)
}
