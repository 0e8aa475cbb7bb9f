package layout

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
)

// Layout is one way of arranging symbol files on a server: which paths an
// object has there, and what a path asks for. Parse(p) finds the object for
// every p in its Paths.
type Layout struct {
	name  string
	paths func(Object) []string
	parse func(segments []string) (Request, bool)
}

// The layouts. Paths prints what the layout's owner prints: Microsoft's form
// for symstore and ssqp, Breakpad's for breakpad, Sentry's for unified, native
// and slashsymbols, elfutils' for debuginfod.
var (
	SymStore     = Layout{"symstore", symstorePaths, parseSymstore}
	Index2       = Layout{"symstore_index2", index2Paths, parseIndex2}
	SSQP         = Layout{"ssqp", ssqpPaths, parseSymstore}
	BreakpadTree = Layout{"breakpad", breakpadPaths, parseBreakpad}
	Unified      = Layout{"unified", unifiedPaths, parseUnified}
	Debuginfod   = Layout{"debuginfod", debuginfodPaths, parseDebuginfod}
	GDB          = Layout{"gdb", gdbPaths, parseGDB}
	LLDB         = Layout{"lldb", lldbPaths, parseLLDB}
	Native       = Layout{"native", nativePaths, parseNative}
	SlashSymbols = Layout{"slashsymbols", slashPaths, parseSlash}
)

// All lists the layouts, those of `identify --json` first.
func All() []Layout {
	return []Layout{SymStore, Index2, SSQP, BreakpadTree, Unified, Debuginfod, GDB, LLDB, Native, SlashSymbols}
}

// ByName returns the layout of that name.
func ByName(name string) (Layout, bool) {
	for _, l := range All() {
		if l.name == name {
			return l, true
		}
	}
	return Layout{}, false
}

// Name returns the name used in configuration and output.
func (l Layout) Name() string { return l.name }

// Paths returns the relative paths under which o is asked for in this layout,
// exactly cased, the canonical one first; nil if it has none there.
func (l Layout) Paths(o Object) []string {
	if !ValidName(o.Name) {
		return nil
	}
	return l.paths(o)
}

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

func symstorePaths(o Object) []string { return microsoftPaths(o, o.Name, false) }

// ssqpPaths prints lower-case names and GUIDs, PE stamps in upper case and the
// constant FFFFFFFF, as Microsoft's key generators do.
func ssqpPaths(o Object) []string { return microsoftPaths(o, Fold(o.Name), true) }

func microsoftPaths(o Object, name string, ssqp bool) []string {
	var l list
	guid := func(id string) string {
		if ssqp && len(id) > 32 && !strings.HasSuffix(id, portableAge) {
			return Fold(id)
		}
		if ssqp && len(id) >= 32 {
			return Fold(id[:32]) + id[32:]
		}
		return id
	}
	switch o.Kind {
	case PE, DBG:
		l.add(name, o.CodeID, name)
	case PDB, PDB2:
		for _, id := range o.pdbIDs() {
			l.add(name, guid(id), name)
		}
	case MSFZ:
		for _, id := range o.pdbIDs() {
			l.add(name, guid(id), "msfz"+strconv.Itoa(o.Version), name)
		}
	case PortablePDB:
		if ids := o.portableIDs(); ids != nil {
			l.add(name, guid(ids[0]), name)
			l.add(name, guid(ids[1]), name)
		}
	case ELF:
		l.elf(o, name, ssqp)
	case MachO:
		l.macho(o, name)
	case WASM:
		for _, id := range o.buildIDs() {
			l.add(name, id, name)
		}
	case Breakpad:
		if !ssqp {
			l = breakpadPaths(o)
		}
	case SourceBundle:
		if o.Of == PE && !ssqp {
			l.add(o.Name, o.DebugID.Breakpad(), cutExt(o.Name)+".src.zip")
		} else if o.Of == PE {
			l.add(name, guid(o.DebugID.Breakpad()), cutExt(name)+".src.zip")
		}
	case R2RMap, SHA1, JSMap:
		l.add(name, o.hashID(), name)
	}
	return l
}

