// Package objfile answers two questions about a file of any kind: what is it,
// and which ids name it? It reads headers only, within fixed limits of bytes
// read and memory used, and survives any input.
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

// Object is one symbol object found in a file.
type Object struct {
	symfile.Object
	// Arch is the processor in the words of Breakpad and LLVM: x86, x86_64,
	// arm, arm64, arm64e, mips, ppc64, riscv64, s390x, wasm32 and so on;
	// empty where the format names none.
	Arch string
	// Offset and Size are the position of the object's bytes in the file. A thin
	// file is one object of offset 0 and the file's size; a fat Mach-O slice
	// is a part of it. For an embedded object Size is its inflated size.
	Offset, Size int64
	// Deflated is the number of raw-deflate bytes at Offset that inflate to
	// the object; 0 means that the bytes are not compressed.
	Deflated int64
	// Features says what the object offers to a debugger.
	Features Features
	// DebugSize is the number of bytes of debug information (the sections
	// named .debug_*, .zdebug_* or __debug_*). Of several files with one
	// build-id the one with the largest is the best answer.
	DebugSize int64
	// ResourceOnly says that a PE image holds resources and nothing else: its
	// only section is .rsrc.
	ResourceOnly bool
	// PDBs are the PDBs that a PE image asks for, in file order.
	PDBs []symfile.Object
}

// Features of an object, in the field's terms.
type Features struct {
	Debug   bool // types, lines or variables: DWARF, private PDB, FUNC records
	Symtab  bool // function names by address
	Unwind  bool // call frame information
	Sources bool // source text, or links to it
	Unknown bool // the limit of bytes to read was reached before all was known
	// NoSections: an ELF image without section headers, such as one that was
	// copied from memory.
	NoSections bool
	// PDB is "private", "public" or "type-only", else empty.
	PDB string
}

// Words returns the features as they are printed: debug, symtab, unwind,
// sources, no-sections, a PDB's sort, unknown; never nil.
func (f Features) Words() []string {
	w := []string{}
	for _, p := range []struct {
		is   bool
		word string
	}{{f.Debug, "debug"}, {f.Symtab, "symtab"}, {f.Unwind, "unwind"}, {f.Sources, "sources"}, {f.NoSections, "no-sections"}, {f.PDB != "", f.PDB}, {f.Unknown, "unknown"}} {
		if p.is {
			w = append(w, p.word)
		}
	}
	return w
}

// ErrNotSymbolFile is wrapped by the error of a file that is of no known kind.
var ErrNotSymbolFile = errors.New("not a symbol file")

// ErrBroken is wrapped by the error of a file whose kind is known but whose
// contents cannot be what they claim: truncated, inconsistent or hostile.
var ErrBroken = errors.New("broken file")

// broken says what is wrong with a file of a known kind.
func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBroken, fmt.Errorf(format, args...))
}

// notSymbol says why a file is none.
func notSymbol(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotSymbolFile, fmt.Errorf(format, args...))
}

// Limits of one identification, in bytes read from the file.
const (
	IDBudget      = 1 << 20 // for the ids
	FeatureBudget = 8 << 20 // more, for the features
)

// errBudget ends a parse that wanted to read more than its budget.
var errBudget = errors.New("the headers ask for more reading than the limit allows")

// budget is a ReaderAt that refuses to read more than its limit, counts what
// was read, and knows the size of what it reads.
type budget struct {
	r    io.ReaderAt
	size int64
	left int64
	// features is set once the feature budget was added to left.
	features bool
	// err is the first failure of r itself, as opposed to bad contents.
	err error
}

func newBudget(r io.ReaderAt, size, limit int64) *budget {
	return &budget{r: r, size: size, left: limit}
}

// allowFeatures adds FeatureBudget, the first time it is called. A parser
// calls it when it has its ids.
func (b *budget) allowFeatures() {
	if !b.features {
		b.features = true
		b.left += FeatureBudget
	}
}

// ReadAt reads as io.ReaderAt does and charges the budget.
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
	if n != len(p) && b.err == nil {
		b.err = err
		if err == nil || err == io.EOF {
			b.err = fmt.Errorf("the file became shorter than %d bytes: %w", b.size, io.ErrUnexpectedEOF)
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

// bytes returns n bytes at off. A range that does not lie in the file is an
// error before anything is allocated.
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
