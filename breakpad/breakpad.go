// Package breakpad reads and writes Breakpad symbol files.
//
// ParseHeader and WriteHeader handle the header: the MODULE record and the INFO
// records after it, which identify the module of the file. ReadSym and WriteSym
// handle complete files: they fill function tables from a file of any producer,
// and write one from function tables.
//
// Promised: the names and the behaviour of Header, ParseHeader, WriteHeader, Stem,
// SymName and ErrSyntax change only with a new major version of the module.
// ParseHeader reads the output of WriteHeader. Everything about complete files may
// still change, as package functab may.
package breakpad

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// ErrSyntax is wrapped by every error about an invalid header.
var ErrSyntax = errors.New("not a Breakpad symbol file")

// Limits of one header, in bytes. A Windows path has at most 32,767 characters,
// and generators write only a few INFO records.
const (
	maxLine   = 40 << 10
	maxHeader = 128 << 10
)

// Header is the description of the module at the start of a symbol file, before
// the first record with addresses.
type Header struct {
	OS   string     // as in the file: Linux, mac, windows, Android and so on
	Arch string     // as in the file: x86, x86_64, arm64 and so on, or unknown
	ID   debugid.ID // zero if the generator found no id and wrote zeros
	// Name is the name of the debug file: of the PDB for Windows, otherwise of
	// the module. It may contain spaces.
	Name string
	// CodeID and CodeName are the fields of INFO CODE_ID as in the file. Both are
	// empty without this record; CodeName is empty if the record has no name.
	CodeID, CodeName string
	// Generator is the text of INFO GENERATOR, empty without this record.
	Generator string
}

// ParseHeader reads the MODULE record and the INFO records after it. It reads at
// most 128 KiB and omits records beyond this limit. Like Breakpad's own parser,
// it accepts CR LF line ends and replaces NUL bytes with underscores. The error
// wraps ErrSyntax or is an error of r.
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

// clean removes the CR that the scanner leaves and replaces NUL bytes.
func clean(line string) string {
	return strings.ReplaceAll(strings.TrimRight(line, "\r"), "\x00", "_")
}

// parseModule parses "MODULE os arch id name". Only the name may contain spaces.
func parseModule(line string) (Header, error) {
	var f [5]string
	rest := line
	for i := range 4 {
		rest = strings.TrimLeft(rest, " ")
		f[i], rest, _ = strings.Cut(rest, " ")
	}
	f[4] = strings.TrimSpace(rest)
	if f[0] != "MODULE" {
		return Header{}, fmt.Errorf("%w: the first line is not a MODULE record", ErrSyntax)
	}
	if f[4] == "" {
		return Header{}, fmt.Errorf("%w: the MODULE record has too few fields", ErrSyntax)
	}
	id, err := debugid.ParseBreakpad(f[3])
	if err != nil {
		return Header{}, fmt.Errorf("%w: MODULE record: %w", ErrSyntax, err)
	}
	return Header{OS: f[1], Arch: f[2], ID: id, Name: f[4]}, nil
}

// WriteHeader writes h in the form that strict parsers accept: single spaces, LF
// line ends, no INFO records without a value. If a value would break its line,
// WriteHeader writes nothing and returns an error that wraps ErrSyntax.
func WriteHeader(w io.Writer, h Header) error {
	for _, word := range []string{h.OS, h.Arch, h.CodeID} {
		if strings.ContainsAny(word, " \t\r\n\x00") {
			return fmt.Errorf("%w: %q is not one word", ErrSyntax, word)
		}
	}
	for _, text := range []string{h.Name, h.CodeName, h.Generator} {
		if strings.ContainsAny(text, "\r\n\x00") || text != strings.TrimSpace(text) {
			return fmt.Errorf("%w: %q does not fit on one line", ErrSyntax, text)
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

// printID formats an id; like generators, it writes 33 zeros for the zero id.
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

// SymName returns the name of the Breakpad symbol file of a debug file: "x.sym" for
// x.pdb, "x.so.sym" for x.so.
func SymName(name string) string { return Stem(name) + ".sym" }
