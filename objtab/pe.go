package objtab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// PE adds the functions in the DWARF of a PE image, as GCC and clang write it
// for MinGW, and the rules of its .debug_frame. file is the image, or the separate
// debug file that objcopy made of it. The error wraps fs.ErrNotExist if the image
// has no DWARF; the others are those of ELF.
func PE(ctx context.Context, file File, opt Options, b *functab.Builder) error {
	img, err := objfile.OpenPE(file.Reader, file.Size)
	if err != nil {
		return err
	}
	base := img.Base()
	sections := map[string]objfile.PESection{}
	do := dwarf.Options{Base: base, Workers: opt.Workers, Demangle: opt.Demangle}
	var code []functab.Section
	for _, s := range img.Sections() {
		if _, ok := sections[s.Name]; !ok {
			sections[s.Name] = s
		}
		if s.Code && s.Size > 0 {
			start := base + uint64(s.RVA)
			do.Code = append(do.Code, dwarf.Range{Start: start, End: start + uint64(s.Size)})
			code = append(code, functab.Section{Name: s.Name, Start: uint64(s.RVA), Size: uint64(s.Size)})
		}
	}
	get := func(name string) (dwarf.Section, error) {
		s, ok := sections["."+name]
		n := min(int64(s.Size), s.Stored)
		if !ok || n == 0 {
			return nil, fmt.Errorf("PE section .%s: %w", name, fs.ErrNotExist)
		}
		return io.NewSectionReader(file.Reader, s.Offset, n), nil
	}
	if _, err := dwarf.Read(ctx, dwarf.Data{Sections: get}, do, b); err != nil {
		return err
	}
	if opt.NoUnwind {
		return nil
	}
	frame, err := get("debug_frame")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if frame.Size() > maxUnwind {
		b.Warn("unwind rules: .debug_frame of %d bytes is too large", frame.Size())
		return nil
	}
	p := make([]byte, frame.Size())
	if _, err := frame.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	u := unwind.Sections{Arch: img.Arch(), Base: base, DebugFrame: p, Code: code}
	if img.Arch() == "x86" || img.Arch() == "arm" {
		u.AddressSize = 4
	}
	return unwind.EHFrame(ctx, u, b)
}
