package upstream

import (
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// filter decides, without any request, what an upstream is asked for. Its patterns
// are folded.
type filter struct {
	kinds       []symfile.Kind
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
		out[i] = symfile.Fold(strings.ReplaceAll(s, `\`, "/"))
		if drop != "" {
			out[i] = strings.ReplaceAll(out[i], drop, "")
		}
	}
	return out
}

// apply returns the part of a request that may be sent to an upstream. If nothing
// is left, why is the reason.
func (f *filter) apply(ask *fetch.Ask) (req layout.Request, why string) {
	req = ask.Request
	names := []string{symfile.Fold(req.Name)}
	for _, l := range req.Lookups {
		names = append(names, l.Name)
	}
	if req.Form == layout.FormSource {
		names = append(names, symfile.Fold(req.Part), symfile.Fold(symfile.BaseName(req.Part)))
	}
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
	for _, l := range req.Lookups {
		if matchAny(f.never, l.ID) {
			return req, "never_ask excludes that id"
		}
	}
	if slices.ContainsFunc(names, func(n string) bool { return matchAny(f.never, n) }) {
		return req, "never_ask excludes that name"
	}
	if len(f.names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return matchAny(f.names, n) }) {
		return req, "its name patterns exclude that name"
	}
	if f.checksum && ask.Checksum == "" {
		return req, "it requires a checksum; the client sent none, and no image here has it"
	}
	var kept []symfile.Lookup
	why = "its id patterns exclude that id"
	for _, l := range req.Lookups {
		if len(f.ids) > 0 && !matchAny(f.ids, l.ID) {
			continue
		}
		if len(f.kinds) > 0 && !slices.ContainsFunc(kindsOf(&req, l), func(k symfile.Kind) bool { return slices.Contains(f.kinds, k) }) {
			why = "its kinds exclude that file"
			continue
		}
		if !f.executables {
			if l.Role &^= symfile.Executable | symfile.Relocatable; l.Role == 0 || isImage(&req, l) {
				why = "executables=false excludes executables"
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
	return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(p, s) })
}

// imageKey reports whether an id has the form of a PE image's id: eight digits
// of time stamp and up to eight of size.
func imageKey(id string) bool { return len(id) > 8 && len(id) <= 16 && debugid.IsHex(id) }

// isImage reports whether a lookup is for an executable, judging by its name and
// the form of its id.
func isImage(req *layout.Request, l symfile.Lookup) bool {
	name := symfile.Fold(req.Name)
	if l.Name != "" {
		name = l.Name
	}
	if l.Role&(symfile.Debug|symfile.Other) == 0 || name == "" {
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

// kindsOf lists the kinds of files that can answer a lookup, judging by its
// roles and the form of its name and id. In doubt it lists a kind.
func kindsOf(req *layout.Request, l symfile.Lookup) []symfile.Kind {
	var kinds []symfile.Kind
	for _, c := range []struct {
		role symfile.Role
		kind symfile.Kind
	}{
		{symfile.Symbols | symfile.CodeInfo, symfile.Breakpad}, {symfile.Sources, symfile.SourceBundle}, {symfile.UUIDs, symfile.UUIDMap},
		{symfile.BCSymbols, symfile.BCSymbolMap}, {symfile.IL2CPPMap, symfile.IL2CPP}, {symfile.Mapping, symfile.ProGuard},
		{symfile.Compressed, symfile.MSFZ}, {symfile.SymCacheFile, symfile.SymCache},
	} {
		if l.Role&c.role != 0 {
			kinds = append(kinds, c.kind)
		}
	}
	if l.Role&symfile.Other != 0 {
		switch {
		case strings.HasPrefix(l.ID, "sha1-"):
			return append(kinds, symfile.SHA1)
		case strings.HasPrefix(l.ID, "r2rmap-"):
			return append(kinds, symfile.R2RMap)
		case len(l.ID) == 64:
			kinds = append(kinds, symfile.JSMap)
		}
	}
	if l.Role&(symfile.Executable|symfile.Debug|symfile.Companion) == 0 {
		return kinds
	}
	return append(kinds, moduleKinds(req, l)...)
}

// moduleKinds is kindsOf for executables and debug information.
func moduleKinds(req *layout.Request, l symfile.Lookup) []symfile.Kind {
	executable := l.Role&symfile.Executable != 0
	debug := l.Role&(symfile.Debug|symfile.Companion) != 0
	name := l.Name
	if name == "" {
		name = symfile.Fold(req.Name)
	}
	switch {
	case req.Layout.Kinds() != nil:
		return req.Layout.Kinds()
	case name == "_.debug":
		return []symfile.Kind{symfile.ELF}
	case name == "_.dwarf":
		return []symfile.Kind{symfile.MachO}
	case strings.HasSuffix(name, ".wasm"):
		return []symfile.Kind{symfile.WASM}
	case imageKey(l.ID):
		switch {
		case executable && !debug:
			return []symfile.Kind{symfile.PE, symfile.ELF}
		case strings.HasSuffix(name, ".pdb"):
			return []symfile.Kind{symfile.PDB20}
		case strings.HasSuffix(name, ".dbg"):
			return []symfile.Kind{symfile.DBG}
		}
		return []symfile.Kind{symfile.PE, symfile.PDB20, symfile.DBG, symfile.ELF}
	case len(l.ID) == 40 && strings.HasSuffix(l.ID, portableAge) && strings.HasSuffix(name, ".pdb"):
		return []symfile.Kind{symfile.PortablePDB}
	case strings.HasSuffix(name, ".pdb"):
		return []symfile.Kind{symfile.PDB, symfile.PortablePDB}
	case executable && !debug:
		return []symfile.Kind{symfile.PE, symfile.ELF, symfile.MachO, symfile.WASM}
	}
	return []symfile.Kind{symfile.PDB, symfile.PortablePDB, symfile.ELF, symfile.MachO, symfile.WASM}
}

// portableAge is the age of portable PDBs in folded keys.
var portableAge = symfile.Fold(symfile.PortableAge)
