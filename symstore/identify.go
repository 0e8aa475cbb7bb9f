package symstore

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/pdb"
)

// Named is a key under which a file is stored.
type Named struct {
	Name string
	Key  string
	Type Type
}

// Identify returns the keys under which a file is stored: one for PE, PDB and
// DBG files, two for a portable PDB, and, with all, those that Microsoft's
// newer conventions give to ELF, Mach-O and WASM. The error wraps
// objfile.ErrNotSymbolFile for a file that the genuine tool passes over.
func Identify(r io.ReaderAt, size int64, filePath string, all bool) ([]Named, error) {
	objects, err := objfile.Identify(r, size, filePath, objfile.Options{})
	if err != nil {
		return nil, err
	}
	var list []Named
	var foreign layout.Kind
	for _, o := range objects {
		if o.Offset != 0 && o.Kind != layout.MachO || o.Deflated != 0 {
			continue // inside another file
		}
		switch o.Kind {
		case layout.PE, layout.DBG, layout.PDB, layout.PDB2:
			list = addNamed(list, layout.SymStore.Paths(o.Object), 1, typeOf(o))
		case layout.PortablePDB:
			list = addNamed(list, layout.SymStore.Paths(o.Object), 2, typeOf(o))
		case layout.ELF, layout.MachO, layout.WASM:
			foreign = o.Kind
			if all {
				list = addNamed(list, sameID(layout.SSQP.Paths(o.Object)), -1, typeOf(o))
			}
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	if foreign != layout.KindUnknown && !all {
		return nil, fmt.Errorf("%w: %s files are stored on request only", objfile.ErrNotSymbolFile, foreign)
	}
	return nil, fmt.Errorf("%w: nothing in it has a key", objfile.ErrNotSymbolFile)
}

func addNamed(list []Named, paths []string, limit int, t Type) []Named {
	for i, p := range paths {
		if i == limit {
			break
		}
		part := strings.Split(p, "/")
		if len(part) != 3 {
			continue
		}
		n := Named{Name: part[0], Key: part[1], Type: t}
		known := false
		for _, have := range list {
			known = known || have.Name == n.Name && have.Key == n.Key
		}
		if !known {
			list = append(list, n)
		}
	}
	return list
}

// sameID keeps the paths whose key ends like that of the first: other
// spellings of one id are for asking, not for storing.
func sameID(paths []string) []string {
	var out []string
	for _, p := range paths {
		if idOf(p) == idOf(paths[0]) {
			out = append(out, p)
		}
	}
	return out
}

func idOf(p string) string {
	key := path.Base(path.Dir(p))
	if _, id, ok := cutLast(key, "-"); ok {
		return id
	}
	return key
}

// typeOf is the fourth field of refs.ptr.
func typeOf(o objfile.Object) Type {
	switch o.Kind {
	case layout.PE:
		return Binary
	case layout.PortablePDB:
		return Private
	case layout.DBG:
		if o.Features.Debug {
			return Private
		}
		return Public
	case layout.PDB, layout.PDB2:
		switch pdb.Sort(o.Features.PDB) {
		case pdb.Public:
			return Public
		case pdb.TypeOnly:
			return TypeOnly
		}
		return Private
	}
	if o.Role&layout.Executable != 0 {
		return Binary
	}
	return Private
}

// passes applies the filter of /z.
func passes(filter, t Type) bool {
	switch {
	case filter == "", t == Binary, t == filter:
		return true
	}
	return filter == Private && t == TypeOnly
}

// ignored says whether an error means that a file is of no kind that is stored.
func ignored(err error) bool { return errors.Is(err, objfile.ErrNotSymbolFile) }

// filtered is the error of a file that the filter keeps out: it is ignored like
// one of no known kind.
func filtered(filter Type) error {
	return fmt.Errorf("%w that the filter %q lets through", objfile.ErrNotSymbolFile, filter)
}
