package upstream

import (
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
)

// filter decides without any request what a source is asked for. Patterns are
// folded.
type filter struct {
	kinds       []layout.Kind
	names, ids  []string
	never       []string
	executables bool
	checksum    bool
}

func newFilter(opt GuardOptions) filter {
	return filter{
		kinds: opt.Kinds, names: foldAll(opt.NamePatterns, ""), ids: foldAll(opt.IDs, "-"), never: foldAll(opt.NeverAsk, ""),
		executables: opt.Executables, checksum: opt.RequiresChecksum,
	}
}

func foldAll(list []string, drop string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = layout.Fold(strings.ReplaceAll(s, `\`, "/"))
		if drop != "" {
			out[i] = strings.ReplaceAll(out[i], drop, "")
		}
	}
	return out
}

// apply returns the part of a question that a source may hear. If there is none,
// why says so.
func (f *filter) apply(ask *Ask) (req layout.Request, why string) {
	req = ask.Request
	names := []string{layout.Fold(req.Name)}
	for _, l := range req.Lookups {
		names = append(names, l.Name)
	}
	if req.Form == layout.FormSource {
		names = append(names, layout.Fold(req.Section), layout.Fold(layout.BaseName(req.Section)))
	}
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
	for _, l := range req.Lookups {
		if matchAny(f.never, l.ID) {
			return req, "it is never asked for that id"
		}
	}
	if slices.ContainsFunc(names, func(n string) bool { return matchAny(f.never, n) }) {
		return req, "it is never asked for that name"
	}
	if len(f.names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return matchAny(f.names, n) }) {
		return req, "it is asked for other names only"
	}
	if f.checksum && ask.Checksum == "" {
		return req, "it is asked only with a checksum"
	}
	var kept []layout.Lookup
	why = "it is asked for other ids only"
	for _, l := range req.Lookups {
		if len(f.ids) > 0 && !matchAny(f.ids, l.ID) {
			continue
		}
		if len(f.kinds) > 0 && !slices.ContainsFunc(kindsOf(&req, l), func(k layout.Kind) bool { return slices.Contains(f.kinds, k) }) {
			why = "it is asked for other kinds of files only"
			continue
		}
		if !f.executables {
			if l.Role &^= layout.Executable; l.Role == 0 || isImage(&req, l) {
				why = "no executables are taken from it"
				continue
			}
		}
		kept = append(kept, l)
	}
	if len(kept) == 0 {
		return req, why
	}
	req.Lookups = kept
	return req, ""
}

func matchAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matchGlob(p, s) })
}

// matchGlob reports whether all of s fits a pattern, in which * stands for any
// characters, slashes too, and ? for one.
func matchGlob(pattern, s string) bool {
	p, r := []rune(pattern), []rune(s)
	i, j, star, back := 0, 0, -1, 0
	for j < len(r) {
		switch {
		case i < len(p) && p[i] == '*':
			star, back = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == r[j]):
			i++
			j++
		case star >= 0:
			back++
			i, j = star+1, back
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// imageKey reports whether an id has the form of an image's: eight digits of
// time stamp and up to eight of size.
func imageKey(id string) bool { return len(id) > 8 && len(id) <= 16 && debugid.IsHex(id) }

// isImage reports whether a word-less lookup is for code, to judge by its name
// and the form of its id.
func isImage(req *layout.Request, l layout.Lookup) bool {
	name := layout.Fold(req.Name)
	if l.Name != "" {
		name = l.Name
	}
	if l.Role&(layout.Debug|layout.Other) == 0 || name == "" {
		return false
	}
	ext := name[strings.LastIndexByte(name, '.')+1:]
	switch ext {
	case "pdb", "dbg":
		return false
	case "exe", "dll", "sys", "ocx", "drv", "cpl", "scr", "efi", "ax", "com", "mui", "node", "so", "dylib", "wasm":
		return true
	}
	return imageKey(l.ID)
}

// kindsOf lists what an answer to a lookup can be, to judge by its roles and the
// form of its name and id. It rather names one too many.
func kindsOf(req *layout.Request, l layout.Lookup) []layout.Kind {
	var kinds []layout.Kind
	for _, c := range []struct {
		role layout.Role
		kind layout.Kind
	}{
		{layout.Symbols | layout.CodeInfo, layout.Breakpad}, {layout.Sources, layout.SourceBundle}, {layout.UUIDs, layout.UUIDMap},
		{layout.BCSymbols, layout.BCSymbolMap}, {layout.IL2CPPMap, layout.IL2CPP}, {layout.Mapping, layout.ProGuard},
		{layout.Compressed, layout.MSFZ}, {layout.SymCacheFile, layout.SymCache},
	} {
		if l.Role&c.role != 0 {
			kinds = append(kinds, c.kind)
		}
	}
	if l.Role&layout.Other != 0 {
		switch {
		case strings.HasPrefix(l.ID, "sha1-"):
			return append(kinds, layout.SHA1)
		case strings.HasPrefix(l.ID, "r2rmap-"):
			return append(kinds, layout.R2RMap)
		case len(l.ID) == 64:
			kinds = append(kinds, layout.JSMap)
		}
	}
	if l.Role&(layout.Executable|layout.Debug|layout.Companion) == 0 {
		return kinds
	}
	return append(kinds, moduleKinds(req, l)...)
}

// moduleKinds is kindsOf for executables and debug information.
func moduleKinds(req *layout.Request, l layout.Lookup) []layout.Kind {
	executable := l.Role&layout.Executable != 0
	debug := l.Role&(layout.Debug|layout.Companion) != 0
	name := l.Name
	if name == "" {
		name = layout.Fold(req.Name)
	}
	switch {
	case req.Layout == layout.Debuginfod.Name(), req.Layout == layout.GDB.Name(), name == "_.debug":
		return []layout.Kind{layout.ELF}
	case req.Layout == layout.LLDB.Name(), name == "_.dwarf":
		return []layout.Kind{layout.MachO}
	case strings.HasSuffix(name, ".wasm"):
		return []layout.Kind{layout.WASM}
	case imageKey(l.ID):
		switch {
		case executable && !debug:
			return []layout.Kind{layout.PE, layout.ELF}
		case strings.HasSuffix(name, ".pdb"):
			return []layout.Kind{layout.PDB2}
		case strings.HasSuffix(name, ".dbg"):
			return []layout.Kind{layout.DBG}
		}
		return []layout.Kind{layout.PE, layout.PDB2, layout.DBG, layout.ELF}
	case len(l.ID) == 40 && strings.HasSuffix(l.ID, portableAge) && strings.HasSuffix(name, ".pdb"):
		return []layout.Kind{layout.PortablePDB}
	case strings.HasSuffix(name, ".pdb"):
		return []layout.Kind{layout.PDB, layout.PortablePDB}
	case executable && !debug:
		return []layout.Kind{layout.PE, layout.ELF, layout.MachO, layout.WASM}
	}
	return []layout.Kind{layout.PDB, layout.PortablePDB, layout.ELF, layout.MachO, layout.WASM}
}
