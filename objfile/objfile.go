// Package objfile answers two questions about a file of any kind: what is it,
// and which ids name it? It reads headers only, within fixed limits of bytes
// read and memory used, and survives any input. It also finds the sections and
// symbols of ELF, Mach-O, PE and WebAssembly files.
//
// A file on disk: IdentifyFile. An open file, an archive member or bytes in memory:
// Identify. An Object of this package is a symfile.Object, which layouts make paths
// of, with its place in the file. The functions and lines at an address are the matter
// of packages objtab, pdb and functab.
//
// Promised: names and behaviour that this documentation describes change only
// with a new major version of the module. Reading stays within IDBudget and
// FeatureBudget unless a kind is forced; new kinds of files may be recognized
// by any version, so that ErrNotSymbolFile is not a promise.
package objfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/symfile"
)

// Object is one symbol object in a file.
type Object struct {
	symfile.Object
	// Arch is the processor as Breakpad and LLVM name it: x86, x86_64, arm,
	// arm64, arm64e, mips, ppc64, riscv64, s390x, wasm32 and so on. It is empty
	// if the format has no such field.
	Arch string
	// Offset and Size are the position of the object in the file. A thin file
	// is one object of offset 0 and the size of the file; a slice of a fat
	// Mach-O file is a part of it. The Size of an embedded object is its
	// inflated size.
	Offset, Size int64
	// Deflated is the number of raw deflate bytes at Offset that inflate to the
	// object. It is 0 if the object is not compressed.
	Deflated int64
	// Features are the kinds of information in the object.
	Features Features
	// DebugSize is the number of bytes of debug information: of the sections
	// .debug_*, .zdebug_* or __debug_*. Of several files with one build-id, the
	// one with the largest DebugSize is the best for a debugger.
	DebugSize int64
	// ResourceOnly reports that a PE image has resources only: its only section
	// is .rsrc.
	ResourceOnly bool
	// PDBs are the PDBs that a PE image refers to, in the order of the file.
	PDBs []symfile.Object
}

// Features are the kinds of information that an object has.
type Features struct {
	Debug   bool // types, lines or variables: DWARF, private PDB, FUNC records
	Symtab  bool // function names by address
	Unwind  bool // call frame information
	Sources bool // source text, or links to it
	Unknown bool // not all is known, because the limit of bytes to read was reached
	// NoSections reports that an ELF image has no section headers, for example
	// because it was copied from memory.
	NoSections bool
	// PDB is "private", "public" or "type-only", else empty.
	PDB string
}

// Words returns the features as words: debug, symtab, unwind, sources,
// no-sections, the flavor of a PDB, unknown. It is never nil.
func (f Features) Words() []string {
	w := []string{}
	for _, p := range []struct {
		is   bool
		word string
	}{
		{f.Debug, "debug"}, {f.Symtab, "symtab"}, {f.Unwind, "unwind"}, {f.Sources, "sources"},
		{f.NoSections, "no-sections"}, {f.PDB != "", f.PDB}, {f.Unknown, "unknown"},
	} {
		if p.is {
			w = append(w, p.word)
		}
	}
	return w
}

// ErrNotSymbolFile is wrapped by the error for a file of an unknown kind.
var ErrNotSymbolFile = errors.New("not a symbol file")

// ErrBroken is wrapped by the error for a file of a known kind whose content is
// truncated, inconsistent or hostile.
var ErrBroken = errors.New("broken file")

// ErrUnread is the error of a reader that does not have the bytes at an offset, because
// it has only parts of the file. Features that depend on such bytes are unknown; if the
// ids depend on them, the error of Identify wraps ErrUnread.
var ErrUnread = errors.New("these bytes of the file were not read")

// broken returns an error about a file of a known kind.
// nameError is the error for a file that is sound, but has or contains a name that
// no client can ask for. It wraps ErrBroken: such a file cannot be added either.
type nameError string

func (e nameError) Error() string { return string(e) }

// Is implements errors.Is.
func (nameError) Is(target error) bool { return target == ErrBroken }

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBroken, fmt.Errorf(format, args...))
}

// notSymbol returns an error about a file that is not a symbol file.
func notSymbol(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotSymbolFile, fmt.Errorf(format, args...))
}

// Limits of one identification, in bytes read from the file.
const (
	IDBudget      = 1 << 20 // for the ids
	FeatureBudget = 8 << 20 // more, for the features
)

// errBudget is returned when parsing would exceed the budget.
var errBudget = errors.New("reading the headers exceeds the limit")

// budget is an io.ReaderAt that limits and counts the bytes read, and knows the
// size of the file.
type budget struct {
	r    io.ReaderAt
	size int64
	left int64
	// features is set once the feature budget was added to left.
	features bool
	ids      bool // see Options.IDs
	// err is the first error of r itself, in contrast to errors about the
	// content.
	err error
}

func newBudget(r io.ReaderAt, size, limit int64) *budget {
	return &budget{r: r, size: size, left: limit}
}

// allowFeatures adds FeatureBudget on its first call. A parser calls it after
// it has read the ids.
func (b *budget) allowFeatures() {
	if !b.features {
		b.features = true
		b.left += FeatureBudget
	}
}

// ReadAt implements io.ReaderAt and charges the budget.
func (b *budget) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > b.size {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		return 0, errBudget
	}
	b.left -= int64(len(p))
	short := false
	if max := b.size - off; int64(len(p)) > max {
		p, short = p[:max], true
	}
	n, err := b.r.ReadAt(p, off)
	if errors.Is(err, ErrUnread) {
		return 0, err
	}
	if n != len(p) && b.err == nil {
		b.err = err
		if err == nil || err == io.EOF {
			b.err = fmt.Errorf("the file shrank below %d bytes: %w", b.size, io.ErrUnexpectedEOF)
		}
	}
	if n == len(p) {
		err = nil
		if short {
			err = io.EOF
		}
	}
	return n, err
}

// bytes returns n bytes at off. It checks that they are within the file before
// it allocates memory.
func (b *budget) bytes(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > b.size || n > b.size-off {
		return nil, fmt.Errorf("%d bytes at offset %d lie outside the file of %d bytes: %w", n, off, b.size, io.ErrUnexpectedEOF)
	}
	if n > b.left {
		return nil, errBudget
	}
	p := make([]byte, n)
	_, err := b.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p, nil
}
