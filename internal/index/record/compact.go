package record

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Rows of objects and files are stored short where that is possible, from CompactFormat on. The
// expressions of this file give back what they stand for; who reads such a column uses them. In an
// object's row, unless ident is null:
//
//   - code_id and build_id are sameID for the lower-case hex of ident;
//   - debug_id is one digit for the GUID that is ident, with that digit as its age, or
//     swappedID for the GUID that a little-endian file with the build-id ident has.
//
// In each row:
//
//   - name is empty for name_fold, and initialName for name_fold with its first letter in upper case;
//   - arch and features are a letter if they are frequent, and a space precedes what is such a letter itself;
//   - path of a file is without its folder if dir is not null, and empty for the name of the object.
//
// Rows of older programs stand for themselves.

// CompactFormat is the floor of an index from which on rows are written short.
const CompactFormat = 7

const (
	sameID      = "="
	swappedID   = "<"
	initialName = "/" // no name of an object has a slash
)

// NameColumn, CodeIDColumn, DebugIDColumn and BuildIDColumn are those of object o, as the columns of its row stand for
// them.
const (
	NameColumn = "CASE o.name WHEN '' THEN o.name_fold WHEN '" + initialName +
		"' THEN upper(substr(o.name_fold, 1, 1)) || substr(o.name_fold, 2) ELSE o.name END"
	CodeIDColumn  = "CASE WHEN o.code_id = '" + sameID + "' AND o.ident IS NOT NULL THEN lower(hex(o.ident)) ELSE o.code_id END"
	BuildIDColumn = "CASE WHEN o.build_id = '" + sameID + "' AND o.ident IS NOT NULL THEN lower(hex(o.ident)) ELSE o.build_id END"
	DebugIDColumn = "CASE WHEN o.debug_id = '' OR o.ident IS NULL THEN o.debug_id WHEN o.debug_id = '" + swappedID + "' THEN " +
		identHex2 + "0' WHEN length(o.debug_id) = 1 THEN hex(substr(o.ident, 1, 16)) || o.debug_id ELSE o.debug_id END"
)

// identHex2 are the first 16 bytes of ident in hex, with the fields of a GUID swapped, up to a quotation mark.
const identHex2 = "hex(substr(o.ident, 4, 1)) || hex(substr(o.ident, 3, 1)) || hex(substr(o.ident, 2, 1)) || " +
	"hex(substr(o.ident, 1, 1)) || " +
	"hex(substr(o.ident, 6, 1)) || hex(substr(o.ident, 5, 1)) || hex(substr(o.ident, 8, 1)) || hex(substr(o.ident, 7, 1)) || " +
	"hex(substr(o.ident, 9, 8)) || '"

// PathColumn is the path of file f of object o.
const PathColumn = "CASE WHEN f.dir IS NULL THEN f.path ELSE " + PathInDir + " END"

// PathInDir is PathColumn for a file with a folder.
const PathInDir = "(SELECT d.path FROM tx_dir d WHERE d.tx_id = f.tx_id AND d.no = f.dir) || CASE f.path WHEN '' THEN " + NameColumn +
	" ELSE f.path END"

// Frequent values, of which one has the letter of its place, from A on. Never reorder them.
var (
	archs    = []string{"x86_64", "arm64", "x86", "arm"}
	features = []string{"debug", "symtab", "unwind", "debug symtab", "debug unwind", "symtab unwind", "debug symtab unwind",
		"debug sources", "debug symtab sources", "debug symtab unwind sources", "debug symtab private", "debug symtab unwind private",
		"debug symtab sources private", "debug symtab unwind sources private", "symtab public", "symtab unwind public", "debug type-only",
		"sources", "debug unknown", "debug symtab unknown", "symtab unwind unknown", "debug symtab unwind unknown"}
)

// letters returns an expression that gives back the values for which letters stand in a column.
func letters(column string, values []string) string {
	b := "CASE " + column
	for i, v := range values {
		b += " WHEN '" + letter(i) + "' THEN '" + v + "'"
	}
	return b + " ELSE ltrim(" + column + ", ' ') END"
}

func letter(i int) string { return string(rune('A' + i)) }

// letterOf returns the letter of a value, or the plain form if it has none.
func letterOf(value string, values []string) string {
	for i, v := range values {
		if v == value {
			return letter(i)
		}
	}
	return plainOf(value, values)
}

// plainOf returns the form of a value that stands for no other one.
func plainOf(value string, values []string) string {
	if valueOf(value, values) != value {
		return " " + value
	}
	return value
}

