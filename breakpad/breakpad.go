// Package breakpad reads and writes the head of Breakpad symbol files: the
// MODULE record and the INFO records behind it, which say which module the
// file describes.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. WriteHeader writes what ParseHeader
// reads back. Records of addresses are outside of this package.
package breakpad

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// ErrSyntax is wrapped by every error that says that a header is not one.
var ErrSyntax = errors.New("not a Breakpad symbol file")

// Limits of one header, in bytes. A path name of Windows has at most 32,767
// characters, and generators write a handful of INFO records.
const (
	maxLine   = 40 << 10
	maxHeader = 128 << 10
)

// Header is what a symbol file says about its module before the first record
// of addresses.
type Header struct {
	OS   string     // as written: Linux, mac, windows, Android and so on
	Arch string     // as written: x86, x86_64, arm64 and so on, or unknown
	ID   debugid.ID // zero where the generator found none and wrote zeros
	// Name is the debug file: a PDB's name for Windows, else the module's.
	// It may hold spaces.
	Name string
	// CodeID and CodeName come from INFO CODE_ID, as written; empty if the
	// file has no such record or the record has no name.
	CodeID, CodeName string
	// Generator is the text of INFO GENERATOR, or empty.
	Generator string
}

// ParseHeader reads the MODULE record and the INFO records behind it. It reads
// at most 128 KiB; what lies beyond them is left out. CR LF line ends are
// accepted, and NUL bytes become underscores, as Breakpad's own parser does.
// The error wraps ErrSyntax, or is r's.
func ParseHeader(r io.Reader) (Header, error) {
	s := bufio.NewScanner(io.LimitReader(r, maxHeader))
	s.Buffer(make([]byte, 0, 4096), maxLine)
	if !s.Scan() {
		if err := s.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
			return Header{}, err
		}
		return Header{}, fmt.Errorf("%w: the first line is missing or too long", ErrSyntax)
	}
	h, err := parseModule(clean(s.Text()))
	if err != nil {
		return Header{}, err
	}
	for s.Scan() {
		line := clean(s.Text())
		if line == "" {
			continue
		}
		info, ok := strings.CutPrefix(line, "INFO ")
		if !ok {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimLeft(info, " "), " ")
		switch word {
		case "CODE_ID":
			h.CodeID, h.CodeName, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			h.CodeName = strings.TrimSpace(h.CodeName)
		case "GENERATOR":
			h.Generator = rest
		}
	}
	if err := s.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return Header{}, err
	}
	return h, nil
}

// clean removes the line end that the scanner left and replaces NULs.
func clean(line string) string {
	return strings.ReplaceAll(strings.TrimRight(line, "\r"), "\x00", "_")
}

// parseModule reads "MODULE os arch id name", where only the name may hold
// spaces.
func parseModule(line string) (Header, error) {
	var f [5]string
	rest := line
	for i := range 4 {
		rest = strings.TrimLeft(rest, " ")
		f[i], rest, _ = strings.Cut(rest, " ")
	}
	f[4] = strings.TrimSpace(rest)
	if f[0] != "MODULE" {
		return Header{}, fmt.Errorf("%w: the first line is no MODULE record", ErrSyntax)
	}
	if f[4] == "" {
		return Header{}, fmt.Errorf("%w: the MODULE record has too few fields", ErrSyntax)
	}
	id, err := debugid.ParseBreakpad(f[3])
	if err != nil {
		return Header{}, fmt.Errorf("%w: the MODULE record: %w", ErrSyntax, err)
	}
	return Header{OS: f[1], Arch: f[2], ID: id, Name: f[4]}, nil
}

// WriteHeader writes h in the form that strict parsers accept: single spaces,
// LF line ends, INFO records only where they say something. A value that
// would break its line is an error that wraps ErrSyntax, and
// nothing is written then.
func WriteHeader(w io.Writer, h Header) error {
	for _, word := range []string{h.OS, h.Arch, h.CodeID} {
		if strings.ContainsAny(word, " \t\r\n\x00") {
			return fmt.Errorf("%w: %q is not one word", ErrSyntax, word)
		}
	}
	for _, text := range []string{h.Name, h.CodeName, h.Generator} {
		if strings.ContainsAny(text, "\r\n\x00") || text != strings.TrimSpace(text) {
			return fmt.Errorf("%w: %q does not fit in a line", ErrSyntax, text)
		}
	}
	if h.OS == "" || h.Arch == "" || h.Name == "" || h.CodeName != "" && h.CodeID == "" {
		return fmt.Errorf("%w: a field is empty", ErrSyntax)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MODULE %s %s %s %s\n", h.OS, h.Arch, printID(h.ID), h.Name)
	if h.CodeID != "" {
		b.WriteString("INFO CODE_ID " + h.CodeID)
		if h.CodeName != "" {
			b.WriteString(" " + h.CodeName)
		}
		b.WriteByte('\n')
	}
	if h.Generator != "" {
		b.WriteString("INFO GENERATOR " + h.Generator + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printID writes "no id" as generators do: 33 zeros.
func printID(id debugid.ID) string {
	if id.IsZero() {
		return strings.Repeat("0", 33)
	}
	return id.Breakpad()
}

// Stem removes a final ".pdb" of any case from the name of a debug file.
func Stem(name string) string {
	if n := len(name) - 4; n > 0 && strings.EqualFold(name[n:], ".pdb") {
		return name[:n]
	}
	return name
}

// SymName returns the leaf under which Breakpad looks for the symbols of a
// debug file: "x.sym" for x.pdb, "x.so.sym" for x.so.
func SymName(name string) string { return Stem(name) + ".sym" }
