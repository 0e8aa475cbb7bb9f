package tree

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// maxKeys is how many other keys of one GUID are tried for a PDB that is missing
// under its own.
const maxKeys = 8

// attempt is a candidate with the condition for an answer.
type attempt struct {
	l symfile.Lookup
	c layout.Place
}

// otherKeys lists where a PDB may be that is not found under the requested key:
// under another of its own keys, or one of equal GUID and higher age, the closest
// first. Only the folders of that name or id are read, once.
func (f *Folder) otherKeys(lay layout.Layout, req *layout.Request) []attempt {
	var list []attempt
	for _, l := range req.Lookups {
		folders := lay.KeyFolders(req, l)
		if len(folders) == 0 {
			continue
		}
		l.Role &= symfile.Debug | symfile.Compressed
		var own, higher []string
		for _, k := range folders {
			if len(k.Dir) == 0 {
				for _, c := range k.Places("") {
					c.Verify, c.HigherAge = false, true
					list = append(list, attempt{l, c})
				}
				continue
			}
			f.keysIn(k, req, l, &own, &higher)
		}
		for _, id := range own {
			for _, c := range folders[0].Places(id) {
				c.Verify = true // the requested id may be one of its keys
				list = append(list, attempt{l, c})
			}
		}
		for _, id := range closest(higher) {
			at := l
			at.ID = id
			for _, c := range folders[0].Places(id) {
				list = append(list, attempt{at, c})
			}
		}
	}
	return list
}

// keysIn adds the ids in a folder of keys that are other keys of the PDB itself,
// and those of higher ages.
func (f *Folder) keysIn(k layout.KeyFolder, req *layout.Request, l symfile.Lookup, own, higher *[]string) {
	at, ok := f.tree.find(k.Dir...)
	if !ok {
		return
	}
	guid := req.Age.GUID.Lower()
	for _, entry := range f.tree.withPrefix(at, k.Prefix) {
		id := k.Before + entry
		rest, is := strings.CutPrefix(id, guid)
		if !is || id == l.ID {
			continue
		}
		if k.Own && (rest == "" || rest == "1" || rest == portableAge) && !slices.Contains(*own, id) && !slices.Contains(*higher, id) {
			*own = append(*own, id)
		}
		if ageAbove(rest, req.Age.Age) && !slices.Contains(*higher, id) {
			*higher = append(*higher, id)
		}
	}
}

// portableAge is symfile.PortableAge, folded.
var portableAge = symfile.Fold(symfile.PortableAge)

func ageAbove(digits string, age uint32) bool {
	n, err := strconv.ParseUint(digits, 16, 32)
	return err == nil && uint32(n) > age && digits != portableAge
}

// closest sorts keys of one GUID by age and omits the most distant.
func closest(keys []string) []string {
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return keys[:min(len(keys), maxKeys)]
}

// older reports whether an object is a PDB of the requested GUID and a higher age.
func older(o objfile.Object, age *layout.PDBAge) bool {
	return (o.Kind == symfile.PDB || o.Kind == symfile.MSFZ) && o.DebugID.GUID == age.GUID && o.DebugID.Age > age.Age
}

// openOther opens the first of the other keys that is an answer.
func (f *Folder) openOther(ctx context.Context, lay layout.Layout, req *layout.Request) (*File, error) {
	absent := fs.ErrNotExist
	for _, a := range f.otherKeys(lay, req) {
		found, err := f.try(ctx, req, a.l, a.c)
		switch {
		case err == nil:
			return found, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errMismatch):
			continue // a candidate with different ids is not an error
		}
		if absent, err = splitError(err); err != nil {
			return nil, err
		}
	}
	return nil, absent
}
