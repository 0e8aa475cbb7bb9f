// Package public makes the public form of a symbol file: what people outside may see, who need
// readable stacks, but neither types, locals, lines nor paths. The public form answers to the same
// ids, and has names of functions and objects with their addresses, and the rules for walking stacks.
//
// Write makes the public form of a file of any kind. PrivateTexts proves what a public form does not
// have. WriteFile and CheckFiles do the same for files on disk.
//
// The package is not yet promised: it may change in any version.
package public

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
)

// Format is the number of the forms that Write makes. Equal input, equal options and an equal number
// give equal bytes; a version of this module that writes other bytes has another number.
const Format = 1

// Version changes whenever the bytes of a form may: with Format and with that of package pdb.
const Version = Format<<8 | pdb.PublicFormat

// Options are the options of Write. The zero value keeps the names of all functions and objects as
// the linker knows them.
type Options struct {
	// Exported keeps only names that other modules can use: global and weak symbols of ELF, external
	// ones of Mach-O and COFF, exports of WebAssembly. Breakpad and GSYM files do not say which
	// names these are, and have no public form then.
	Exported bool
	// Undecorated writes names as people read them, without parameters: ns::f instead of
	// _ZN2ns1fEi, which says the types of the parameters. A decorated name that is not
	// understood is hidden.
	Undecorated bool
	// Hide are patterns, in which * is any text and ? any character. A symbol whose name, as the
	// linker knows it or as people read it, matches one of them has the name MODULE+0xRVA.
	Hide []string
	// Module is the name of the module in hidden names; empty means "module".
	Module string
}

// Report says what Write kept and what it took away.
type Report struct {
	Kind        symfile.Kind
	PrivateSize int64 // of the input in bytes
	Size        int64 // of the output in bytes
	Names       int64 // symbols and functions in the output, also those with hidden names
	Hidden      int64 // those with hidden names
	// Removed has the kinds of which something was taken away, in the order of the constants.
	Removed []Removed
}

// Removed counts what was taken away of one kind.
type Removed struct {
	Kind  RemovedKind
	Count int64 // sections, records, symbols or names
	Bytes int64 // in the input
}

// RemovedKind is a kind of content that Write takes away.
type RemovedKind string

// The kinds.
const (
	RemovedDebug    RemovedKind = "debug sections"   // DWARF and stabs
	RemovedEmbedded RemovedKind = "embedded PDBs"    // portable ones in .NET assemblies
	RemovedSections RemovedKind = "other sections"   // that are not loaded, and that no rule keeps
	RemovedSymbols  RemovedKind = "symbols"          // of symbol tables: neither functions nor objects, or not exported
	RemovedNames    RemovedKind = "hidden names"     // of symbols and functions that are kept
	RemovedFiles    RemovedKind = "source files"     // FILE records, tables of files
	RemovedLines    RemovedKind = "line numbers"     // line records
	RemovedInlines  RemovedKind = "inlined calls"    // INLINE and INLINE_ORIGIN records
	RemovedRecords  RemovedKind = "other records"    // that no rule keeps
	RemovedCommands RemovedKind = "load commands"    // of Mach-O images: signatures, notes, relocations and unknown ones
	RemovedTrailing RemovedKind = "unassigned bytes" // of no section, segment or table
)

// removedKinds are the kinds in the order of reports.
var removedKinds = []RemovedKind{
	RemovedDebug, RemovedEmbedded, RemovedSections, RemovedSymbols, RemovedNames, RemovedFiles, RemovedLines, RemovedInlines,
	RemovedRecords, RemovedCommands, RemovedTrailing,
}

// ErrPrivate is wrapped by the errors about files that have no public form: nobody outside may
// have them.
var ErrPrivate = errors.New("the file has no public form")

// ErrNothingPublic is the error about a file of a known kind in which nothing is public, such as a
// portable PDB, which has lines and locals only. It wraps ErrPrivate.
var ErrNothingPublic = fmt.Errorf("nothing in the file is public: %w", ErrPrivate)

// private returns an error about a file that has no public form.
func private(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPrivate, fmt.Errorf(format, args...))
}

// broken returns an error about a damaged file.
func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", objfile.ErrBroken, fmt.Errorf(format, args...))
}

