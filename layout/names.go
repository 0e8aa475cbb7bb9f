package layout

import (
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/symfile"
)

// cleanName returns the usable base name of a decoded path segment. Some
// clients send the whole path of a Windows build machine.
func cleanName(s string) (string, bool) {
	s = symfile.BaseName(s)
	return s, symfile.ValidName(s)
}

// CabinetName returns the name of the cabinet that holds a file compressed: the
// last character of the file's name becomes an underscore.
func CabinetName(name string) string {
	_, n := utf8.DecodeLastRuneInString(name)
	return name[:len(name)-n] + "_"
}

// isStem reports whether stem is what some tool leaves of name before it
// appends .sym or .src.zip. Both are folded. Breakpad cuts .pdb, Sentry's
// documentation .exe and .dll too, Sentry's code ".pdb.dll", Sentry's bundles
// whatever follows the last dot; others cut nothing.
func isStem(name, stem string) bool {
	if stem == name || stem == Stem(name) || stem == cutExt(name) {
		return true
	}
	return stem == strings.TrimSuffix(name, ".pdb.dll")
}

// isBucket reports whether b is the two-tier directory of name: its first one
// or two characters in any case. POSIX tools leave the dot that Windows drops.
func isBucket(b, name string) bool {
	b, name = symfile.Fold(b), symfile.Fold(name)
	if n := len([]rune(b)); n < 1 || n > 2 {
		return false
	}
	return strings.HasPrefix(name, b)
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

// Stem removes a final .pdb of any case, as Breakpad does.
func Stem(name string) string {
	if len(name) > 4 && strings.EqualFold(name[len(name)-4:], ".pdb") {
		return name[:len(name)-4]
	}
	return name
}

// cutExt removes the extension: the last dot and what follows, unless the name
// begins with that dot.
func cutExt(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[:i]
	}
	return name
}

// bundleNames lists the names of the source bundle of a PDB in a symbol store:
// Symbolicator's code cuts the extension, the page of Sentry that describes the
// layouts keeps it.
func bundleNames(name string) []string {
	l := list{cutExt(name) + ".src.zip"}
	l.add(name + ".src.zip")
	return l
}

// stems are what tools leave of a name before .sym and .src.zip.
func stems(name string) []string {
	list := []string{Stem(name)}
	for _, s := range []string{name, cutExt(name)} {
		if s != list[0] && s != list[len(list)-1] {
			list = append(list, s)
		}
	}
	return list
}

// Names and words of the SSQP key conventions: symbols of ELF and Mach-O files
// have a constant name, and a word in front of an id says which kind it is.
const (
	elfSymName  = "_.debug"
	machSymName = "_.dwarf"
	elfWord     = "elf-buildid-"
	elfSymWord  = "elf-buildid-sym-"
	machWord    = "mach-uuid-"
	machSymWord = "mach-uuid-sym-"
)

// leaf is the file name or suffix under which a layout keeps objects of a role.
type leaf struct {
	role symfile.Role
	name string
}

// unifiedLeaves are the last parts of Sentry's unified layout.
var unifiedLeaves = []leaf{
	{symfile.Executable | symfile.Relocatable, "executable"},
	{symfile.Debug | symfile.Companion, "debuginfo"},
	{symfile.Symbols, "breakpad"}, {symfile.Sources, "sourcebundle"},
	{symfile.UUIDs, "uuidmap"}, {symfile.BCSymbols, "bcsymbolmap"}, {symfile.IL2CPPMap, "il2cpp"}, {symfile.Mapping, "proguard"},
}

// debuginfodLeaves are the artifacts of the debuginfod protocol that are whole
// files.
var debuginfodLeaves = []leaf{{symfile.Debug, "debuginfo"}, {symfile.Executable, "executable"}}

// gdbLeaves and lldbLeaves are suffixes.
var (
	gdbLeaves  = []leaf{{symfile.Debug, ".debug"}, {symfile.Executable, ""}, {symfile.Sources, ".src.zip"}}
	lldbLeaves = []leaf{{symfile.Debug, ""}, {symfile.Executable, ".app"}, {symfile.Sources, ".src.zip"}}
)

// leafOf returns the leaf of a role.
func leafOf(leaves []leaf, role symfile.Role) string {
	for _, l := range leaves {
		if l.role&role != 0 {
			return l.name
		}
	}
	return ""
}

// cutLeaf removes the suffix of a folded name and returns the role that it
// stands for. A name with none of the suffixes has the role of the empty one.
func cutLeaf(leaves []leaf, name string) (rest string, role symfile.Role) {
	rest = name
	for _, l := range leaves {
		if l.name == "" {
			role = l.role
		} else if t, ok := strings.CutSuffix(name, l.name); ok {
			return t, l.role
		}
	}
	return rest, role
}
