package layout

import (
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// list collects paths without duplicates.
type list []string

func (l *list) add(parts ...string) {
	for _, p := range parts {
		if p == "" {
			return
		}
	}
	p := strings.Join(parts, "/")
	for _, have := range *l {
		if have == p {
			return
		}
	}
	*l = append(*l, p)
}

func symstorePaths(o symfile.Object) []string { return microsoftPaths(o, o.Name, false) }

// ssqpPaths prints lower-case names and GUIDs, PE stamps in upper case and the
// constant FFFFFFFF, as Microsoft's key generators do.
func ssqpPaths(o symfile.Object) []string { return microsoftPaths(o, symfile.Fold(o.Name), true) }

func microsoftPaths(o symfile.Object, name string, ssqp bool) []string {
	var l list
	guid := func(id string) string {
		if ssqp && len(id) > 32 && !strings.HasSuffix(id, symfile.PortableAge) {
			return symfile.Fold(id)
		}
		if ssqp && len(id) >= 32 {
			return symfile.Fold(id[:32]) + id[32:]
		}
		return id
	}
	switch o.Kind {
	case symfile.PE, symfile.DBG:
		l.add(name, o.CodeID, name)
	case symfile.PDB, symfile.PDB20:
		for _, id := range o.PDBIDs() {
			l.add(name, guid(id), name)
		}
	case symfile.MSFZ:
		for _, id := range o.PDBIDs() {
			l.add(name, guid(id), "msfz"+strconv.Itoa(o.Version), name)
		}
	case symfile.PortablePDB:
		if ids := o.PortableIDs(); ids != nil {
			l.add(name, guid(ids[0]), name)
			l.add(name, guid(ids[1]), name)
		}
	case symfile.ELF:
		l.elf(o, name, ssqp)
	case symfile.MachO:
		l.macho(o, name)
	case symfile.WASM:
		for _, id := range o.BuildIDs() {
			l.add(name, id, name)
		}
	case symfile.Breakpad:
		l = breakpadPaths(o) // in one spelling everywhere
	case symfile.SourceBundle:
		if o.Of != symfile.PE {
			break
		}
		id := o.DebugID.Breakpad()
		if ssqp {
			id = guid(id)
		}
		for _, bundle := range bundleNames(name) {
			l.add(name, id, bundle)
		}
	case symfile.R2RMap, symfile.SHA1, symfile.JSMap:
		l.add(name, o.HashID(), name)
	}
	return l
}

// elf adds the code path and the symbol path. SSQP fills ids to 20 bytes and
// files what has debug information as symbols; Sentry's tools use ids as they
// are and go by what they look for. All of it is asked for.
func (l *list) elf(o symfile.Object, name string, ssqp bool) {
	ids := o.BuildIDs()
	if ssqp && len(ids) == 2 {
		ids[0], ids[1] = ids[1], ids[0]
	}
	for _, id := range ids {
		if ssqp && o.Role&symfile.Debug != 0 {
			l.add(elfSymName, elfSymWord+id, elfSymName)
		}
		if o.Role&symfile.Executable != 0 {
			l.add(name, elfWord+id, name)
		}
		if o.Role&symfile.Debug != 0 {
			l.add(elfSymName, elfSymWord+id, elfSymName)
		}
	}
}

func (l *list) macho(o symfile.Object, name string) {
	u := o.MachUUID()
	if u == "" {
		return
	}
	if o.Role&symfile.Executable != 0 {
		l.add(name, machWord+u, name)
	}
	if o.Role&symfile.Debug != 0 {
		l.add(machSymName, machSymWord+u, machSymName)
	}
}

func index2Paths(o symfile.Object) []string {
	var l list
	for _, p := range symstorePaths(o) {
		name, _, _ := strings.Cut(p, "/")
		l.add(Bucket(name), p)
	}
	return l
}

// breakpadPaths files under DEBUGFILE/ID/STEM.sym; only .pdb leaves the stem,
// whatever its case.
func breakpadPaths(o symfile.Object) []string {
	var l list
	switch o.Kind {
	case symfile.Breakpad:
		l.add(o.Name, o.DebugID.Breakpad(), Stem(o.Name)+".sym")
	case symfile.SourceBundle:
		if o.Of != symfile.WASM {
			l.add(o.Name, o.DebugID.Breakpad(), Stem(o.Name)+".src.zip")
		}
	}
	return l
}

// unifiedIDs lists the ids that Sentry's unified layout files o under.
func unifiedIDs(o symfile.Object) []string {
	var l list
	debug := symfile.Fold(o.DebugID.Breakpad())
	of := o.Kind
	if o.Kind == symfile.SourceBundle || o.Kind == symfile.Breakpad || o.Kind == symfile.IL2CPP {
		of = o.Of
	}
	switch of {
	case symfile.PE:
		l.add(debug)
		if o.Kind == symfile.PE {
			l.add(symfile.Fold(o.CodeID)) // for lookups that know nothing but the image
		}
	case symfile.PDB, symfile.PDB20, symfile.PortablePDB:
		l.add(debug)
	case symfile.ELF, symfile.WASM:
		for _, id := range []string{o.CodeID, string(o.BuildID)} {
			l.add(symfile.Fold(id))
		}
		if len(l) == 0 {
			l.add(debug)
		}
	case symfile.MachO, symfile.UUIDMap, symfile.BCSymbolMap, symfile.ProGuard:
		l.add(symfile.Fold(o.CodeID))
		if len(l) == 0 && debug != "" {
			l.add(o.DebugID.GUID.Lower())
		}
	case symfile.KindUnknown:
		l.add(debug)
		l.add(symfile.Fold(o.CodeID))
	}
	return l
}

func unifiedPaths(o symfile.Object) []string {
	var leaves []string
	switch o.Kind {
	case symfile.PE:
		if o.Role&symfile.Executable == 0 {
			// Debug information cut out of an image; its debug id, if it has
			// one, names a PDB.
			if len(o.CodeID) > 2 {
				return list{symfile.Fold(o.CodeID[:2]) + "/" + symfile.Fold(o.CodeID[2:]) + "/debuginfo"}
			}
			return nil
		}
		leaves = []string{"executable"}
	case symfile.PDB, symfile.PDB20, symfile.PortablePDB:
		leaves = []string{"debuginfo"}
	case symfile.ELF, symfile.MachO, symfile.WASM:
		leaves = companionLeaves(o)
	case symfile.Breakpad:
		leaves = []string{"breakpad"}
	case symfile.SourceBundle:
		leaves = []string{"sourcebundle"}
	case symfile.UUIDMap, symfile.BCSymbolMap, symfile.IL2CPP, symfile.ProGuard:
		leaves = []string{o.Kind.String()}
	}
	var l list
	for _, id := range unifiedIDs(o) {
		if len(id) < 3 {
			continue
		}
		for _, leaf := range leaves {
			l.add(id[:2], id[2:], leaf)
		}
	}
	return l
}

// companionLeaves lists the leaves that any tool uses for an image: symsorter
// goes by what it takes for a debug companion, others by what is inside.
func companionLeaves(o symfile.Object) []string {
	var l list
	if o.DebugCompanion || o.Kind == symfile.WASM && o.Role&symfile.Debug != 0 {
		l.add("debuginfo")
	}
	if o.IsRelocatable() {
		l.add("executable")
	}
	if o.Role&symfile.Executable != 0 {
		l.add("executable")
	}
	if o.Role&symfile.Debug != 0 {
		l.add("debuginfo")
	}
	return l
}

func debuginfodPaths(o symfile.Object) []string {
	var l list
	if o.Kind != symfile.ELF || o.BuildID == "" {
		return nil
	}
	for _, role := range []symfile.Role{symfile.Executable, symfile.Debug} {
		if o.Role&role != 0 {
			l.add("buildid", string(o.BuildID), leafOf(debuginfodLeaves, role))
		}
	}
	return l
}

// gdbPaths files under the first byte of the build-id: the executable without
// a suffix, debug information with .debug.
func gdbPaths(o symfile.Object) []string {
	var l list
	of := o.Kind
	if of == symfile.SourceBundle {
		of = o.Of
	}
	if of != symfile.ELF && of != symfile.WASM {
		return nil
	}
	ids := []string{symfile.Fold(o.CodeID), string(o.BuildID)}
	for _, id := range ids {
		if len(id) < 4 || !debugid.IsHex(id) {
			continue
		}
		if o.Kind == symfile.SourceBundle {
			l.add(id[:2], id[2:]+leafOf(gdbLeaves, symfile.Sources))
			continue
		}
		for _, role := range []symfile.Role{symfile.Executable, symfile.Debug} {
			if o.Role&role != 0 {
				l.add(id[:2], id[2:]+leafOf(gdbLeaves, role))
			}
		}
	}
	return l
}

// lldbPaths files under the UUID's upper-case digits: debug information
// without a suffix, the image with Sentry's .app.
func lldbPaths(o symfile.Object) []string {
	var l list
	of := o.Kind
	if of == symfile.SourceBundle {
		of = o.Of
	}
	if of != symfile.MachO {
		return nil
	}
	g, err := debugid.ParseGUID(o.MachUUID())
	if err != nil {
		return nil
	}
	if o.Kind == symfile.SourceBundle {
		l.add(g.LLDB() + leafOf(lldbLeaves, symfile.Sources))
		return l
	}
	for _, role := range []symfile.Role{symfile.Executable, symfile.Debug} {
		if o.Role&role != 0 {
			l.add(g.LLDB() + leafOf(lldbLeaves, role))
		}
	}
	return l
}

func nativePaths(o symfile.Object) []string {
	var l list
	add := func(paths []string) {
		for _, p := range paths {
			l.add(p)
		}
	}
	switch o.Kind {
	case symfile.PE, symfile.DBG, symfile.PDB, symfile.PDB20, symfile.PortablePDB:
		add(symstorePaths(o))
	case symfile.ELF, symfile.WASM:
		add(gdbPaths(o))
	case symfile.MachO:
		add(lldbPaths(o))
	case symfile.Breakpad:
		add(breakpadPaths(o))
	case symfile.SourceBundle:
		add(gdbPaths(o))
		add(lldbPaths(o))
		add(symstorePaths(o))
		if o.Of == symfile.PortablePDB && !o.DebugID.IsZero() {
			for _, bundle := range bundleNames(o.Name) {
				l.add(o.Name, o.DebugID.GUID.Upper()+symfile.PortableAge, bundle)
			}
		}
		if len(l) > 0 {
			add(breakpadPaths(o))
		}
	}
	return l
}

func slashPaths(o symfile.Object) []string {
	var l list
	switch o.Kind {
	case symfile.PE, symfile.ELF, symfile.MachO, symfile.WASM:
		if debugid.IsHex(o.CodeID) {
			l.add(o.Name, strings.ToUpper(o.CodeID), "symbols")
			l.add(o.Name, symfile.Fold(o.CodeID), "symbols")
		}
	}
	return l
}