// elf adds the code path and the symbol path. SSQP fills ids to 20 bytes and
// files what has debug information as symbols; Sentry's tools use ids as they
// are and go by what they look for. All of it is asked for.
func (l *list) elf(o Object, name string, ssqp bool) {
	ids := o.buildIDs()
	if ssqp && len(ids) == 2 {
		ids[0], ids[1] = ids[1], ids[0]
	}
	for _, id := range ids {
		if ssqp && o.Role&Debug != 0 {
			l.add(elfSymName, "elf-buildid-sym-"+id, elfSymName)
		}
		if o.Role&Executable != 0 {
			l.add(name, "elf-buildid-"+id, name)
		}
		if o.Role&Debug != 0 {
			l.add(elfSymName, "elf-buildid-sym-"+id, elfSymName)
		}
	}
}

func (l *list) macho(o Object, name string) {
	u := o.machUUID()
	if u == "" {
		return
	}
	if o.Role&Executable != 0 {
		l.add(name, "mach-uuid-"+u, name)
	}
	if o.Role&Debug != 0 {
		l.add(machSymName, "mach-uuid-sym-"+u, machSymName)
	}
}

func index2Paths(o Object) []string {
	var l list
	for _, p := range symstorePaths(o) {
		name, _, _ := strings.Cut(p, "/")
		l.add(Bucket(name), p)
	}
	return l
}

// Bucket returns the directory of a two-tier store that holds name: its first
// two characters, or the first alone when the second is a dot or blank, which
// Windows drops from the end of a folder's name.
func Bucket(name string) string {
	end := 0
	for range 2 {
		_, n := utf8.DecodeRuneInString(name[end:])
		end += n
	}
	if b := strings.TrimRight(name[:end], ". "); b != "" {
		return b
	}
	return "_"
}

// breakpadPaths files under DEBUGFILE/ID/STEM.sym; only .pdb leaves the stem,
// whatever its case.
func breakpadPaths(o Object) []string {
	var l list
	switch o.Kind {
	case Breakpad:
		l.add(o.Name, o.DebugID.Breakpad(), Stem(o.Name)+".sym")
	case SourceBundle:
		if o.Of != WASM {
			l.add(o.Name, o.DebugID.Breakpad(), Stem(o.Name)+".src.zip")
		}
	}
	return l
}

// Stem removes a final .pdb of any case, as Breakpad does.
func Stem(name string) string {
	if len(name) > 4 && strings.EqualFold(name[len(name)-4:], ".pdb") {
		return name[:len(name)-4]
	}
	return name
}

// cutExt removes the last dot and what follows.
func cutExt(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}

// unifiedIDs lists the ids that Sentry's unified layout files o under.
func (o Object) unifiedIDs() []string {
	var l list
	debug := Fold(o.DebugID.Breakpad())
	of := o.Kind
	if o.Kind == SourceBundle || o.Kind == Breakpad || o.Kind == IL2CPP {
		of = o.Of
	}
	switch of {
	case PE:
		l.add(debug)
		if o.Kind == PE {
			l.add(Fold(o.CodeID)) // for lookups that know nothing but the image
		}
	case PDB, PDB2, PortablePDB:
		l.add(debug)
	case ELF, WASM:
		for _, id := range []string{o.CodeID, string(o.BuildID)} {
			l.add(Fold(id))
		}
		if len(l) == 0 {
			l.add(debug)
		}
	case MachO, UUIDMap, BCSymbolMap, ProGuard:
		l.add(Fold(o.CodeID))
		if len(l) == 0 && debug != "" {
			l.add(o.DebugID.GUID.Lower())
		}
	case KindUnknown:
		l.add(debug)
		l.add(Fold(o.CodeID))
	}
	return l
}

