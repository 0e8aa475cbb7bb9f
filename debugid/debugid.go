// Package debugid holds the ids that debuggers use to identify symbol files: GUID
// and age, PE time stamp and image size, ELF build-id and Mach-O UUID. Every id is
// a value type with one parser and one formatter for each spelling in use, so
// other packages need no hex conversions of their own.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Every formatted id is accepted by its
// parser, and no input makes a parser panic.
package debugid

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// ErrSyntax is wrapped by every parse error of this package.
var ErrSyntax = errors.New("not a valid id")

// GUID is the 16-byte id of a PDB, a Mach-O image or an ELF file, in the byte order
// of its text form.
type GUID [16]byte

// FromMicrosoft converts a Microsoft GUID structure (three little-endian fields,
// then eight bytes) to a GUID.
func FromMicrosoft(b [16]byte) GUID {
	return GUID{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]}
}

// Microsoft returns g as the 16 bytes of a Microsoft GUID structure; it is the
// inverse of FromMicrosoft.
func (g GUID) Microsoft() [16]byte { return FromMicrosoft(g) }

// ParseGUID parses 32 hex digits of either case, with or without the four
// hyphens of the usual text form.
func ParseGUID(s string) (GUID, error) {
	var g GUID
	t := s
	if len(t) == 36 && t[8] == '-' && t[13] == '-' && t[18] == '-' && t[23] == '-' {
		t = t[:8] + t[9:13] + t[14:18] + t[19:23] + t[24:]
	}
	if len(t) != 32 {
		return g, fmt.Errorf("GUID %q: %w", truncate.Text(s), ErrSyntax)
	}
	if _, err := hex.Decode(g[:], []byte(t)); err != nil {
		return GUID{}, fmt.Errorf("GUID %q: %w", truncate.Text(s), ErrSyntax)
	}
	return g, nil
}

// IsZero reports whether all bytes are zero. A zero GUID means "no id".
func (g GUID) IsZero() bool { return g == GUID{} }

// Lower returns 32 lower-case hex digits.
func (g GUID) Lower() string { return hex.EncodeToString(g[:]) }

// Upper returns 32 upper-case hex digits.
func (g GUID) Upper() string { return strings.ToUpper(g.Lower()) }

