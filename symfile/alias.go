package symfile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// Alias is one spelling under which an object is found: a folded name, a
// folded id and the roles in which it answers there. Ingest enters every
// object under all its aliases; a lookup compares, and guesses no kind.
type Alias struct {
	Name string // folded; never empty
	ID   string // folded; never empty
	Role Role
}

// IDKind says which kind of id a path names. Ids of different kinds may have
// equal digits: the GUID of a PDB looks like an MD5 build-id.
type IDKind uint8

// The kinds of ids.
const (
	AnyID    IDKind = iota // the path does not say
	BuildIDs               // the build-id of an ELF file or a WASM module
	MachIDs                // the UUID of a Mach-O image
)

// Kinds lists the kinds of objects that have ids of this kind; nil: all.
func (k IDKind) Kinds() []Kind {
	switch k {
	case BuildIDs:
		return []Kind{ELF, WASM, SourceBundle}
	case MachIDs:
		return []Kind{MachO, SourceBundle}
	}
	return nil
}

// Lookup is what one path asks for.
type Lookup struct {
	Name string // folded; empty: any name
	ID   string // folded
	Role Role   // any of these
	// IDKind is the kind of id that the path names: an object whose kind has no
	// such ids is not an answer.
	IDKind IDKind
	// Unique: answer only if exactly one content matches. It is set on lookups
	// that omit the name although the client gave one.
	Unique bool
}

// Finds reports whether o is an answer to l under one of its aliases.
func (l Lookup) Finds(o Object) bool {
	if kinds := l.IDKind.Kinds(); kinds != nil && !slices.Contains(kinds, o.Kind) {
		return false
	}
	return slices.ContainsFunc(o.Aliases(), l.Matches)
}

// Matches reports whether a is an answer to l, if the kind of its object is.
func (l Lookup) Matches(a Alias) bool {
	return (l.Name == "" || l.Name == a.Name) && l.ID == a.ID && l.Role&a.Role != 0
}

// PortableAge takes the place of the age in a portable PDB's key (SSQP key
// conventions, portable PDB).
const PortableAge = "FFFFFFFF"

// aliases collects without duplicates, in order.
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

// Aliases returns every spelling under which o is found, own spelling first.
// An object without any id has none.
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
		// The unified layout files an image under its debug id.
		a.add(o.Name, o.DebugID.Breakpad(), o.Role&Executable)
	}
	if o.Main && o.Kind == PE {
		a.add("apphost.exe", o.CodeID, Executable)
	}
}

// PDBIDs lists the keys of a Windows PDB, canonical first. The image's record
// holds the DBI age; tools that rewrite the info stream raise only that one.
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

// PortableIDs lists the keys of a portable PDB: SSQP's, the one that Windows
// debuggers build from the image's record, and Sentry's with the stamp.
func (o Object) PortableIDs() []string {
	if o.DebugID.IsZero() {
		return nil
	}
	g := o.DebugID.GUID.Upper()
	return []string{g + PortableAge, g + "1", o.DebugID.Breakpad()}
}

// IsRelocatable reports whether o is an ELF file that is neither a program or
// library nor the debug information of one: a relocatable object (.o, .ko).
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
	if o.Kind == ELF && o.Role&Executable != 0 && (o.Main || Fold(o.Name) == "dotnet") {
		for _, id := range ids {
			a.add("apphost", id, Executable)
		}
	}
}

// BuildIDs lists the spellings of an ELF or WASM id: as it is, zero-filled as
// SSQP has it, and for WASM the raw section with its length byte.
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
		// MinGW modules have no debug file: they are asked for by the code file.
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
		// Unified files Breakpad files of ELF and Mach-O modules by code id.
		a.add(o.Name, code, Symbols)
	}
}

// HashID returns the key of the kinds that are asked for by a hash of their
// own, with SSQP's word in front where it has one.
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

// RuntimeHelpers returns aliases under which a debugger's helper library (DAC,
// DBI, SOS) is asked for when runtime is the .NET runtime that it belongs to:
// the helper's own name with the runtime's id (SSQP's CLR private
// conventions). It returns nil when the two do not belong together.
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
