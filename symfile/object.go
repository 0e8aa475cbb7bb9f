// Package symfile describes symbol files: their kind, the roles that they can
// answer, their ids, and the aliases under which they are found. It does not read
// files; package objfile does.
//
// An Object is made by objfile from a file, or by hand from a name and an id. Package
// layout makes the paths of it that debuggers ask for.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. The numbers of kinds and roles are
// stored in indexes and never change; new ones are added at the end. Aliases may
// return more aliases as conventions of clients are added, but never fewer.
package symfile

import (
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// Kind is the kind of a symbol file.
type Kind uint8

// The kinds, in the order of their stored numbers. Never renumber them.
const (
	KindUnknown Kind = iota
	PE
	PDB         // MSF 7.0
	PDB20       // MSF 2.0, "JG"
	PortablePDB // a file of its own or extracted from a PE
	MSFZ        // compressed PDB container, also called PDZ
	DBG         // IMAGE_SEPARATE_DEBUG_HEADER
	ELF
	MachO // one thin image; a fat file contains several
	WASM
	Breakpad
	SourceBundle // Sentry's SYSB archive
	SymCache     // Windows Performance Analyzer's
	R2RMap       // ready-to-run perf map
	BCSymbolMap
	UUIDMap
	SHA1 // any file under the SHA-1 of its bytes; only if requested when added
	JSMap
	IL2CPP
	ProGuard
)

var kindNames = [...]string{
	"unknown", "pe", "pdb", "pdb2", "portablepdb", "msfz", "dbg", "elf", "macho", "wasm", "breakpad", "sourcebundle",
	"symcache", "r2rmap", "bcsymbolmap", "uuidmap", "sha1", "jsmap", "il2cpp", "proguard",
}

// String returns the lower-case word used in output, configuration and the index.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// ParseKind is the inverse of Kind.String; it returns KindUnknown for other words.
func ParseKind(s string) Kind {
	for k, n := range kindNames {
		if n == s {
			return Kind(k)
		}
	}
	return KindUnknown
}

// Role is the set of roles that an object can answer: an unstripped ELF file is
// both an executable and debug information.
type Role uint16

// The roles. Never renumber them: the index stores them.
const (
	Executable   Role = 1 << iota // code: PE images, ELF and Mach-O with loadable contents, WASM modules
	Debug                         // debug information: PDB, DWARF, dSYM, DBG
	Symbols                       // a Breakpad .sym file
	Sources                       // a source bundle
	UUIDs                         // a UuidMap property list
	BCSymbols                     // a BCSymbolMap
	IL2CPPMap                     // a Unity line mapping
	Mapping                       // a ProGuard mapping
	Other                         // files with a content hash or a signature as the key: sources, perf maps, source maps
	Compressed                    // a PDB in an MSFZ container, sent only to clients that accept it
	CodeInfo                      // a Breakpad file under its module's code file and code id: answered by a redirect
	SymCacheFile                  // a SymCache file
	Companion                     // an executable that symsorter keeps as debug information, as it does static programs
	Relocatable                   // a relocatable object with debug information, which symsorter keeps as an executable

	AnyRole Role = 1<<iota - 1
)

var roleNames = [...]string{
	"executable", "debug", "symbols", "sources", "uuids", "bcsymbols", "il2cppmap", "mapping", "other", "compressed", "codeinfo",
	"symcachefile", "companion", "relocatable",
}

// String returns the names of the roles in lower case, with "|" between them: "executable|debug".
// No role is "none", and AnyRole is "any".
func (r Role) String() string {
	switch r {
	case 0:
		return "none"
	case AnyRole:
		return "any"
	}
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if r &^= AnyRole; r != 0 {
		names = append(names, fmt.Sprintf("%#x", uint16(r)))
	}
	return strings.Join(names, "|")
}

// Object is one object with all values that the paths of layouts are built from.
// A fat Mach-O file contains several objects.
type Object struct {
	Kind Kind
	Role Role
	// Name is the base name that clients request, in its original case. For a
	// Breakpad file it is the name of the debug file in the MODULE record.
	Name string
	// CodeName is the file name of the module for Breakpad files and source
	// bundles, whose Name is that of the debug file. For a SymCache file it is the
	// file name with the version. It is empty if unknown, and for other kinds.
	CodeName string
	// CodeID is the code id as text: of a PE or DBG file as formatted by
	// debugid.PE, of ELF, Mach-O and WASM files in lower-case hex, of a Breakpad
	// file or source bundle as in its header, in the spelling of the kind Of.
	CodeID string
	// DebugID is zero if the object has no debug id.
	DebugID debugid.ID
	// InfoAge is the age in the info stream of a PDB. It may differ from the age
	// in DebugID, which comes from the DBI stream.
	InfoAge uint32
	// NoDBI marks a type-only PDB: its key is the GUID without an age.
	NoDBI bool
	// BuildID is the ELF build-id, or the WASM build id without its length byte.
	BuildID debugid.BuildID
	// Of is the kind of module that a Breakpad file or source bundle
	// describes: PE, PortablePDB, ELF, MachO, WASM or KindUnknown.
	Of Kind
	// DebugCompanion marks an ELF, Mach-O or WASM file that symsorter stores as
	// "debuginfo" in the unified layout, regardless of its other roles.
	DebugCompanion bool
	// Main marks a program, not a library. SSQP defines the additional name
	// apphost for programs.
	Main bool
	// Version is the container or format version in the key: N of msfzN and of
	// r2rmap-vN.
	Version int
	// Hash is the content hash or signature in lower-case hex that forms the key
	// of SHA1 (40 digits), JSMap (64 digits, of the script) and R2RMap (32
	// digits) files. Of an ELF file with split DWARF it is the SplitID or the
	// PackageID of the lowest id of its units.
	Hash string
}

// Fold returns a name or an id in lower case for comparison, because Windows
// clients send them in any case.
func Fold(s string) string { return strings.ToLower(s) }

// ValidName reports whether name is a valid path component: 1 to 255 bytes, no
// separators, no control characters, neither "." nor "..".
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

// BaseName returns the part of path after the last slash or backslash.
func BaseName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' || path[i] == '\\' {
			return path[i+1:]
		}
	}
	return path
}

// IsDevice reports whether Windows treats name as a device in every folder and with
// every extension: CON, PRN, AUX, NUL, COM0 to COM9, LPT0 to LPT9, CONIN$ and
// CONOUT$ (Microsoft's naming conventions for files).
func IsDevice(name string) bool {
	stem, _, _ := strings.Cut(Fold(name), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	if len(stem) != 4 || stem[3] < '0' || stem[3] > '9' {
		return false
	}
	return stem[:3] == "com" || stem[:3] == "lpt"
}
