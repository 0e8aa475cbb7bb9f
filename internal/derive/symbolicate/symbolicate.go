// Package symbolicate answers which function, file and line an address of a
// module belongs to. It finds the files of a module in the depot, reads them into
// function tables (package functab), has Breakpad symbol files and GSYM files made
// of the tables by background jobs, looks addresses up in GSYM files, and knows
// the JSON of the symbolication APIs. It uses the depot through a small interface.
package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/term"
)

// Version is the version of the files that this package makes. A higher one makes
// all of them again.
const Version = 5

// Generator is the text of INFO GENERATOR in symbol files. The program sets it at its
// start, with its version.
var Generator = "symdepot"

// Format is the format of a file that is made of the files of a module.
type Format int

// The formats. The numbers are stored with jobs.
const (
	Breakpad Format = 1 // .sym
	GSYM     Format = 2
)

// Ext returns the file name extension of the format, with the dot.
func (f Format) Ext() string {
	if f == GSYM {
		return ".gsym"
	}
	return ".sym"
}

func (f Format) String() string { return f.Ext()[1:] }

// toolPrefix begins the names of the formats in the records of derived contents.
const toolPrefix = "symbols-"

// tool is the name of the format in the records of derived contents.
func (f Format) tool() string { return toolPrefix + f.String() }

// FormOf returns the word for what a tool, as records of derived contents name it, has
// made: that of a format, or else the tool's name.
func FormOf(tool string) string {
	name, ours := strings.CutPrefix(tool, toolPrefix)
	if !ours {
		return tool
	}
	name, _, _ = strings.Cut(name, "+")
	return name
}

var (
	// ErrBusy means that a limit refuses new work now; the client should ask again
	// later.
	ErrBusy = errors.New("too many symbol files are being made")
	// ErrNoFunctions is wrapped by the error for files that hold no functions.
	ErrNoFunctions = errors.New("no functions found")
)

// PendingError means that a file is being made and is not ready. It is not
// fs.ErrNotExist: the file will probably be found soon.
type PendingError struct{}

func (PendingError) Error() string { return "the file is being made; ask again later" }

// NoWorkerError means that the files of a module are larger than what the process
// itself reads, and that no worker is connected. It is fs.ErrNotExist.
type NoWorkerError struct{ Size, Limit int64 } // bytes

func (e NoWorkerError) Error() string {
	return fmt.Sprintf("the files of the module have %s, and this server reads up to %s (symbols.in_process) without a worker "+
		"(symdepot work --symbols)",
		term.Size(e.Size), term.Size(e.Limit))
}

// Is makes the error an fs.ErrNotExist.
func (NoWorkerError) Is(err error) bool { return err == fs.ErrNotExist }

// PortableError means that the depot has the portable PDB of a module whose functions
// are wanted. It is fs.ErrNotExist: a portable PDB has positions in IL instead.
type PortableError struct{}

func (PortableError) Error() string {
	return "the depot has its portable PDB, which has positions in IL instead of addresses: " +
		"ask POST /symbolicate, or get the PDB and use symdepot symbolicate -e"
}

// Is makes the error an fs.ErrNotExist.
func (PortableError) Is(err error) bool { return err == fs.ErrNotExist }

// UnusableError means that the files of a module were found, and that nothing can be
// made of them. It is fs.ErrNotExist.
type UnusableError struct {
	From  string // the files, for people
	Class string // of the failure
}

func (e UnusableError) Error() string {
	why := "cannot be read: damaged, or without functions"
	switch e.Class {
	case classLimit:
		why = "cannot be read: too large"
	case classTimeout:
		why = "could not be read in time"
	}
	return e.From + ": " + why
}

// Is makes the error an fs.ErrNotExist.
func (UnusableError) Is(err error) bool { return err == fs.ErrNotExist }

// Looker finds the position of an address in a module.
type Looker interface {
	// Lookup returns the functions at an RVA. ok is false if there are none.
	Lookup(rva uint64) (a functab.Answer, ok bool)
}

// shownLooker is a Looker that answers faster without raw names.
type shownLooker interface {
	// LookupShown is Lookup without raw names. It uses the memory of frames for those of
	// the answer.
	LookupShown(rva uint64, frames []functab.Line) (a functab.Answer, ok bool)
}

// Source returns the function tables of modules.
type Source interface {
	// Module opens a module. The caller calls Done when it needs the module no more.
	// Not found is fs.ErrNotExist, and a module that is being prepared a
	// PendingError.
	Module(ctx context.Context, q ModuleQuery) (*Module, error)
}

// ModuleQuery names a module.
type ModuleQuery struct {
	DebugFile string
	DebugID   string // as the client spells it
	CodeFile  string // empty if unknown
	CodeID    string // empty if unknown
	// IL asks for the portable PDB of a module with IL, by the debug id.
	IL bool
}

// Module is an open module.
type Module struct {
	Looker
	Name     string // file name of the module: the program if it is known, else the debug file
	Arch     string // Breakpad's word
	From     string // for people: which file the tables were read from, such as "pdb app.pdb"
	CodeFile string // name of the program, or empty
	// Missing names the files of the module that were not found, for people. Functions
	// or lines may lack.
	Missing []string
	// IL means that addresses are positions in IL; see ParseILAddress.
	IL   bool
	Done func()
}
