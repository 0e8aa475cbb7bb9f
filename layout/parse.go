package layout

import (
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// parseSymstore reads name/id/leaf and name/id/msfzN/leaf.
func parseSymstore(s []string) (Request, bool) {
	switch len(s) {
	case 3:
		return nameIDLeaf(s[0], s[1], s[2])
	case 4:
		if v, ok := msfzVersion(s[2]); ok {
			r, ok := nameIDLeaf(s[0], s[1], s[3])
			if !ok || r.Form == FormPointer || r.Layout == BreakpadTree {
				return Request{}, false
			}
			_ = v // the container's own version answers; there is only one
			for i := range r.Lookups {
				r.Lookups[i].Role = symfile.Compressed
			}
			return r, true
		}
	}
	return Request{}, false
}

func msfzVersion(s string) (int, bool) {
	if len(s) < 5 || len(s) > 7 || !strings.EqualFold(s[:4], "msfz") {
		return 0, false
	}
	v, err := strconv.ParseUint(s[4:], 10, 16)
	return int(v), err == nil
}

// parseIndex2 reads a bucket and then a single-tier path.
func parseIndex2(s []string) (Request, bool) {
	if len(s) < 4 || !isBucket(s[0], s[1]) {
		return Request{}, false
	}
	return parseSymstore(s[1:])
}

// nameIDLeaf reads the three parts that Microsoft's, Breakpad's and the
// PlayStation's layouts share. The leaf must derive from the name.
func nameIDLeaf(rawName, id, rawLeaf string) (Request, bool) {
	name, ok := cleanName(rawName)
	if !ok {
		return Request{}, false
	}
	fn := symfile.Fold(name)
	fl := fn
	if rawLeaf != rawName { // mostly they are equal
		leaf, ok := cleanName(rawLeaf)
		if !ok {
			return Request{}, false
		}
		fl = symfile.Fold(leaf)
	}
	key, ok := parseKey(id)
	if !ok {
		return Request{}, false
	}
	r := Request{Name: name}
	switch {
	case fl == fn:
		r.Form, r.Layout = FormFile, SymStore
	case fl == "file.ptr":
		r.Form, r.Layout = FormPointer, SymStore
	case strings.HasSuffix(fl, "_") && fl == CabinetName(fn):
		r.Form, r.Layout = FormCabinet, SymStore
	case fl == "symbols" || fl == "symbol_":
		r.Layout = SlashSymbols
		if fl == "symbol_" {
			r.Form = FormCabinet
		}
		r.Lookups = key.symbols(fn)
		return r, true
	case strings.HasSuffix(fl, ".src.zip") && isStem(fn, strings.TrimSuffix(fl, ".src.zip")):
		r.Layout = Native
		r.Lookups = key.special(fn, symfile.Sources)
		return r, len(r.Lookups) > 0
	case strings.HasSuffix(fl, ".sym") && isStem(fn, strings.TrimSuffix(fl, ".sym")):
		r.Layout = BreakpadTree
		r.Lookups = append(key.special(fn, symfile.Symbols), key.codeInfo(fn)...)
		return r, len(r.Lookups) > 0
	case strings.HasSuffix(fl, ".gsym") && isStem(fn, strings.TrimSuffix(fl, ".gsym")):
		r.Form, r.Layout = FormGSYM, BreakpadTree
		r.Lookups = key.special(fn, symfile.Executable|symfile.Debug)
		return r, len(r.Lookups) > 0
	default:
		return Request{}, false
	}
	r.Lookups = key.plain(fn)
	r.Age = key.age
	return r, true
}

// parseBreakpad reads DEBUGFILE/ID/STEM.sym and .src.zip; in front of them
// some clients send the folders of the build machine.
func parseBreakpad(s []string) (Request, bool) {
	if len(s) < 3 || len(s) > 32 {
		return Request{}, false
	}
	r, ok := nameIDLeaf(s[len(s)-3], s[len(s)-2], s[len(s)-1])
	if !ok || r.Form != FormFile || r.Layout != BreakpadTree && r.Layout != Native {
		return Request{}, false
	}
	return r, true
}

func parseUnified(s []string) (Request, bool) {
	if len(s) == 2 {
		s = []string{s[0], "", s[1]} // a one-byte id leaves nothing for the middle
	}
	if len(s) != 3 || len(s[0]) != 2 || !debugid.IsHex(s[0]+s[1]) || len(s[1]) > 2*debugid.MaxBuildID {
		return Request{}, false
	}
	last := symfile.Fold(s[2])
	r := Request{Layout: Unified}
	var role symfile.Role
	for _, l := range unifiedLeaves {
		switch {
		case last == l.name:
			role = l.role
		case last == CabinetName(l.name) && l.role&(symfile.Executable|symfile.Debug) != 0:
			role, r.Form = l.role&^(symfile.Companion|symfile.Relocatable), FormCabinet
		}
	}
	if role == 0 {
		return Request{}, false
	}
	r.Lookups = []symfile.Lookup{{ID: symfile.Fold(s[0] + s[1]), Role: role}}
	return r, true
}

func parseDebuginfod(s []string) (Request, bool) {
	if len(s) == 2 {
		return buildIDArtifact(s[0], s[1:])
	}
	if len(s) < 3 || !strings.EqualFold(s[0], "buildid") {
		return Request{}, false
	}
	return buildIDArtifact(s[1], s[2:])
}

// buildIDArtifact reads what follows an id in the debuginfod protocol. Ids of
// either case are taken, and so are the words.
func buildIDArtifact(id string, rest []string) (Request, bool) {
	r := Request{Layout: Debuginfod}
	if word, part, ok := strings.Cut(rest[0], "/"); ok { // the slash behind it was escaped, too
		rest = append([]string{word, part}, rest[1:]...)
	}
	artifact := symfile.Fold(rest[0])
	if artifact == "source" && len(id) > 1 && len(id) <= 2*debugid.MaxBuildID && debugid.IsHex(id) {
		// Sources are also found by the ids of PDBs and Mach-O files.
		r.Form, r.Part = FormSource, strings.Join(rest[1:], "/")
		r.Lookups = []symfile.Lookup{{ID: symfile.Fold(id), Role: symfile.Debug | symfile.Executable}}
		return r, r.Part != ""
	}
	b, err := debugid.ParseBuildID(id)
	if err != nil {
		return Request{}, false
	}
	for _, l := range debuginfodLeaves {
		if artifact == l.name {
			r.Lookups = []symfile.Lookup{{ID: string(b), Role: l.role, IDKind: symfile.BuildIDs}}
			return r, len(rest) == 1
		}
	}
	switch artifact {
	case "gsym":
		r.Form = FormGSYM
		r.Lookups = []symfile.Lookup{{ID: string(b), Role: symfile.Executable | symfile.Debug, IDKind: symfile.BuildIDs}}
		return r, len(rest) == 1
	case "section":
		r.Form, r.Part = FormSection, strings.Join(rest[1:], "/")
		r.Lookups = []symfile.Lookup{{ID: string(b), Role: symfile.Debug, IDKind: symfile.BuildIDs},
			{ID: string(b), Role: symfile.Executable, IDKind: symfile.BuildIDs}}
		return r, r.Part != ""
	}
	return Request{}, false
}

func parseGDB(s []string) (Request, bool) {
	if len(s) == 3 && s[0] == ".build-id" {
		s = s[1:]
	}
	if len(s) == 1 {
		s = []string{s[0], ""} // a one-byte id leaves nothing behind the slash
	}
	if len(s) != 2 || len(s[0]) != 2 {
		return Request{}, false
	}
	rest, role := cutLeaf(gdbLeaves, symfile.Fold(s[1]))
	id, err := debugid.ParseBuildID(s[0] + rest)
	if err != nil {
		return Request{}, false
	}
	return Request{Layout: GDB, Lookups: []symfile.Lookup{{ID: string(id), Role: role, IDKind: symfile.BuildIDs}}}, true
}

func parseLLDB(s []string) (Request, bool) {
	if len(s) != 6 {
		return Request{}, false
	}
	last, role := cutLeaf(lldbLeaves, symfile.Fold(s[5]))
	if len(last) != 12 {
		return Request{}, false
	}
	for _, p := range s[:5] {
		if len(p) != 4 {
			return Request{}, false
		}
	}
	id := symfile.Fold(strings.Join(s[:5], "")) + last
	if !debugid.IsHex(id) {
		return Request{}, false
	}
	return Request{Layout: LLDB, Lookups: []symfile.Lookup{{ID: id, Role: role, IDKind: symfile.MachIDs}}}, true
}

func parseNative(s []string) (Request, bool) {
	for _, f := range []func([]string) (Request, bool){parseLLDB, parseGDB, parseSymstore, parseBreakpad} {
		if r, ok := f(s); ok {
			return r, true
		}
	}
	return Request{}, false
}

func parseSlash(s []string) (Request, bool) {
	r, ok := parseSymstore(s)
	return r, ok && r.Layout == SlashSymbols
}

// parseSymCache reads vN.N.N/name.pdb/GUID[/age], the paths of the SymCache
// protocol. An age that is not a decimal number finds nothing, unless the server
// reads ages as hex too.
func parseSymCache(s []string) (Request, bool) {
	if len(s) == 0 || !strings.HasPrefix(s[0], "v") && !strings.HasPrefix(s[0], "V") {
		return Request{}, false // saves the making of an error
	}
	r, err := symcache.ParseRequest(s)
	if err != nil {
		return Request{}, false
	}
	q := Request{Layout: SymCache, Form: FormSymCache, Name: s[1], SymCache: r}
	if !r.HexOnly {
		q.Lookups = []symfile.Lookup{{Name: symfile.Fold(r.Key.Name), ID: symfile.Fold(r.Key.ID.Breakpad()), Role: symfile.SymCacheFile}}
	}
	return q, true
}
