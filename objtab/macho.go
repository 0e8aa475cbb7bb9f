package objtab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// MachOFiles are the files of one Mach-O module: thin images, or slices of fat
// files as objfile.Identify returns them. Image or DSYM must be there.
type MachOFiles struct {
	// Name is the name of the module, as it appears in crash reports.
	Name string
	// Image is the program or library as it runs; DSYM is the file in its dSYM.
	Image, DSYM File
}

// MachO reads what the files of a Mach-O module know of its functions. Damaged
// parts are reported in the warnings of the Builder. The errors are those of ELF;
// the ids that must be equal are the UUIDs.
func MachO(ctx context.Context, files MachOFiles, opt Options) (*functab.Builder, error) {
	c := &machModule{conversion: conversion{opt: opt}, name: files.Name}
	var err error
	for _, f := range []struct {
		to   **objfile.MachOFile
		file File
		what string
	}{{&c.image, files.Image, "image"}, {&c.dsym, files.DSYM, "dSYM"}} {
		if f.file.Reader == nil {
			continue
		}
		if *f.to, err = objfile.OpenMachO(f.file.Reader, f.file.Size); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", f.what, files.Name, err)
		}
	}
	if c.image == nil && c.dsym == nil {
		return nil, fmt.Errorf("module %s: no file: %w", files.Name, fs.ErrNotExist)
	}
	if c.image != nil && c.dsym != nil {
		if a, b := c.image.UUID(), c.dsym.UUID(); a != b {
			return nil, fmt.Errorf("%w: the image has the UUID %s, its dSYM %s", ErrMismatch, a, b)
		}
		if a, b := c.image.Arch(), c.dsym.Arch(); a != b {
			return nil, fmt.Errorf("%w: the image is for %s, its dSYM for %s", ErrMismatch, a, b)
		}
	}
	main := c.files()[len(c.files())-1] // the image if there is one
	c.base, c.code = main.Base(), main.Code()
	uuid := main.UUID()
	m := functab.Module{
		OS: "mac", Arch: main.Arch(), Name: files.Name, Base: c.base, Generator: opt.Generator, Relocatable: main.Relocatable(),
	}
	if !uuid.IsZero() {
		m.ID, m.CodeID, m.UUID = debugid.ID{GUID: uuid}, strings.ToUpper(uuid.Lower()), uuid[:]
	}
	if c.b = functab.NewBuilder(m, opt.Limits); opt.ShownOnly {
		c.b.ShownOnly()
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	return c.b, nil
}

// machModule is a conversion under way.
type machModule struct {
	conversion
	name        string
	image, dsym *objfile.MachOFile // one of them may be nil
}

// files returns the files that are there, the dSYM first.
func (c *machModule) files() []*objfile.MachOFile {
	var out []*objfile.MachOFile
	for _, f := range []*objfile.MachOFile{c.dsym, c.image} {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

func (c *machModule) read(ctx context.Context) error {
	main := c.files()[len(c.files())-1]
	if main.Relocatable() {
		c.b.Warn("Mach-O: a relocatable file; its addresses are not final, so that functions and symbols were left out")
		return nil
	}
	c.addSections(main.Sections())
	if err := c.readSymbols(ctx); err != nil {
		return err
	}
	if !c.opt.NoFunctions {
		if err := c.readFunctions(ctx); err != nil {
			return err
		}
	}
	if !c.opt.NoUnwind {
		return c.readUnwind(ctx)
	}
	return ctx.Err()
}

// readSymbols reads the symbol tables of both files, the exports of an image
// without a symbol table, and the starts of functions without a name.
func (c *machModule) readSymbols(ctx context.Context) error {
	add := c.keep(ctx)
	for _, f := range c.files() {
		if err := c.warnBroken(f.CodeSymbols(add)); err != nil {
			return err
		}
	}
	if c.image != nil && len(c.symbols) == 0 {
		if err := c.warnBroken(c.image.Exports(add)); err != nil {
			return err
		}
	}
	c.symbols = dropEqual(sortSymbols(c.symbols))
	if c.opt.NoSymbols {
		return nil
	}
	if err := addSymbols(c.b, c.symbols, c.base, c.opt.shown); err != nil {
		return err
	}
	n := 0
	unknown := c.b.Name("<unknown in "+c.name+">", "")
	for _, f := range c.files() {
		err := c.warnBroken(f.FunctionStarts(func(a uint64) error {
			if n++; n%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if a < c.base || symbolAt(c.symbols, a) != "" {
				return nil
			}
			return c.b.Symbol(functab.Symbol{Address: a - c.base, Name: unknown})
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// dropEqual removes symbols that both files have.
func dropEqual(s []objfile.CodeSymbol) []objfile.CodeSymbol {
	out := s[:0]
	for _, x := range s {
		if n := len(out); n > 0 && out[n-1].Address == x.Address && out[n-1].Name == x.Name {
			continue
		}
		out = append(out, x)
	}
	return out
}

// readFunctions reads DWARF: of the dSYM, or of an image that has it, as Go
// programs do.
func (c *machModule) readFunctions(ctx context.Context) error {
	for _, f := range c.files() {
		if _, err := f.Section("__debug_info", objfile.SectionOptions{Limit: 1}); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return c.readDWARF(ctx, machData(f, c.opt.Sections))
	}
	return nil
}

// readUnwind reads compact unwind information and call frame information.
func (c *machModule) readUnwind(ctx context.Context) error {
	s, err := c.unwindSections()
	if err != nil || len(s.EHFrame) == 0 && len(s.DebugFrame) == 0 && len(s.CompactUnwind) == 0 {
		return cmp.Or(err, ctx.Err())
	}
	return unwind.Compact(ctx, s, c.b)
}

// unwindSections returns the sections with unwind rules. The image has all; a dSYM has .debug_frame at
// most.
func (c *machModule) unwindSections() (unwind.Sections, error) {
	s := unwind.Sections{Apple: true, Base: c.base, Code: codeSections(c.code, c.base)}
	for _, f := range []*objfile.MachOFile{c.image, c.dsym} {
		if f == nil {
			continue
		}
		s.Arch, s.BigEndian = f.Arch(), f.Order().String() == "BigEndian"
		if s.AddressSize = 4; f.Is64() {
			s.AddressSize = 8
		}
		for _, x := range []struct {
			to   *[]byte
			name string
		}{{&s.EHFrame, "__eh_frame"}, {&s.DebugFrame, "__debug_frame"}, {&s.CompactUnwind, "__unwind_info"}} {
			if len(*x.to) > 0 {
				continue
			}
			d, err := f.Section(x.name, c.opt.Sections)
			if *x.to, err = unwindSection(c.b, d, err); err != nil {
				return s, err
			}
			if x.name == "__eh_frame" {
				s.EHFrameAddress = f.SectionAddress(x.name)
			}
		}
	}
	if c.image != nil {
		s.Text = machText{c.image, c.base}
	}
	return s, nil
}

// machText reads the code of an image by addresses relative to its base.
type machText struct {
	f    *objfile.MachOFile
	base uint64
}

// ReadAt implements io.ReaderAt.
func (t machText) ReadAt(p []byte, off int64) (int, error) {
	return t.f.ReadCode(p, t.base+uint64(off))
}
