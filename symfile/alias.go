package symfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// Alias is one name and id under which an object is found, with the roles that
// this spelling answers. Every object is indexed under all its aliases, so a
// lookup only compares and does not have to guess the kind of the object.
type Alias struct {
	Name string // folded; never empty
	ID   string // folded; never empty
	Role Role
}

// IDKind is the kind of id in a path. Ids of different kinds look alike: the GUID
// of a PDB has as many digits as an MD5 build-id.
type IDKind uint8

// The kinds of ids.
const (
	AnyID    IDKind = iota // the path does not determine the kind
	BuildIDs               // the build-id of an ELF file or a WASM module
	MachIDs                // the UUID of a Mach-O image
)

// String returns "any", "build-id" or "mach-uuid".
func (k IDKind) String() string {
	switch k {
	case BuildIDs:
		return "build-id"
	case MachIDs:
		return "mach-uuid"
	}
	return "any"
}

// Kinds returns the kinds of objects that have ids of this kind; nil means all.
func (k IDKind) Kinds() []Kind {
	switch k {
	case BuildIDs:
		return []Kind{ELF, WASM, SourceBundle}
	case MachIDs:
		return []Kind{MachO, SourceBundle}
	}
	return nil
}

// Lookup is the name, the id and the roles that a path asks for.
type Lookup struct {
	Name string // folded; empty: any name
	ID   string // folded
	Role Role   // the object must have at least one of these roles
	// IDKind is the kind of id in the path. Objects without ids of this kind do
	// not match.
	IDKind IDKind
	// Unique requires that exactly one content matches. It is set on lookups that
	// ignore the name that the client sent.
	Unique bool
}

// Finds reports whether l matches o under one of the aliases of o.
func (l Lookup) Finds(o Object) bool {
	if kinds := l.IDKind.Kinds(); kinds != nil && !slices.Contains(kinds, o.Kind) {
		return false
	}
	return slices.ContainsFunc(o.Aliases(), l.Matches)
}

// Matches reports whether l matches a. It does not check the kind of the object.
func (l Lookup) Matches(a Alias) bool {
	return (l.Name == "" || l.Name == a.Name) && l.ID == a.ID && l.Role&a.Role != 0
}

// PortableAge replaces the age in the key of a portable PDB (SSQP key conventions,
// portable PDB).
const PortableAge = "FFFFFFFF"

// aliases collects aliases in order, without duplicates.
type aliases struct {
	name string // folded name of the object
	list []Alias
}

func (a *aliases) add(name, id string, role Role) {
	if name == "" || id == "" || role == 0 {
		return
	}
	name, id = Fold(name), Fold(id)
	for i := range a.list {
		if a.list[i].Name == name && a.list[i].ID == id {
			a.list[i].Role |= role
			return
		}
	}
	a.list = append(a.list, Alias{name, id, role})
}

// Aliases returns all aliases of o, the canonical one first. An object without an
// id has no aliases.
func (o Object) Aliases() []Alias {
	a := &aliases{name: o.Name}
	switch o.Kind {
	case PE, DBG:
		o.peAliases(a)
	case PDB, PDB20, MSFZ:
		for _, id := range o.PDBIDs() {
			a.add(o.Name, id, o.Role)
		}
	case PortablePDB:
		for _, id := range o.PortableIDs() {
			a.add(o.Name, id, o.Role)
		}
	case ELF, WASM:
		o.buildIDAliases(a)
	case MachO:
		role := o.Role
		if o.DebugCompanion {
			role |= Companion
		}
		a.add(o.Name, o.MachUUID(), role)
		a.add(o.Name, o.DebugID.Breakpad(), role)
	case Breakpad:
		o.breakpadAliases(a)
	case SourceBundle:
		a.add(o.Name, o.DebugID.Breakpad(), Sources)
		if o.Of == PortablePDB {
			a.add(o.Name, o.DebugID.GUID.Lower()+PortableAge, Sources)
		}
		a.add(o.Name, o.CodeID, Sources)
		if o.DebugID.Age == 0 && !o.DebugID.IsZero() && o.Of == MachO {
			a.add(o.Name, o.DebugID.GUID.Lower(), Sources)
		}
	case SymCache:
		a.add(o.Name, o.DebugID.Breakpad(), SymCacheFile)
	case UUIDMap, BCSymbolMap, IL2CPP, ProGuard:
		a.add(o.Name, o.CodeID, o.Role)
		if !o.DebugID.IsZero() {
			a.add(o.Name, o.DebugID.GUID.Lower(), o.Role)
			a.add(o.Name, o.DebugID.Breakpad(), o.Role)
		}
	case R2RMap, SHA1, JSMap:
		a.add(o.Name, o.HashID(), Other)
	}
	return a.list
}

func (o Object) peAliases(a *aliases) {
	a.add(o.Name, o.CodeID, o.Role)
	if len(o.CodeID) > 8 && o.CodeID[0] == '0' {
		// dotnet-symbol before September 2020 wrote time stamps without leading
		// zeros.
		a.add(o.Name, cmp.Or(strings.TrimLeft(o.CodeID[:8], "0"), "0")+o.CodeID[8:], o.Role)
	}
	if !o.DebugID.IsZero() {
		// The unified layout stores an image under its debug id.
		a.add(o.Name, o.DebugID.Breakpad(), o.Role&Executable)
		if o.Kind == PE && o.Role == Debug {
			// The debug file that objcopy makes of a MinGW image has the debug id of
			// the image, and its own time stamp.
			a.add(o.Name, o.DebugID.Breakpad(), Debug)
		}
	}
	if o.Main && o.Kind == PE {
		a.add("apphost.exe", o.CodeID, Executable)
	}
}