// Write writes the public form of the file of size bytes at r to w. It decides by the content what the
// file is; its name does not matter. What no rule keeps is not in the output: nothing is copied
// because it is unknown.
//
// Write reads what it needs, checks it, and only then writes w from front to back, so that w has got
// nothing after the error of a damaged input. After an error of r or w while it writes, the output is
// incomplete. The error wraps ErrPrivate if the file has no public form, and objfile.ErrBroken if
// its content is damaged.
func Write(w io.Writer, r io.ReaderAt, size int64, o Options) (Report, error) {
	kind, fat, err := kindOf(r, size)
	if err != nil {
		return Report{}, fmt.Errorf("public form: %w", err)
	}
	if isPDB(kind) {
		report, err := writePDB(w, r, size, o)
		if err != nil {
			return Report{}, fmt.Errorf("public form: %w", err)
		}
		return report, nil
	}
	f, err := open(kind, fat, r, size, o)
	if err != nil {
		return Report{}, fmt.Errorf("public form: %w", err)
	}
	c := &counter{w: w}
	if err := f.write(c); err != nil {
		return Report{}, fmt.Errorf("public form: %w", err)
	}
	report := Report{Kind: f.kind, PrivateSize: size, Size: c.n, Names: f.names, Hidden: f.hidden}
	for _, kind := range removedKinds {
		if r := f.removed[kind]; r != nil && (r.Count > 0 || r.Bytes > 0) {
			report.Removed = append(report.Removed, *r)
		}
	}
	return report, nil
}

// form is a public form that can be written.
type form struct {
	kind          symfile.Kind
	names, hidden int64
	removed       map[RemovedKind]*Removed
	write         func(w io.Writer) error
}

// take counts what is taken away.
func (f *form) take(kind RemovedKind, count, bytes int64) {
	r := f.removed[kind]
	if r == nil {
		r = &Removed{Kind: kind}
		f.removed[kind] = r
	}
	r.Count += count
	r.Bytes += bytes
}

// open examines a file of a kind, and returns its public form.
func open(kind symfile.Kind, fat bool, r io.ReaderAt, size int64, o Options) (*form, error) {
	f := &form{kind: kind, removed: map[RemovedKind]*Removed{}}
	n := &namer{opt: o, form: f}
	switch {
	case kind == symfile.ELF:
		return f, f.elf(r, size, n)
	case kind == symfile.MachO && fat:
		return f, f.fat(r, size, n)
	case kind == symfile.MachO:
		return f, f.macho(r, size, n)
	case kind == symfile.Breakpad:
		return f, f.breakpad(r, size, n)
	case kind == kindGSYM:
		f.kind = symfile.KindUnknown
		return f, f.gsym(r, size, n)
	case kind == symfile.WASM:
		return f, f.wasm(r, size, n)
	case kind == symfile.PE:
		return f, f.pe(r, size, n)
	case kind == symfile.PortablePDB:
		return nil, fmt.Errorf("a portable PDB has only lines, locals and sources: %w", ErrNothingPublic)
	}
	return nil, private("a file of the kind %s", kind)
}

// MayHave reports whether files of a kind may have a public form, so far as the kind decides.
func MayHave(kind symfile.Kind) bool {
	switch kind {
	case symfile.ELF, symfile.MachO, symfile.Breakpad, symfile.WASM, symfile.PE:
		return true
	}
	return isPDB(kind)
}

// kindGSYM stands for GSYM files, which no client asks a symbol server for, so that package symfile
// has no number for them.
const kindGSYM symfile.Kind = 255

// kindOf returns the kind of a file, and whether it is a fat Mach-O file. The error for an
// unknown kind wraps ErrPrivate.
func kindOf(r io.ReaderAt, size int64) (kind symfile.Kind, fat bool, err error) {
	magic := make([]byte, 4)
	if size >= int64(len(magic)) {
		if err := readFull(r, magic, 0); err != nil {
			return 0, false, err
		}
	}
	if string(magic) == "MYSG" {
		return kindGSYM, false, nil
	}
	objects, err := objfile.Identify(r, size, "", objfile.Options{IDs: true})
	if errors.Is(err, objfile.ErrNotSymbolFile) {
		return 0, false, fmt.Errorf("%w: %w", ErrPrivate, err)
	}
	if err != nil {
		return 0, false, err
	}
	return objects[0].Kind, bytes.HasPrefix(magic, []byte("\xca\xfe\xba")), nil
}

// readFull reads all of p from off. The end of the file is an error about the file.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return broken("%d bytes at offset %d lie outside the file: %w", len(p), off, io.ErrUnexpectedEOF)
	}
	return err
}

// readPart returns n bytes at off of a file of size bytes. It checks all numbers before it takes
// memory.
func readPart(r io.ReaderAt, size int64, off, n uint64) ([]byte, error) {
	if off > uint64(size) || n > uint64(size)-off {
		return nil, broken("%d bytes at offset %d lie outside the file of %d bytes", n, off, size)
	}
	if n > maxTable {
		return nil, broken("a table of %d bytes is above the limit of %d", n, int64(maxTable))
	}
	p := make([]byte, n)
	return p, readFull(r, p, int64(off))
}

// maxTable is the largest table in bytes that is read as a whole.
const maxTable = 1 << 30

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
