// Package symfile describes a symbol file as others need it: what kind of file
// it is, which roles it can answer, the ids that name it, and the aliases under
// which it is found. It reads no files; package objfile does that.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. The numbers of kinds and roles are
// stored in indexes and never change; new ones are added at the end. The rules
// of Aliases grow with the conventions of clients: an alias that exists stays.
package symfile

import (
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// Kind says what a symbol file is.
type Kind uint8

// The kinds, in the order of their stored numbers. Never renumber them.
const (
	KindUnknown Kind = iota
	PE
	PDB         // MSF 7.0
	PDB20       // MSF 2.0, "JG"
	PortablePDB // alone or taken out of a PE
	MSFZ        // compressed PDB container, also called PDZ
	DBG         // IMAGE_SEPARATE_DEBUG_HEADER
	ELF
	MachO // one thin image; a fat file holds several
	WASM
	Breakpad
	SourceBundle // Sentry's SYSB archive
	SymCache     // Windows Performance Analyzer's
	R2RMap       // ready-to-run perf map
	BCSymbolMap
	UUIDMap
	SHA1 // any file under the SHA-1 of its bytes, on request only
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

// Role says what an object can answer. It is a set: an unstripped ELF file is
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
	Other                         // files asked for by content hash or own signature: sources, perf maps, source maps
	Compressed                    // a PDB in an MSFZ container, answered only to clients that take it
	CodeInfo                      // a Breakpad file under its module's code file and code id: answered by a redirect
	SymCacheFile                  // a SymCache file
	Companion                     // an executable that symsorter keeps as debug information, as it does static programs
	Relocatable                   // a relocatable object with debug information, which symsorter keeps as an executable

	AnyRole Role = 1<<iota - 1
)

// Object is one symbol object with everything that a path may be made of. A
// fat Mach-O file holds several objects.
type Object struct {
	Kind Kind
	Role Role
	// Name is the base name under which clients ask, in the case given. For
	// a Breakpad file it is the debug file named in its MODULE record.
	Name string
	// CodeName is the module's own file name where it is known and differs
	// in meaning from Name: Breakpad files and source bundles. A SymCache
	// file's own file name, which carries its version. Else empty.
	CodeName string
	// CodeID is the printed code id: a PE's or DBG's as debugid.PE prints
	// it; ELF, Mach-O and WASM in lower-case hex; a Breakpad file's or
	// source bundle's as its header has it, in the spelling of its Of kind.
	CodeID string
	// DebugID is zero where there is none.
	DebugID debugid.ID
	// InfoAge is the age in the PDB info stream; it may differ from the age
	// in DebugID, which is the DBI stream's.
	InfoAge uint32
	// NoDBI marks a type-only PDB: its key is the GUID without an age.
	NoDBI bool
	// BuildID is the ELF build-id or the WASM build id without its length.
	BuildID debugid.BuildID
	// Of is the kind of module that a Breakpad file or source bundle
	// describes: PE, PortablePDB, ELF, MachO, WASM or KindUnknown.
	Of Kind
	// DebugCompanion marks an ELF, Mach-O or WASM file that symsorter files
	// under "debuginfo" in the unified layout, whatever else it can answer.
	DebugCompanion bool
	// Main marks a program rather than a library: SSQP gives it the extra
	// name apphost.
	Main bool
	// Version is the container or format version where a key carries one:
	// N of msfzN and of r2rmap-vN.
	Version int
	// Hash is the content hash or signature, in lower-case hex, that is the
	// whole key of SHA1 (40 digits), JSMap (64 digits, of the script) and
	// R2RMap (32 digits).
	Hash string
}

// Fold returns the form of a name or an id that is compared: lower case,
// because Windows clients ask in any case.
func Fold(s string) string { return strings.ToLower(s) }

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

// IsDevice reports whether Windows takes name for a device, whatever its folder
// and extension: CON, PRN, AUX, NUL, COM0 to COM9, LPT0 to LPT9, CONIN$ and
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