// String returns the hyphenated lower-case form.
func (g GUID) String() string {
	s := g.Lower()
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// LLDB returns the path of g in LLDB's file-mapped UUID directories: upper-case
// digits in groups of 4/4/4/4/4/12.
func (g GUID) LLDB() string {
	s := g.Upper()
	return s[:4] + "/" + s[4:8] + "/" + s[8:12] + "/" + s[12:16] + "/" + s[16:20] + "/" + s[20:]
}

// ID identifies debug information: a GUID and an age, or, for PDB 2.0 and NB10
// records, a 32-bit signature and an age. The age of a portable PDB is its
// stamp; the age of ELF, Mach-O and WASM is 0.
//
// The zero ID means "no id"; nothing may be stored under it.
type ID struct {
	GUID GUID
	Age  uint32
	// PDB20 marks an id whose first four GUID bytes are the signature
	// (big-endian) and whose other bytes are zero.
	PDB20 bool
}

// PDB20 returns the id of a PDB 2.0 file or an NB10 record.
func PDB20(signature, age uint32) ID {
	id := ID{Age: age, PDB20: true}
	binary.BigEndian.PutUint32(id.GUID[:], signature)
	return id
}

// Signature returns the 32-bit signature of a PDB 2.0 id.
func (id ID) Signature() uint32 { return binary.BigEndian.Uint32(id.GUID[:4]) }

// IsZero reports whether id is "no id": an all-zero GUID, whatever its age.
func (id ID) IsZero() bool { return id.GUID.IsZero() }

// Breakpad returns the form used by Breakpad, Sentry and SymStore: 32
// upper-case digits (8 for PDB 2.0), then the age, always present, in lower-case
// hex without padding. It returns "" for the zero ID.
func (id ID) Breakpad() string {
	if id.IsZero() {
		return ""
	}
	if id.PDB20 {
		return fmt.Sprintf("%08X%x", id.Signature(), id.Age)
	}
	return id.GUID.Upper() + strconv.FormatUint(uint64(id.Age), 16)
}

// String returns the hyphenated lower-case form, followed by "-" and the age
// in hex unless the age is 0.
func (id ID) String() string {
	s := id.GUID.String()
	if id.PDB20 {
		s = fmt.Sprintf("%08X", id.Signature())
	}
	if id.Age != 0 {
		s += "-" + strconv.FormatUint(uint64(id.Age), 16)
	}
	return s
}

// ParseBreakpad parses the form that Breakpad returns: digits of either case,
// without hyphens and with an age. 9 to 16 digits are a PDB 2.0 id, 33 to 40
// digits a GUID and an age.
func ParseBreakpad(s string) (ID, error) {
	bad := func() (ID, error) { return ID{}, fmt.Errorf("debug id %q: %w", truncate.Text(s), ErrSyntax) }
	n := 32
	if len(s) >= 9 && len(s) <= 16 {
		n = 8
	} else if len(s) < 33 || len(s) > 40 {
		return bad()
	}
	if !IsHex(s) {
		return bad()
	}
	age, err := strconv.ParseUint(s[n:], 16, 32)
	if err != nil {
		return bad()
	}
	if n == 8 {
		sig, err := strconv.ParseUint(s[:8], 16, 32)
		if err != nil {
			return bad()
		}
		return PDB20(uint32(sig), uint32(age)), nil
	}
	g, err := ParseGUID(s[:32])
	if err != nil {
		return bad()
	}
	return ID{GUID: g, Age: uint32(age)}, nil
}

// Parse parses any text form of a debug id. Hyphens are optional, also before the
// age; a missing age is 0. A PDB 2.0 id is 8 to 16 digits without hyphens, or
// eight digits, a hyphen and an age. So is the form that Microsoft's dumpbin prints,
// {GUID}, AGE, in which the age is decimal.
func Parse(s string) (ID, error) {
	if id, ok := parseDumpbin(s); ok {
		return id, nil
	}
	if len(s) >= 36 && s[8] == '-' && s[13] == '-' {
		g, err := ParseGUID(s[:36])
		if err != nil {
			return ID{}, err
		}
		rest := strings.TrimPrefix(s[36:], "-")
		if rest == "" {
			return ID{GUID: g}, nil
		}
		age, err := strconv.ParseUint(rest, 16, 32)
		if err != nil {
			return ID{}, fmt.Errorf("debug id %q: %w", truncate.Text(s), ErrSyntax)
		}
		return ID{GUID: g, Age: uint32(age)}, nil
	}
	if len(s) == 32 {
		g, err := ParseGUID(s)
		return ID{GUID: g}, err
	}
	if len(s) == 8 {
		s += "0" // String omits an age of 0
	}
	if i := strings.IndexByte(s, '-'); i == 8 || i == 32 {
		s = s[:i] + s[i+1:]
	}
	return ParseBreakpad(s)
}

// parseDumpbin parses {GUID}, AGE. The braces and the blank may be missing.
func parseDumpbin(s string) (ID, bool) {
	guid, age, ok := strings.Cut(s, ",")
	if !ok {
		return ID{}, false
	}
	guid = strings.TrimSpace(guid)
	if in, ok := strings.CutPrefix(guid, "{"); ok {
		if guid, ok = strings.CutSuffix(in, "}"); !ok {
			return ID{}, false
		}
	}
	g, err := ParseGUID(guid)
	if err != nil {
		return ID{}, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(age), 10, 32)
	return ID{GUID: g, Age: uint32(n)}, err == nil
}

// PE identifies a PE image or a .DBG file by the two header fields of its
// Microsoft key. The zero value means "no id".
type PE struct {
	TimeDateStamp uint32 // seconds since 1970, or a hash in reproducible builds
	SizeOfImage   uint32 // bytes
}

// IsZero reports whether both fields are zero.
func (p PE) IsZero() bool { return p == PE{} }

// String returns the Microsoft key: the stamp as eight upper-case digits, then
// the size in lower-case hex without padding.
func (p PE) String() string { return fmt.Sprintf("%08X%x", p.TimeDateStamp, p.SizeOfImage) }

// ParsePE parses a Microsoft key of 9 to 16 digits of either case. The size may be
// padded with zeros.
func ParsePE(s string) (PE, error) {
	if len(s) < 9 || len(s) > 16 || !IsHex(s) {
		return PE{}, fmt.Errorf("PE key %q: %w", truncate.Text(s), ErrSyntax)
	}
	ts, _ := strconv.ParseUint(s[:8], 16, 32)
	size, _ := strconv.ParseUint(s[8:], 16, 32)
	return PE{uint32(ts), uint32(size)}, nil
}

// BuildID is an ELF build-id or a WASM build id: the raw bytes as lower-case
// hex. The empty string means "none".
type BuildID string

// MaxBuildID is the length limit of a build-id in bytes, equal to the limit of the
// elfutils client.
const MaxBuildID = 64

// NewBuildID returns the build-id with the bytes b. All-zero bytes are a valid
// build-id, because a linker may write them.
func NewBuildID(b []byte) BuildID { return BuildID(hex.EncodeToString(b)) }

// ParseBuildID parses an even number of hex digits of either case, at most
// MaxBuildID bytes.
func ParseBuildID(s string) (BuildID, error) {
	if len(s) < 2 || len(s)%2 != 0 || len(s) > 2*MaxBuildID || !IsHex(s) {
		return "", fmt.Errorf("build-id %q: %w", truncate.Text(s), ErrSyntax)
	}
	return BuildID(strings.ToLower(s)), nil
}

// Len returns the length of the build-id in bytes.
func (b BuildID) Len() int { return len(b) / 2 }

// Padded returns the SSQP spelling of a build-id of 8 to 20 bytes: padded with
// zero bytes to 20. It returns "" for other lengths, which SSQP does not support.
func (b BuildID) Padded() string {
	if b.Len() < 8 || b.Len() > 20 {
		return ""
	}
	return string(b) + strings.Repeat("0", 40-len(b))
}

// DebugID returns the debug id that Breakpad and Sentry derive from an ELF
// build-id: its first 16 bytes, padded with zeros, with the three GUID fields
// swapped when the file is little-endian. WASM ids are never swapped.
func (b BuildID) DebugID(littleEndian bool) ID {
	var raw [16]byte
	p, err := hex.DecodeString(string(b))
	if err != nil {
		return ID{}
	}
	copy(raw[:], p)
	if littleEndian {
		return ID{GUID: FromMicrosoft(raw)}
	}
	return ID{GUID: GUID(raw)}
}

// IsHex reports whether s is a non-empty string of hex digits of either case.
func IsHex(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return s != ""
}