// ArchColumn and FeaturesColumn are those of object o.
var (
	ArchColumn     = ArchColumnOf("o")
	FeaturesColumn = letters("o.features", features)
)

// ArchColumnOf is ArchColumn of another object than o.
func ArchColumnOf(object string) string { return letters(object+".arch", archs) }

// valueOf returns what a letter stands for, or another value itself.
func valueOf(value string, values []string) string {
	if len(value) == 1 {
		if i := int(value[0]) - 'A'; i >= 0 && i < len(values) {
			return values[i]
		}
	}
	return strings.TrimLeft(value, " ")
}

// Compact are columns of a row of an object as they are stored.
type Compact struct {
	CodeID, DebugID, BuildID, Arch, Features string
	Ident                                    []byte // or nil
}

// expand sets the fields of an object from the columns: the same as the expressions, in less time.
func (c *Compact) expand(s *Stored) (err error) {
	o := &s.Object
	s.Arch, s.Features = valueOf(c.Arch, archs), strings.Fields(valueOf(c.Features, features))
	text := ""
	if c.Ident != nil && (c.CodeID == sameID || c.BuildID == sameID) {
		text = hex.EncodeToString(c.Ident)
	}
	if o.CodeID = c.CodeID; text != "" && c.CodeID == sameID {
		o.CodeID = text
	}
	if o.BuildID = debugid.BuildID(c.BuildID); text != "" && c.BuildID == sameID {
		o.BuildID = debugid.BuildID(text)
	}
	switch {
	case c.DebugID == "":
	case len(c.Ident) < 16 || len(c.DebugID) > 1:
		o.DebugID, err = debugid.ParseBreakpad(c.DebugID)
	case c.DebugID == swappedID:
		o.DebugID.GUID = debugid.FromMicrosoft([16]byte(c.Ident))
	default:
		o.DebugID = debugid.ID{GUID: debugid.GUID(c.Ident), Age: uint32(c.DebugID[0] - '0')}
	}
	return err
}

// Plain returns the columns of an object that stand for themselves.
func Plain(o symfile.Object, arch string, words []string) Compact {
	features := plainOf(strings.Join(words, " "), features)
	return Compact{o.CodeID, o.DebugID.Breakpad(), string(o.BuildID), plainOf(arch, archs), features, nil}
}

// Short returns the columns of an object, short where that is possible.
func Short(o symfile.Object, arch string, words []string) Compact {
	c := Plain(o, arch, words)
	c.Arch, c.Features = letterOf(arch, archs), letterOf(strings.Join(words, " "), features)
	ident, err := hex.DecodeString(c.BuildID)
	if c.BuildID == "" {
		ident = o.DebugID.GUID[:]
	}
	text := hex.EncodeToString(ident)
	if err != nil || len(ident) < 16 || c.BuildID != "" && c.BuildID != text || c.CodeID == sameID || o.DebugID.PDB20 || o.DebugID.IsZero() {
		return c
	}
	guid := strings.ToUpper(text[:32])
	switch swapped := o.BuildID.DebugID(true); {
	case o.DebugID.GUID.Upper() == guid && o.DebugID.Age < 10:
		c.DebugID = c.DebugID[32:]
	case c.BuildID != "" && o.DebugID == swapped:
		c.DebugID = swappedID
	case c.BuildID == "":
		return c
	}
	if c.CodeID == text {
		c.CodeID = sameID
	}
	if c.BuildID == text {
		c.BuildID = sameID
	}
	c.Ident = ident
	return c
}

// ShortName returns the short form of an object's name with a folded form. Only one object of a content and a kind
// can have it: the others keep their names.
func ShortName(name, folded string) string {
	if name == folded {
		return ""
	}
	if n := len(name); n == len(folded) && 'A' <= name[0] && name[0] <= 'Z' && folded[0] == name[0]|0x20 && name[1:] == folded[1:] &&
		utf8.ValidString(name) && !strings.ContainsAny(name, "\x00\x01") {
		return initialName
	}
	return name
}

// SplitPath divides the path of a file of an object into its folder, with the separator, and the rest as a row has it.
// The folder is empty if the row must have the whole path.
func SplitPath(path, name string) (dir, rest string) {
	rest = symfile.BaseName(path)
	i := len(path) - len(rest)
	if i < minDir || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\x01") {
		return "", path
	}
	switch rest {
	case name:
		return path[:i], ""
	case "":
		return "", path
	}
	return path[:i], rest
}

// minDir is the length from which on a folder is worth a number.
const minDir = 4
