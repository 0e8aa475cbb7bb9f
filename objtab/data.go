package objtab

import (
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Data returns the DWARF of one file of the given kind: ELF, Mach-O, PE or WASM. Of the
// others, those of ELF count: Package, Alternate and Object. The error wraps
// fs.ErrNotExist if files of this kind have no DWARF, ErrMismatch if Alternate is not the
// file that f refers to, objfile.ErrBroken or objfile.ErrNotSymbolFile; or it is that of
// reading. Addresses of a relocatable file are relative to their sections.
func Data(f File, kind symfile.Kind, others ELFFiles, opt objfile.SectionOptions) (dwarf.Data, error) {
	switch kind {
	case symfile.ELF:
		e, err := objfile.OpenELF(f.Reader, f.Size)
		if err != nil {
			return dwarf.Data{}, err
		}
		return elfData(e, others, opt)
	case symfile.MachO:
		m, err := objfile.OpenMachO(f.Reader, f.Size)
		if err != nil {
			return dwarf.Data{}, err
		}
		return machData(m, opt), nil
	case symfile.PE:
		img, err := objfile.OpenPE(f.Reader, f.Size)
		if err != nil {
			return dwarf.Data{}, err
		}
		return peData(img, opt), nil
	case symfile.WASM:
		w, err := objfile.OpenWASM(f.Reader, f.Size)
		if err != nil {
			return dwarf.Data{}, err
		}
		return dwarf.Data{Sections: func(name string) (dwarf.Section, error) { return section(w.Section("." + name)) }}, nil
	}
	return dwarf.Data{}, fmt.Errorf("DWARF in a file of the kind %s: %w", kind, fs.ErrNotExist)
}

// elfData returns the DWARF of a file with that of the files that belong to it.
func elfData(from *objfile.ELFFile, files ELFFiles, opt objfile.SectionOptions) (dwarf.Data, error) {
	d := dwarf.Data{Sections: elfSections(from, opt), Order: from.Order()}
	for _, f := range []struct {
		to   *dwarf.Sections
		file File
		what string
	}{{&d.Package, files.Package, "package"}, {&d.Alternate, files.Alternate, "supplementary file"}} {
		if f.file.Reader == nil {
			continue
		}
		e, err := objfile.OpenELF(f.file.Reader, f.file.Size)
		if err != nil {
			return d, fmt.Errorf("%s of %s: %w", f.what, files.Name, err)
		}
		*f.to = elfSections(e, opt)
		if f.to == &d.Alternate {
			if err := checkAlternate(from, e); err != nil {
				return d, err
			}
		}
	}
	if files.Object != nil {
		d.Object = func(name, dir string, id uint64) (dwarf.Sections, error) {
			f, err := files.Object(name, dir, id)
			if err != nil {
				return nil, err
			}
			e, err := objfile.OpenELF(f.Reader, f.Size)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return elfSections(e, opt), nil
		}
	}
	return d, nil
}

// checkAlternate compares the build-id that a file asks for with that of its
// supplementary file.
func checkAlternate(from, alt *objfile.ELFFile) error {
	_, want, err := from.AltLink()
	if err != nil {
		return nil //nolint:nilerr // the file names none, and the caller knows better
	}
	have, err := alt.BuildID()
	if err != nil {
		return err
	}
	if have != want {
		return fmt.Errorf("%w: the supplementary file has the build-id %s, but %s is needed", ErrMismatch, have, want)
	}
	return nil
}

// elfSections returns the sections of a file as DWARF's reader asks for them.
func elfSections(f *objfile.ELFFile, opt objfile.SectionOptions) dwarf.Sections {
	return func(name string) (dwarf.Section, error) {
		return section(f.Relocated("."+name, opt))
	}
}

// machData returns the DWARF of a Mach-O file.
func machData(f *objfile.MachOFile, opt objfile.SectionOptions) dwarf.Data {
	return dwarf.Data{Order: f.Order(), Sections: func(name string) (dwarf.Section, error) {
		return section(f.Section("__"+name, opt))
	}}
}

// section makes an interface of a section, nil if there is an error.
func section(d *objfile.SectionData, err error) (dwarf.Section, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// peData returns the DWARF that compilers for MinGW and Go write.
func peData(img *objfile.PEImage, opt objfile.SectionOptions) dwarf.Data {
	return dwarf.Data{Sections: func(name string) (dwarf.Section, error) {
		return section(img.Section("."+name, opt))
	}}
}
