package layout

import (
	"errors"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// ErrNoPath is wrapped by every Parse error: the path is not a symbol request.
var ErrNoPath = errors.New("not a symbol path")

// Form is the form in which an answer is wanted.
type Form uint8

// The forms.
const (
	FormFile     Form = iota // the file itself
	FormCabinet              // its cabinet: foo.pd_
	FormPointer              // file.ptr: where the file is
	FormSymCache             // transcoded for Windows Performance Analyzer
	FormSection              // one ELF section
	FormSource               // one source file that the debug information names
	FormAdmin                // one of a symbol store's own files: see RouteAdmin
	FormGSYM                 // the functions of a module in LLVM's GSYM format
)

var formNames = [...]string{
	FormFile: "file", FormCabinet: "cabinet", FormPointer: "pointer", FormSymCache: "symcache", FormSection: "section", FormSource: "source",
	FormAdmin: "admin", FormGSYM: "gsym",
}

// String returns the name of the form in lower case, such as "cabinet".
func (f Form) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return "unknown"
}

// Request is what one path asks for.
type Request struct {
	Form Form
	// Lookups are tried in order; the first that finds an object answers.
	Lookups []symfile.Lookup
	// Name is the requested file name; empty where the path has none.
	Name string
	// Age allows a PDB of equal GUID and higher age if no lookup finds a file, as
	// Microsoft's servers do. It is nil for other requests.
	Age *PDBAge
	// Part is the name of the requested section, the path of the source file, or
	// the path of the symbol store's own file. It is empty in other forms.
	Part string
	// SymCache is the parsed SymCache request.
	SymCache symcache.Request
	// Prefix is what Route stripped from the front, with a leading slash
	// and without a final one; a redirect must put it back.
	Prefix string
	// Layout is the layout of the path.
	Layout Layout
}

// PDBAge holds the parts of a PDB key.
type PDBAge struct {
	GUID debugid.GUID
	Age  uint32
}

// AcceptMSFZ lets an object in an MSFZ container answer a request for the
// plain file; the client must have said that it takes one.
func (r *Request) AcceptMSFZ() {
	if r.Form != FormFile {
		return
	}
	for i, l := range r.Lookups {
		if l.Role&symfile.Debug != 0 {
			r.Lookups[i].Role |= symfile.Compressed
		}
	}
}

// AskPortable asks for the PDB as a portable one: under its SSQP key too, and there
// first. Windows debuggers ask for portable PDBs with the age 1.
func (r *Request) AskPortable() {
	var own []symfile.Lookup
	for _, l := range r.Lookups {
		if strings.HasSuffix(l.Name, ".pdb") && l.Role&symfile.Debug != 0 && len(l.ID) > 32 && debugid.IsHex(l.ID) {
			l.ID = l.ID[:32] + symfile.Fold(symfile.PortableAge)
			own = append(own, l)
			break
		}
	}
	r.Lookups = append(own, r.Lookups...)
}
