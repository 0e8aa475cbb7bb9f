package symcache

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
)

// ErrEntry is wrapped by the error for a file that does not belong in a SymCache folder.
var ErrEntry = errors.New("not a file of a SymCache folder")

// ErrForeign is wrapped by the error for a symcache file of a different tool.
var ErrForeign = errors.New("a symcache of Sentry's tools, which Windows Performance Analyzer does not read")

// ErrOtherFormat is wrapped by the error for a file in a different known format.
var ErrOtherFormat = errors.New("not the contents of a SymCache file")

// Extensions of the files in a SymCache folder.
const (
	Extension         = ".symcache"
	negativeExtension = ".negativesymcache"
)

// EntryKind is the kind of a file in a SymCache folder.
type EntryKind uint8

// The kinds.
const (
	// File is a SymCache file.
	File EntryKind = iota
	// Unfinished is the temporary file of a running download or transcoding, or
	// the record of its failure.
	Unfinished
	// Negative is a file with which Microsoft's sample server remembers that it
	// could not make a SymCache file; see ParseExpiry. Its Version is the
	// requested version.
	Negative
	// Old is a file of the first two generations, which had no subfolders.
	// Clients cannot request it over HTTP.
	Old
)

// String returns "file", "unfinished", "negative" or "old".
func (k EntryKind) String() string {
	switch k {
	case Unfinished:
		return "unfinished"
	case Negative:
		return "negative"
	case Old:
		return "old"
	}
	return "file"
}

// Entry is one file of a SymCache folder. Only Kind is set for Unfinished and Old.
type Entry struct {
	Kind    EntryKind
	Key     Key // with the spelling of the name in the folder
	Version Version
}

// Folder returns the name of the middle folder: GUID and age in upper-case hex.
func (k Key) Folder() string {
	return k.ID.GUID.Upper() + strings.ToUpper(strconv.FormatUint(uint64(k.ID.Age), 16))
}

// FileName returns the file name of the key's SymCache file of version v.
func (k Key) FileName(v Version) string { return k.Name + "-" + v.Segment() + Extension }

// Path returns the path of the key's file of version v relative to the SymCache
// folder, with slashes. The name must be valid.
func (k Key) Path(v Version) string { return k.Name + "/" + k.Folder() + "/" + k.FileName(v) }

var (
	leaf = regexp.MustCompile(`(?i)^(.+)-(v\d+\.\d+\.\d+(?:-[0-9a-z-]+)?)\.(negative)?symcache$`)
	// The first two generations: IMAGE-KEYv1.symcache.
	old = regexp.MustCompile(`(?i)^.+-[0-9a-f]{16,40}v[12]\.symcache$`)
)