func unifiedPaths(o Object) []string {
	var leaves []string
	switch o.Kind {
	case PE:
		if o.Role&Executable == 0 {
			// Debug information cut out of an image; its debug id, if it has
			// one, names a PDB.
			if len(o.CodeID) > 2 {
				return list{Fold(o.CodeID[:2]) + "/" + Fold(o.CodeID[2:]) + "/debuginfo"}
			}
			return nil
		}
		leaves = []string{"executable"}
	case PDB, PDB2, PortablePDB:
		leaves = []string{"debuginfo"}
	case ELF, MachO, WASM:
		leaves = companionLeaves(o)
	case Breakpad:
		leaves = []string{"breakpad"}
	case SourceBundle:
		leaves = []string{"sourcebundle"}
	case UUIDMap, BCSymbolMap, IL2CPP, ProGuard:
		leaves = []string{o.Kind.String()}
	}
	var l list
	for _, id := range o.unifiedIDs() {
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
func companionLeaves(o Object) []string {
	var l list
	if o.DebugCompanion || o.Kind == WASM && o.Role&Debug != 0 {
		l.add("debuginfo")
	}
	if o.Role&Executable != 0 {
		l.add("executable")
	}
	if o.Role&Debug != 0 {
		l.add("debuginfo")
	}
	return l
}

func debuginfodPaths(o Object) []string {
	var l list
	if o.Kind != ELF || o.BuildID == "" {
		return nil
	}
	if o.Role&Executable != 0 {
		l.add("buildid", string(o.BuildID), "executable")
	}
	if o.Role&Debug != 0 {
		l.add("buildid", string(o.BuildID), "debuginfo")
	}
	return l
}

// gdbPaths files under the first byte of the build-id: the executable without
// a suffix, debug information with .debug.
func gdbPaths(o Object) []string {
	var l list
	of := o.Kind
	if of == SourceBundle {
		of = o.Of
	}
	if of != ELF && of != WASM {
		return nil
	}
	ids := []string{Fold(o.CodeID), string(o.BuildID)}
	for _, id := range ids {
		if len(id) < 4 || !debugid.IsHex(id) {
			continue
		}
		if o.Kind == SourceBundle {
			l.add(id[:2], id[2:]+".src.zip")
			continue
		}
		if o.Role&Executable != 0 {
			l.add(id[:2], id[2:])
		}
		if o.Role&Debug != 0 {
			l.add(id[:2], id[2:]+".debug")
		}
	}
	return l
}

// lldbPaths files under the UUID's upper-case digits: debug information
// without a suffix, the image with Sentry's .app.
func lldbPaths(o Object) []string {
	var l list
	of := o.Kind
	if of == SourceBundle {
		of = o.Of
	}
	if of != MachO {
		return nil
	}
	g, err := debugid.ParseGUID(o.machUUID())
	if err != nil {
		return nil
	}
	if o.Kind == SourceBundle {
		l.add(g.LLDB() + ".src.zip")
		return l
	}
	if o.Role&Executable != 0 {
		l.add(g.LLDB() + ".app")
	}
	if o.Role&Debug != 0 {
		l.add(g.LLDB())
	}
	return l
}

func nativePaths(o Object) []string {
	var l list
	add := func(paths []string) {
		for _, p := range paths {
			l.add(p)
		}
	}
	switch o.Kind {
	case PE, DBG, PDB, PDB2, PortablePDB:
		add(symstorePaths(o))
	case ELF, WASM:
		add(gdbPaths(o))
	case MachO:
		add(lldbPaths(o))
	case Breakpad:
		add(breakpadPaths(o))
	case SourceBundle:
		add(gdbPaths(o))
		add(lldbPaths(o))
		add(symstorePaths(o))
		if o.Of == PortablePDB && !o.DebugID.IsZero() {
			l.add(o.Name, o.DebugID.GUID.Upper()+portableAge, cutExt(o.Name)+".src.zip")
		}
		if len(l) > 0 {
			add(breakpadPaths(o))
		}
	}
	return l
}

func slashPaths(o Object) []string {
	var l list
	switch o.Kind {
	case PE, ELF, MachO, WASM:
		if debugid.IsHex(o.CodeID) {
			l.add(o.Name, strings.ToUpper(o.CodeID), "symbols")
			l.add(o.Name, Fold(o.CodeID), "symbols")
		}
	}
	return l
}

// ValidName reports whether name can be a path component of its own: not
// empty, at most 255 bytes, no separators, no control characters, neither "."
// nor "..".
func ValidName(name string) bool {
	if name == "" || len(name) > 255 || name == "." || name == ".." {
		return false
	}
	for _, r := range name {
		if r < 0x20 || r == 0x7f || r == '/' || r == '\\' {
			return false
		}
	}
	return true
}

// BaseName returns what follows the last slash or backslash.
func BaseName(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