// PDBIDs returns the keys of a Windows PDB, the canonical one first. The debug
// record of the image holds the age of the DBI stream. Tools that rewrite the
// info stream increase only the age of the info stream.
func (o Object) PDBIDs() []string {
	if o.DebugID.IsZero() {
		return nil
	}
	ids := []string{o.DebugID.Breakpad()}
	if o.NoDBI {
		ids = []string{o.DebugID.GUID.Upper(), o.DebugID.Breakpad()}
	}
	if !o.DebugID.PDB20 && o.InfoAge != 0 && o.InfoAge != o.DebugID.Age {
		ids = append(ids, o.DebugID.GUID.Upper()+strconv.FormatUint(uint64(o.InfoAge), 16))
	}
	return ids
}

// PortableIDs returns the keys of a portable PDB: the SSQP key, the key that
// Windows debuggers build from the debug record of the image, and Sentry's key
// with the stamp.
func (o Object) PortableIDs() []string {
	if o.DebugID.IsZero() {
		return nil
	}
	g := o.DebugID.GUID.Upper()
	return []string{g + PortableAge, g + "1", o.DebugID.Breakpad()}
}

// IsRelocatable reports whether o is a relocatable ELF object (.o, .ko), not a
// program, a library or the debug information of one.
func (o Object) IsRelocatable() bool {
	return o.Kind == ELF && o.Role&(Executable|Debug) == Debug && !o.DebugCompanion
}

func (o Object) buildIDAliases(a *aliases) {
	ids := o.BuildIDs()
	role := o.Role
	if o.DebugCompanion {
		role |= Companion
	}
	if o.IsRelocatable() {
		role |= Relocatable
	}
	for _, id := range ids {
		a.add(o.Name, id, role)
	}
	a.add(o.Name, o.DebugID.Breakpad(), role)
	a.add(o.Name, o.Hash, o.Role&Debug)
	if o.Kind == ELF && o.Role&Executable != 0 && (o.Main || Fold(o.Name) == "dotnet") {
		for _, id := range ids {
			a.add("apphost", id, Executable)
		}
	}
}

// BuildIDs returns the spellings of an ELF or WASM build-id: unchanged, padded with
// zeros as in SSQP, and for WASM the raw section with its length byte.
func (o Object) BuildIDs() []string {
	var ids []string
	add := func(s string) {
		for _, have := range ids {
			if have == s {
				return
			}
		}
		if s != "" {
			ids = append(ids, s)
		}
	}
	if o.Kind == WASM {
		add(o.CodeID)
	}
	add(string(o.BuildID))
	if o.Kind == ELF {
		add(o.BuildID.Padded())
	}
	return ids
}

// SplitID returns the id under which a .dwo file with a unit of this id is found.
func SplitID(unit uint64) string { return fmt.Sprintf("dwo-%016x", unit) }

// PackageID returns the id under which a .dwp package is found whose units have this
// id as the lowest.
func PackageID(unit uint64) string { return fmt.Sprintf("dwp-%016x", unit) }

// MachUUID returns the 32 lower-case digits of a Mach-O UUID, or "".
func (o Object) MachUUID() string {
	if o.CodeID != "" {
		if g, err := debugid.ParseGUID(o.CodeID); err == nil {
			return g.Lower()
		}
		return ""
	}
	if o.DebugID.IsZero() {
		return ""
	}
	return o.DebugID.GUID.Lower()
}

func (o Object) breakpadAliases(a *aliases) {
	id := o.DebugID.Breakpad()
	a.add(o.Name, id, Symbols)
	if o.CodeName != "" {
		// MinGW modules have no debug file: clients use the name of the code file.
		a.add(o.CodeName, id, Symbols)
	}
	code := o.CodeID
	if code == "" {
		return
	}
	name := o.CodeName
	if name == "" {
		name = o.Name
	}
	a.add(name, code, CodeInfo)
	if o.Of != PE {
		// The unified layout stores Breakpad files of ELF and Mach-O modules under
		// the code id.
		a.add(o.Name, code, Symbols)
	}
}

// HashID returns the key of the kinds whose key is a hash, with the SSQP prefix if
// SSQP defines one.
func (o Object) HashID() string {
	switch {
	case o.Hash == "":
		return ""
	case o.Kind == R2RMap:
		return "r2rmap-v" + strconv.Itoa(o.Version) + "-" + o.Hash
	case o.Kind == SHA1:
		return "sha1-" + o.Hash
	}
	return o.Hash
}

// RuntimeHelpers returns the aliases under which debuggers request the helper
// library (DAC, DBI, SOS) of a .NET runtime: the name of the helper with the id of
// the runtime (SSQP, CLR private conventions). It returns nil if helper does not
// belong to runtime.
func RuntimeHelpers(runtime, helper Object) []Alias {
	h := Fold(helper.Name)
	isHelper := false
	for _, p := range []string{"mscordac", "libmscordac", "mscordbi", "libmscordbi", "sos", "libsos"} {
		isHelper = isHelper || strings.HasPrefix(h, p)
	}
	if !isHelper {
		return nil
	}
	var id string
	switch Fold(runtime.Name) {
	case "coreclr.dll", "clr.dll":
		id = runtime.CodeID
	case "libcoreclr.so":
		if p := runtime.BuildID.Padded(); p != "" {
			id = "coreclr-" + p
		}
	case "libcoreclr.dylib":
		if u := runtime.MachUUID(); u != "" {
			id = "coreclr-" + u
		}
	}
	if id == "" {
		return nil
	}
	return []Alias{{h, Fold(id), Executable}}
}
