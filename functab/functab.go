// Package functab holds the function tables of one module: functions, line
// rows, inlined calls, public symbols and unwind rules. The tables have the same
// form whatever file they come from: PDB, DWARF, a symbol table or a Breakpad
// symbol file.
//
// A Builder collects what the readers of the module's files find. Its method
// Table sorts and normalizes the collected data and returns a Table, from which
// symbol files are written and addresses are looked up. The package reads no files:
// objtab (ELF, Mach-O, PE), pdb and breakpad fill a Builder, and breakpad and gsym write
// a Table to a file.
//
// All addresses are relative to the preferred base of the module (RVA). The
// package is not yet promised: it may change in any version.
package functab

import (
	"errors"

	"github.com/symdepot/symdepot/debugid"
)

// ErrLimit is wrapped by the errors of a Builder whose Limits are reached.
var ErrLimit = errors.New("limit of function tables reached")

// FileID is the number of a source path in a Builder and its Table. Zero means
// that the file is unknown.
type FileID uint32

// NameID is the number of a function name in a Builder and its Table. Zero means
// that the name is unknown.
type NameID uint32

// Module describes the module that the tables belong to.
type Module struct {
	OS   string     // Breakpad's word: Linux, mac, windows
	Arch string     // Breakpad's word: x86, x86_64, arm64 and so on
	ID   debugid.ID // debug id; may be zero
	Name string     // base name of the debug file: of the PDB on Windows, otherwise of the module
	// CodeID and CodeFile identify the program as Breakpad's INFO CODE_ID record
	// does: PE time stamp and image size, ELF build-id or Mach-O UUID. CodeFile is
	// used on Windows only.
	CodeID, CodeFile string
	// Base is the preferred base: ImageBase of a PE image, address of __TEXT of a
	// Mach-O image, address of the first PT_LOAD segment of an ELF file. RVA + Base
	// is the address that the linker assigned.
	Base uint64
	// UUID identifies the module in a GSYM file, at most 20 bytes: the ELF
	// build-id, the Mach-O UUID, or the GUID and the age of a PDB as stored.
	UUID []byte
	// Generator names the program that made the tables, for INFO GENERATOR.
	Generator string
	// Relocatable is true for a file that is not linked, such as an ELF object
	// file. Only such a file can have a function at address 0.
	Relocatable bool
}

// Function is one contiguous range of code with a name. A function in several
// ranges is added as several Functions of one name.
type Function struct {
	Start uint64 // RVA
	Size  uint32 // bytes; 0: unknown, the function ends where the next one starts
	Name  NameID
	// Params is the size of the parameters on the stack in bytes (x86 on Windows).
	Params uint32
	// Multiple is true if several functions with different names start here. The
	// Table also sets it itself.
	Multiple bool
	// Jump is true if the function is only a jump to another one, as those of an
	// incremental linker. It calls nothing: no return address lies in it.
	Jump bool
	// Unit orders functions that start at one address and have equal detail: the
	// Table keeps the lowest Unit. Readers that add functions in parallel set it to
	// the number of the compilation unit or module, so that results do not depend
	// on timing.
	Unit uint32
	// Rows are in ascending order of Start. Each row extends to the next one, the
	// last one to the end of the function.
	Rows []Row
	// Inlines are the inlined calls in preorder: each call is followed by the calls
	// inlined into it.
	Inlines []Inline
}

// Row is the source position of the code from Start on. Inside an inlined call it
// is the position in the innermost inlined function, as in DWARF line tables and
// in Breakpad symbol files.
type Row struct {
	Start uint64 // RVA
	File  FileID
	Line  uint32 // 0: the code has no known position
}

// Inline is one inlined call.
type Inline struct {
	Depth    int    // 0: inlined into the function itself
	Name     NameID // the inlined function
	CallFile FileID // position of the call in the caller
	CallLine uint32
	Ranges   []Range // the code of the inlined function and of the calls inlined into it
}

// Range is a range of addresses.
type Range struct {
	Start uint64 // RVA
	Size  uint32 // bytes
}

// Symbol is a public symbol: a named address of code.
type Symbol struct {
	Address  uint64 // RVA
	Name     NameID
	Params   uint32 // size of the parameters on the stack in bytes (x86 on Windows)
	Multiple bool   // several symbols with different names have this address
	Size     uint32 // bytes; 0: unknown
	// Marker is true for the end markers that the Table adds. A marker ends the
	// range of the symbol before it, and names no function.
	Marker bool
}

// Section is a section with executable code.
type Section struct {
	Name  string
	Start uint64 // RVA
	Size  uint64 // bytes
}

// Frame holds the unwind rules of one range of code, either as call frame
// information (CFI) or as a Windows frame record (Win).
type Frame struct {
	Start uint64 // RVA
	Size  uint32 // bytes
	// CFI holds the rules at Start in the syntax of STACK CFI INIT records:
	// ".cfa: $rsp 8 + .ra: .cfa -8 + ^". It is empty if Win is set.
	CFI string
	// Deltas are the changes of rules at later addresses, in ascending order.
	Deltas []FrameDelta
	Win    *WinFrame
}

// FrameDelta is a change of unwind rules, as in a STACK CFI record.
type FrameDelta struct {
	Address uint64 // RVA
	Rules   string // only the changed rules
}

// WinFrame holds the fields of a STACK WIN record. Sizes are in bytes.
type WinFrame struct {
	Type           int // 4: FRAMEDATA with a program; 0: FPO
	Prolog, Epilog uint32
	Params         uint32
	SavedRegs      uint32
	Locals         uint32
	MaxStack       uint32
	Program        string // only with type 4
	AllocatesBP    bool   // only with type 0
}

// Limits bound what a Builder accepts. A zero field means the default.
type Limits struct {
	InlineDepth int   // deepest inlined call; default 512
	Rows        int   // rows, and ranges of inlined calls, of one function; default 16 Mi
	Functions   int   // functions, symbols and frames, each; default 64 Mi
	Name        int   // bytes of one name or path; longer ones are cut; default 64 KiB
	Bytes       int64 // memory of all tables in bytes; default 1 GiB
}

func (l Limits) orDefault() Limits {
	if l.InlineDepth <= 0 {
		l.InlineDepth = 512
	}
	if l.Rows <= 0 {
		l.Rows = 16 << 20
	}
	if l.Functions <= 0 {
		l.Functions = 64 << 20
	}
	if l.Name <= 0 {
		l.Name = 64 << 10
	}
	if l.Bytes <= 0 {
		l.Bytes = 1 << 30
	}
	return l
}

// Counts are the numbers of records in a Table.
type Counts struct {
	Functions, Rows, Inlines, Symbols, Frames, Files, Names int
	Bytes                                                   int64 // memory
}

// Answer is the result of a lookup of one address.
type Answer struct {
	// Frames are the functions at the address, innermost inlined call first. The
	// last one is the function that contains the code.
	Frames        []Line
	FunctionStart uint64 // RVA
	FunctionSize  uint32 // bytes; 0: unknown
	Symbol        bool   // only a public symbol is known
}

// Line is a source position in a function.
type Line struct {
	Function string // shown name; empty if unknown
	Raw      string // mangled name; empty if unknown or equal to Function
	File     string // empty if unknown
	Line     uint32 // 0 if unknown
}
