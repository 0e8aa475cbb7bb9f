package objtab

import (
	"fmt"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/unwind"
)

// Finder returns a Finder for the unwind rules of one file: of a program or library as it runs, or of a
// debug file that has .debug_frame. It gives the rules that ELF, MachO, PE and unwind.PE give, and
// converts single functions only. The file must stay open. The errors are those of opening the file and
// of reading its sections.
func Finder(f File, kind symfile.Kind, opt Options) (*unwind.Finder, error) {
	c := conversion{opt: opt, b: functab.NewBuilder(functab.Module{}, opt.Limits)} // for warnings
	switch kind {
	case symfile.ELF:
		e, err := objfile.OpenELF(f.Reader, f.Size)
		if err != nil {
			return nil, err
		}
		c.base, c.code = e.Base(), e.Code()
		s, err := (&elfModule{conversion: c, program: e}).unwindSections()
		return unwind.NewSections(s), err
	case symfile.MachO:
		m, err := objfile.OpenMachO(f.Reader, f.Size)
		if err != nil {
			return nil, err
		}
		c.base, c.code = m.Base(), m.Code()
		s, err := (&machModule{conversion: c, image: m}).unwindSections()
		return unwind.NewSections(s), err
	case symfile.PE:
		img, err := objfile.OpenPE(f.Reader, f.Size)
		if err != nil {
			return nil, err
		}
		if _, size := img.ExceptionTable(); size > 0 && (img.Arch() == "x86_64" || img.Arch() == "arm64") {
			return unwind.NewPE(img), nil
		}
		s, err := peUnwind(img, peCode(img), peData(img, opt.Sections).Sections, c.b)
		return unwind.NewSections(s), err
	}
	return nil, fmt.Errorf("a file of the kind %s has no unwind rules of its own", kind)
}
