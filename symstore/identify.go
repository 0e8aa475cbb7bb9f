package symstore

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
)

// Key is the name and id under which a file is stored, at Name/Key/Name.
type Key struct {
	Name string
	Key  string // the identifier, such as GUID and age of a PDB
	Type Type
}

// String returns the key in the form of the records of a store: Name\Key.
func (k Key) String() string { return k.Name + `\` + k.Key }

// folded is equal for keys that differ in letter case only.
func (k Key) folded() string { return symfile.Fold(k.Name + "/" + k.Key) }

// NeedsAllError is the error for a file that is stored only with
// AddOptions.AllKinds. It wraps objfile.ErrNotSymbolFile.
type NeedsAllError struct {
	Kind symfile.Kind
	What string // kind of the file, for messages
}

func (e *NeedsAllError) Error() string {
	return fmt.Sprintf("%v: %s; stored only on request", objfile.ErrNotSymbolFile, e.What)
}

// Unwrap returns objfile.ErrNotSymbolFile.
func (e *NeedsAllError) Unwrap() error { return objfile.ErrNotSymbolFile }

// Identify returns the keys under which a file is stored: one for PE, PDB and
// DBG files, two for a portable PDB. With all, it also returns the keys of ELF,
// Mach-O and WASM files (Simple Symbol Query Protocol), of images that contain
// only resources, and of the PDB inside an MSFZ container. The error wraps
// objfile.ErrNotSymbolFile for a file that the genuine tool ignores; it is a
// *NeedsAllError if the file has keys with all.
func Identify(r io.ReaderAt, size int64, filePath string, all bool) ([]Key, error) {
	objects, err := objfile.Identify(r, size, filePath, objfile.Options{})
	if err != nil {
		return nil, err
	}
	var list []Key
	var needsAll *NeedsAllError
	for _, o := range objects {
		if o.Offset != 0 && o.Kind != symfile.MachO || o.Deflated != 0 {
			continue // part of another file
		}
		if what := onRequest(o); what != "" && !all {
			needsAll = &NeedsAllError{o.Kind, what}
			continue
		}
		switch o.Kind {
		case symfile.PE, symfile.DBG, symfile.PDB, symfile.PDB20:
			list = addKeys(list, layout.SymStore.Paths(o.Object), 1, typeOf(o))
		case symfile.MSFZ:
			// The records of a store cannot express the regular path of an MSFZ
			// file, msfz0 below the key. Clients that support MSFZ also accept
			// it at the path of the PDB.
			as := o.Object
			as.Kind, as.Role = symfile.PDB, symfile.Debug
			list = addKeys(list, layout.SymStore.Paths(as), 1, typeOf(o))
		case symfile.PortablePDB:
			list = addKeys(list, layout.SymStore.Paths(o.Object), 2, typeOf(o))
		case symfile.ELF, symfile.MachO, symfile.WASM:
			list = addKeys(list, sameID(layout.SSQP.Paths(o.Object)), -1, typeOf(o))
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case needsAll != nil:
		return nil, needsAll
	}
	return nil, fmt.Errorf("%w: no object in the file has a key", objfile.ErrNotSymbolFile)
}

// onRequest describes an object that is stored only on request. It is empty for an
// object that is always stored.
func onRequest(o objfile.Object) string {
	switch {
	case o.Kind == symfile.ELF || o.Kind == symfile.MachO || o.Kind == symfile.WASM:
		return o.Kind.String() + " file"
	case o.Kind == symfile.PE && o.ResourceOnly:
		return "an image that contains only resources"
	case o.Kind == symfile.MSFZ:
		return "a compressed PDB (MSFZ), which older debuggers report as damaged"
	}
	return ""
}

func addKeys(list []Key, paths []string, limit int, t Type) []Key {
	for i, p := range paths {
		if i == limit {
			break
		}
		part := strings.Split(p, "/")
		if len(part) != 3 {
			continue
		}
		n := Key{Name: part[0], Key: part[1], Type: t}
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

// sameID keeps the paths whose key ends like that of the first path. Other
// spellings of an id are for lookups only, not for storing.
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

// typeOf returns the type for the fourth field of refs.ptr.
func typeOf(o objfile.Object) Type { return TypeOf(o.Kind, o.Role, o.Features.Words()) }

// TypeOf returns the type of an object, the fourth field of a line in refs.ptr. features
// are the words of its objfile.Features.
func TypeOf(kind symfile.Kind, role symfile.Role, features []string) Type {
	switch kind {
	case symfile.PE:
		return Binary
	case symfile.PortablePDB:
		return Private
	case symfile.DBG:
		if slices.Contains(features, objfile.Features{Debug: true}.Words()[0]) {
			return Private
		}
		return Public
	case symfile.PDB, symfile.PDB20, symfile.MSFZ:
		switch {
		case slices.Contains(features, string(pdb.Public)):
			return Public
		case slices.Contains(features, string(pdb.TypeOnly)):
			return TypeOnly
		}
		return Private
	}
	if role&symfile.Executable != 0 {
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

// ignored reports whether an error means that files of this kind are not stored.
func ignored(err error) bool { return errors.Is(err, objfile.ErrNotSymbolFile) }

// filtered returns the error for a file that the filter excludes. Such a file is
// ignored like a file of an unknown kind.
func filtered(filter Type) error {
	return fmt.Errorf("%w of the kind that the filter %q selects", objfile.ErrNotSymbolFile, filter)
}
