package upstream

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

// maxKeys is how many other keys of one GUID are tried for a PDB that is not
// there under its own.
const maxKeys = 8

// attempt is a candidate, and what an answer has to be.
type attempt struct {
	l symfile.Lookup
	c layout.Place
}

// otherKeys lists where a PDB may be that is not there under the key that was
// asked for: under another of its own keys, or one of equal GUID and higher age,
// the closest first. Only the folders of that name or id are read, once.
func (f *Folder) otherKeys(lay layout.Layout, req *layout.Request) []attempt {
	if req.Age == nil || req.Form != layout.FormFile {
		return nil
	}
	var list []attempt
	for _, l := range req.Lookups {
		if l.Role&symfile.Debug == 0 {
			continue
		}
		l.Role &= symfile.Debug | symfile.Compressed
		switch lay {
		case layout.SymStore, layout.SSQP, layout.BreakpadTree, layout.Index2, layout.Native:
			if l.Name != "" {
				list = append(list, f.otherNamed(req, l)...)
			}
		case layout.Unified:
			list = append(list, f.otherUnified(req, l)...)
		case layout.Flat:
			for _, c := range layout.Flat.Candidates(req, l) {
				c.Verify, c.HigherAge = false, true
				list = append(list, attempt{l, c})
			}
		}
	}
	return list
}

// otherNamed looks among the keys of a name.
func (f *Folder) otherNamed(req *layout.Request, l symfile.Lookup) []attempt {
	guid := req.Age.GUID.Lower()
	var own, higher []string
	for _, dir := range layout.NameFolders(l.Name) {
		at, ok := f.tree.find(dir...)
		if !ok {
			continue
		}
		for _, key := range f.tree.withPrefix(at, guid) {
			switch rest := key[len(guid):]; {
			case key == l.ID || slices.Contains(own, key) || slices.Contains(higher, key):
			case rest == "" || rest == "1" || rest == portableAge:
				own = append(own, key)
			}
			if key != l.ID && ageAbove(key[len(guid):], req.Age.Age) && !slices.Contains(higher, key) {
				higher = append(higher, key)
			}
		}
	}
	var list []attempt
	for _, key := range own {
		at := l
		at.ID = key
		for _, c := range layout.SymStore.Candidates(req, at) {
			c.Verify = true // what is asked for may be one of its keys
			list = append(list, attempt{l, c})
		}
	}
	for _, key := range closest(higher) {
		l.ID = key
		for _, c := range layout.SymStore.Candidates(req, l) {
			list = append(list, attempt{l, c})
		}
	}
	return list
}

// otherUnified looks among the ids with the same beginning.
func (f *Folder) otherUnified(req *layout.Request, l symfile.Lookup) []attempt {
	guid := req.Age.GUID.Lower()
	at, ok := f.tree.find(guid[:2])
	if !ok {
		return nil
	}
	var higher []string
	for _, rest := range f.tree.withPrefix(at, guid[2:]) {
		if ageAbove(rest[len(guid)-2:], req.Age.Age) {
			higher = append(higher, guid[:2]+rest)
		}
	}
	var list []attempt
	for _, id := range closest(higher) {
		l.ID = id
		for _, c := range layout.Unified.Candidates(req, l) {
			list = append(list, attempt{l, c})
		}
	}
	return list
}

// portableAge stands for the age in the keys of portable PDBs, which have none.
const portableAge = "ffffffff"

func ageAbove(digits string, age uint32) bool {
	n, err := strconv.ParseUint(digits, 16, 32)
	return err == nil && uint32(n) > age && digits != portableAge
}

// closest sorts keys of one GUID by age and leaves out the most distant.
func closest(keys []string) []string {
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return keys[:min(len(keys), maxKeys)]
}

// older reports whether an object is a PDB of the GUID asked for and a higher
// age.
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
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errOther):
			continue // a candidate that is another file is nothing to talk of here
		}
		if absent, err = unanswered(err); err != nil {
			return nil, err
		}
	}
	return nil, absent
}
