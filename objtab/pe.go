package objtab

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// PE adds the functions in the DWARF of a PE image, as GCC and clang write it for
// MinGW, and the rules of its .debug_frame, or of the .eh_frame of an image for 32
// bits, which it adds even if there is no DWARF. file is the image, or the separate
// debug file that objcopy made of it. The error wraps fs.ErrNotExist if the image
// has no DWARF; the others are those of ELF.
func PE(ctx context.Context, file File, opt Options, b *functab.Builder) error {
	img, err := objfile.OpenPE(file.Reader, file.Size)
	if err != nil {
		return err
	}
	base := img.Base()
	code := peCode(img)
	do := dwarf.Options{Base: base, Workers: opt.Workers, Demangle: opt.Demangle}
	for _, s := range code {
		do.Code = append(do.Code, dwarf.Range{Start: base + s.Start, End: base + s.Start + s.Size})
	}
	get := peData(img, opt.Sections).Sections
	_, missing := dwarf.Read(ctx, dwarf.Data{Sections: get}, do, b)
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) || opt.NoUnwind {
		return missing
	}
	u, err := peUnwind(img, code, get, b)
	if err != nil {
		return err
	}
	if len(u.DebugFrame)+len(u.EHFrame) > 0 {
		if err := unwind.EHFrame(ctx, u, b); err != nil {
			return err
		}
	}
	return missing
}

// peCode returns the sections with code.
func peCode(img *objfile.PEImage) (code []functab.Section) {
	for _, s := range img.Sections() {
		if s.Code && s.Size > 0 {
			code = append(code, functab.Section{Name: s.Name, Start: uint64(s.RVA), Size: uint64(s.Size)})
		}
	}
	return code
}

// peUnwind returns .debug_frame and, of images for 32 bits, .eh_frame.
func peUnwind(img *objfile.PEImage, code []functab.Section, get dwarf.Sections, b *functab.Builder) (u unwind.Sections, err error) {
	base := img.Base()
	read := func(name string) ([]byte, error) {
		frame, err := get(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if frame.Size() > maxUnwind {
			b.Warn("unwind rules: .%s of %d bytes is too large", name, frame.Size())
			return nil, nil
		}
		p := make([]byte, frame.Size())
		if _, err := frame.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return p, nil
	}
	u = unwind.Sections{Arch: img.Arch(), Base: base, Code: code}
	if u.DebugFrame, err = read("debug_frame"); err != nil {
		return u, err
	}
	if img.Arch() == "x86" || img.Arch() == "arm" {
		u.AddressSize = 4
		// Images of 32 bits have no exception table: GCC writes .eh_frame.
		if u.EHFrame, err = read("eh_frame"); err != nil {
			return u, err
		}
		u.EHFrameAddress = base + uint64(img.SectionAddress(".eh_frame"))
	}
	return u, nil
}
