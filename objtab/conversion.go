package objtab

import (
	"context"
	"errors"
	"io/fs"
	"iter"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
)

// conversion is the part of a conversion that ELF and Mach-O share.
type conversion struct {
	opt     Options
	b       *functab.Builder
	base    uint64
	code    []objfile.AddressRange
	symbols []objfile.CodeSymbol // in ascending order of address, the best name first
}

// addSections adds the sections with code.
func (c *conversion) addSections(sections iter.Seq[objfile.Section]) {
	for _, s := range codeOf(sections, c.base) {
		c.b.Section(s)
	}
}

// codeOf returns the sections with code, relative to the base.
func codeOf(sections iter.Seq[objfile.Section], base uint64) (list []functab.Section) {
	for s := range sections {
		if s.Code && s.Size > 0 && s.Address >= base {
			list = append(list, functab.Section{Name: s.Name, Start: s.Address - base, Size: s.Size})
		}
	}
	return list
}

// keep returns a function that appends a symbol to c.symbols.
func (c *conversion) keep(ctx context.Context) func(objfile.CodeSymbol) error {
	n := 0
	return func(x objfile.CodeSymbol) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c.symbols = append(c.symbols, x)
		return nil
	}
}

// warnBroken makes a warning of an error about a damaged part. Others are returned.
func (c *conversion) warnBroken(err error) error {
	if errors.Is(err, objfile.ErrBroken) {
		c.b.Warn("%v", err)
		return nil
	}
	return err
}

// readDWARF reads the functions in DWARF.
func (c *conversion) readDWARF(ctx context.Context, d dwarf.Data) error {
	_, err := dwarf.Read(ctx, d, c.dwarfOptions(), c.b)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dwarfOptions are the options of readers of DWARF.
func (c *conversion) dwarfOptions() dwarf.Options {
	opt := dwarf.Options{Base: c.base, Workers: c.opt.Workers, Demangle: c.opt.Demangle}
	for _, r := range c.code {
		opt.Code = append(opt.Code, dwarf.Range(r))
	}
	opt.Symbol = func(a uint64) string { return symbolAt(c.symbols, a) }
	return opt
}