// ParsePath parses the last two folders and the file name of a path. Slashes and
// backslashes separate components; the two folders may follow any other folders.
func ParsePath(path string) (Entry, error) {
	bad := func(why string) (Entry, error) {
		return Entry{}, fmt.Errorf("%q: %s: %w", truncate.Text(path), why, ErrEntry)
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	if len(parts) == 0 {
		return bad("an empty path")
	}
	base := parts[len(parts)-1]
	for _, p := range parts[max(0, len(parts)-3):] {
		if p[0] == '.' {
			return bad("a hidden file or folder")
		}
	}
	for _, ext := range [3]string{".pending", ".tmp", ".error"} {
		if hasSuffix(base, ext) {
			return Entry{Kind: Unfinished}, nil
		}
	}
	if old.MatchString(base) {
		return Entry{Kind: Old}, nil
	}
	name, v, negative, err := parseFileName(base)
	if err != nil {
		return Entry{}, err
	}
	const outside = "it lies outside of its folders NAME.pdb and GUID with age"
	if len(parts) < 3 {
		return bad(outside)
	}
	e := Entry{Key: Key{Name: parts[len(parts)-3]}, Version: v}
	if negative {
		e.Kind = Negative
	}
	if !strings.EqualFold(name, e.Key.Name) {
		if _, err := ParseFolder(parts[len(parts)-2]); err != nil {
			return bad(outside)
		}
		return bad("it is named after a different PDB than its folder")
	}
	if !ValidName(e.Key.Name) {
		return bad("its folder has an invalid name")
	}
	if e.Key.ID, err = ParseFolder(parts[len(parts)-2]); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// ParseFileName parses NAME-vN.N.N.symcache, the name of a complete SymCache file.
func ParseFileName(base string) (name string, v Version, err error) {
	name, v, negative, err := parseFileName(base)
	if err == nil && negative {
		err = fmt.Errorf("%q: a remembered miss, not a SymCache file: %w", truncate.Text(base), ErrEntry)
	}
	if err != nil {
		return "", Version{}, err
	}
	return name, v, nil
}

func parseFileName(base string) (name string, v Version, negative bool, err error) {
	if !hasSuffix(base, Extension) && !hasSuffix(base, negativeExtension) {
		return "", v, false, fmt.Errorf("%q: its name does not end in %s: %w", truncate.Text(base), Extension, ErrEntry)
	}
	m := leaf.FindStringSubmatch(base)
	if m == nil {
		return "", v, false, fmt.Errorf("%q: its name does not end in a version such as -v3.1.0: %w", truncate.Text(base), ErrEntry)
	}
	if v, err = ParseVersion(m[2]); err != nil {
		return "", v, false, fmt.Errorf("%w: %w", err, ErrEntry)
	}
	return m[1], v, m[3] != "", nil
}

func hasSuffix(s, suffix string) bool {
	return len(s) > len(suffix) && strings.EqualFold(s[len(s)-len(suffix):], suffix)
}

// ParseFolder parses the name of a middle folder: 32 hex digits of the GUID, then
// one to eight hex digits of the age.
func ParseFolder(s string) (debugid.ID, error) {
	id, err := debugid.ParseBreakpad(s)
	if err != nil || id.PDB20 || id.IsZero() {
		return debugid.ID{}, fmt.Errorf("folder %q is not a GUID with age: %w", truncate.Text(s), ErrEntry)
	}
	return id, nil
}

// SniffLen is the number of bytes from the start of a file that Detect needs.
const SniffLen = 16

// otherContents are the signatures of known formats other than SymCache.
var otherContents = []struct{ magic, what string }{
	{"MZ", "a Windows program"},
	{"\x7fELF", "an ELF file"},
	{"\xfe\xed\xfa\xce", "a Mach-O file"}, {"\xfe\xed\xfa\xcf", "a Mach-O file"},
	{"\xce\xfa\xed\xfe", "a Mach-O file"}, {"\xcf\xfa\xed\xfe", "a Mach-O file"},
	{"\xca\xfe\xba\xbe", "a Mach-O file"},
	{"Microsoft C/C++ ", "a PDB"}, {"Microsoft MSFZ", "a PDB"}, {"BSJB", "a portable PDB"},
	{"PK\x03\x04", "a zip archive"}, {"PK\x05\x06", "a zip archive"},
	{"MSCF", "a cabinet"}, {"\x1f\x8b", "a gzip file"}, {"\x28\xb5\x2f\xfd", "a zstd file"}, {"\xfd7zXZ\x00", "an xz file"},
	{"BZh", "a bzip2 file"}, {"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"},
	{"#!", "a script"}, {"MODULE ", "a Breakpad symbol file"},
}

// Detect checks the first SniffLen bytes of a file and returns nil if it may be a
// SymCache file. It rejects empty files (ErrEntry), symcache files of other tools
// (ErrForeign) and programs, archives, web pages and other known formats
// (ErrOtherFormat). It accepts any other content, because the SymCache format is
// not public.
func Detect(head []byte) error {
	if len(head) == 0 {
		return fmt.Errorf("an empty file: %w", ErrEntry)
	}
	if len(head) >= 4 && (string(head[:4]) == "SYMC" || string(head[:4]) == "CMYS") {
		return ErrForeign
	}
	text := strings.TrimLeft(strings.TrimPrefix(string(head), "\uFEFF"), " \t\r\n")
	switch {
	case text == "":
		return fmt.Errorf("%w: it starts with white space only", ErrOtherFormat)
	case text[0] == '<':
		return fmt.Errorf("%w: HTML or XML", ErrOtherFormat)
	}
	for _, o := range otherContents {
		if strings.HasPrefix(string(head), o.magic) {
			return fmt.Errorf("%w: %s", ErrOtherFormat, o.what)
		}
	}
	return nil
}

// ParseExpiry parses the content of a Negative entry: the expiry time of the
// remembered miss. The entry is only a hint, because the sample server writes one
// after every failure.
func ParseExpiry(content string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(strings.TrimPrefix(content, "\uFEFF")))
	if err != nil {
		return time.Time{}, fmt.Errorf("remembered miss with the invalid expiry time %q: %w", truncate.Text(content), ErrEntry)
	}
	return t.UTC(), nil
}
