package display

import (
	"fmt"

	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// answers is what symbolication can read of an object, and which other files it needs
// for the rest.
type answers struct{ list, needs []string }

// linesOf are the answers of debug information with functions.
var linesOf = []string{"functions", "lines", "inlines"}

// newAnswers returns the answers of an object.
func newAnswers(o objfile.Object) answers {
	a := answers{list: []string{}}
	switch o.Kind {
	case symfile.PDB:
		a.pdb(o)
	case symfile.PE:
		a.pe(o)
	case symfile.ELF, symfile.MachO:
		a.elf(o)
	case symfile.Breakpad:
		a.add(o.Features.Debug, linesOf...)
		a.add(o.Features.Symtab, "publics")
		a.add(o.Features.Unwind, "unwind")
	case symfile.PortablePDB:
		a.add(o.Features.Debug, "lines")
		a.need(true, "IL offsets as addresses: see docs/symbolication.md")
	}
	return a
}

// add adds words, need a file, if it is so.
func (a *answers) add(is bool, words ...string) {
	if is {
		a.list = append(a.list, words...)
	}
}

func (a *answers) need(is bool, format string, args ...any) {
	if is {
		a.needs = append(a.needs, fmt.Sprintf(format, args...))
	}
}

func (a *answers) pdb(o objfile.Object) {
	private := o.Features.Debug && !o.NoDBI
	a.add(private, linesOf...)
	a.add(!o.NoDBI, "publics")
	a.add(o.Features.Unwind || !o.NoDBI && o.Arch == "x86", "unwind")
	a.need(o.NoDBI, "it has types only")
	a.need(!private && !o.NoDBI, "the private PDB, for functions and lines")
	a.need(!o.NoDBI && o.Arch != "x86" && !o.Features.Unwind, "the program, for unwind rules")
}

func (a *answers) pe(o objfile.Object) {
	dwarf, image := o.Features.Debug && len(o.PDBs) == 0, o.Role&symfile.Executable != 0
	a.add(dwarf, linesOf...)
	a.add(image, "publics")
	a.add(o.Features.Unwind && image, "unwind")
	for _, w := range o.PDBs {
		a.need(w.Kind == symfile.PDB, "%s with the id %s, for functions and lines", w.Name, w.DebugID.Breakpad())
	}
	a.need(len(o.PDBs) == 0 && !dwarf, "the debug file, for functions and lines")
	a.need(!image, "the program, for unwind rules")
}

// elf adds the answers of an ELF or a Mach-O file.
func (a *answers) elf(o objfile.Object) {
	if o.Hash != "" {
		a.need(true, "the program, of which this is split debug information")
		return
	}
	f := o.Features
	debug, image := f.Debug && !o.IsRelocatable(), o.Role&symfile.Executable != 0
	a.add(debug, linesOf...)
	a.add(f.Symtab || image && !f.Unknown, "publics")
	a.add(f.Unwind && image, "unwind")
	what := "the debug file"
	if o.Kind == symfile.MachO {
		what = "the dSYM"
	}
	id := ID(o.Kind.String(), o.CodeID, o.DebugID.Breakpad(), string(o.BuildID))
	a.need(image && !debug, "%s with the id %s, for functions and lines", what, id)
	a.need(!image && debug, "the program, for unwind rules")
	a.need(o.IsRelocatable(), "it is not linked: addresses are not final")
}
