package layout

import (
	"iter"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// elfSpellings returns an id and the form of 20 bytes that SSQP gives it.
func elfSpellings(id string) []string {
	list := []string{id}
	if b, err := debugid.ParseBuildID(id); err == nil {
		if p := b.Padded(); p != "" && p != id {
			list = append(list, p)
		}
	}
	return list
}

// key is the middle part of name/id/leaf.
type key struct {
	id    string         // folded
	role  symfile.Role   // what the word in front of the id says; 0: none stood there
	kind  symfile.IDKind // what that word says of the id
	any   bool           // the name does not matter (_.debug, _.dwarf)
	wide  bool           // wide enough to stand without the name
	extra string         // a second spelling to try
	age   *PDBAge
}

// parseKey reads the id part with the words that SSQP puts in front.
func parseKey(s string) (key, bool) {
	f := symfile.Fold(s)
	for _, p := range []struct {
		word string
		kind symfile.IDKind
		role symfile.Role
		any  bool
	}{
		{elfSymWord, symfile.BuildIDs, symfile.Debug, true},
		{elfWord, symfile.BuildIDs, symfile.Executable, false},
		{machSymWord, symfile.MachIDs, symfile.Debug, true},
		{machWord, symfile.MachIDs, symfile.Executable, false},
	} {
		rest, ok := strings.CutPrefix(f, p.word)
		if !ok {
			continue
		}
		if c, ok := strings.CutPrefix(rest, "coreclr-"); ok && p.role == symfile.Executable {
			return key{id: "coreclr-" + c, role: symfile.Executable}, debugid.IsHex(c)
		}
		if !debugid.IsHex(rest) || len(rest) > 2*debugid.MaxBuildID {
			return key{}, false
		}
		return key{id: rest, kind: p.kind, role: p.role, any: p.any, wide: len(rest) >= 16}, true
	}
	if strings.HasPrefix(f, "sha1-") && len(f) == 45 && debugid.IsHex(f[5:]) {
		return key{id: f, role: symfile.Other, wide: true}, true
	}
	if strings.HasPrefix(f, "r2rmap-v") && len(f) < 64 {
		_, sig, ok := strings.Cut(f[8:], "-")
		return key{id: f, role: symfile.Other, wide: true}, ok && debugid.IsHex(sig)
	}
	if !debugid.IsHex(f) || len(f) < 2 || len(f) > 2*debugid.MaxBuildID {
		return key{}, false
	}
	k := key{id: f, wide: len(f) >= 32}
	if len(f) > 9 && len(f) <= 16 && f[8] == '0' {
		// An image size padded with zeros.
		if size := strings.TrimLeft(f[8:], "0"); size != "" {
			k.extra = f[:8] + size
		}
	}
	if len(f) > 32 && len(f) <= 40 {
		if id, err := debugid.ParseBreakpad(f); err == nil {
			k.age = &PDBAge{id.GUID, id.Age}
		}
	}
	return k, true
}

// names yields the spellings of one folded name: some clients write blanks as +.
func names(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if yield(name) && strings.Contains(name, "+") {
			yield(strings.ReplaceAll(name, "+", " "))
		}
	}
}

// plain lists the lookups of name/id/name.
func (k key) plain(name string) []symfile.Lookup {
	role, alone := k.role, k.role
	if role == 0 {
		// The word-less id of a GUID's width names debug information; an
		// image of the same id must not answer under another name.
		role, alone = plain, plain
		if k.age != nil {
			alone = symfile.Debug | symfile.Other
		}
	}
	if k.any {
		return []symfile.Lookup{{ID: k.id, Role: role, IDKind: k.kind}}
	}
	ls := make([]symfile.Lookup, 0, 2) // most have no more
	for n := range names(name) {
		ls = append(ls, symfile.Lookup{Name: n, ID: k.id, Role: role, IDKind: k.kind})
		if k.extra != "" {
			ls = append(ls, symfile.Lookup{Name: n, ID: k.extra, Role: role})
		}
	}
	if k.wide {
		ls = append(ls, symfile.Lookup{ID: k.id, Role: alone, IDKind: k.kind, Unique: true})
	}
	return ls
}

// symbols lists the lookups of name/id/symbols, which names a module and wants
// its symbols: debug information before the module itself. An id that is wide
// enough counts without regard to the name: tools send names that differ from
// the file's own.
func (k key) symbols(name string) []symfile.Lookup {
	named := k.plain(name)
	if len(k.id) < 16 {
		debug := slices.Clone(named)
		for i := range debug {
			debug[i].Role &= symfile.Debug
		}
		return append(debug, named...)
	}
	ls := []symfile.Lookup{{ID: k.id, Role: symfile.Debug, IDKind: k.kind}}
	for _, l := range named {
		if !l.Unique {
			ls = append(ls, l)
		}
	}
	return append(ls, symfile.Lookup{ID: k.id, Role: plain, IDKind: k.kind})
}

// special lists the lookups of a Breakpad file or a source bundle.
func (k key) special(name string, role symfile.Role) []symfile.Lookup {
	if k.role != 0 {
		return nil
	}
	var ls []symfile.Lookup
	for n := range names(name) {
		ls = append(ls, symfile.Lookup{Name: n, ID: k.id, Role: role})
	}
	if k.wide {
		ls = append(ls, symfile.Lookup{ID: k.id, Role: role, Unique: true})
	}
	return ls
}

// codeInfo lists the lookups by which a client that has only a module's code
// file and code id learns the debug id, from the redirect it gets.
func (k key) codeInfo(name string) []symfile.Lookup {
	if k.role != 0 {
		return nil
	}
	var ls []symfile.Lookup
	for n := range names(name) {
		ls = append(ls, symfile.Lookup{Name: n, ID: k.id, Role: symfile.CodeInfo})
		if k.extra != "" {
			ls = append(ls, symfile.Lookup{Name: n, ID: k.extra, Role: symfile.CodeInfo})
		}
	}
	return ls
}

// plain are the roles that answer name/id/name.
const plain = symfile.Executable | symfile.Debug | symfile.Other

// lldbParts lists the paths of a lookup in a tree of UUIDs.
func lldbParts(l symfile.Lookup) (list [][]string) {
	g, err := debugid.ParseGUID(l.ID)
	if err != nil {
		return nil
	}
	for _, leaf := range lldbLeaves {
		if l.Role&leaf.role != 0 {
			list = append(list, strings.Split(g.LLDB()+leaf.name, "/"))
		}
	}
	return list
}
