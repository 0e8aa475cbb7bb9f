// Package objtab joins the files of one module to function tables: an ELF program
// or library with its separate debug file, its .dwp package and the supplementary
// file of dwz, or a Mach-O image with its dSYM. It knows which file and which
// section the facts come from; the readers of the facts know no container.
//
// To look up addresses in an ELF, Mach-O or PE file with DWARF, begin with this package,
// and ask the functab.Table that it makes. Package pdb makes the same table of a PDB. Which
// file is the right one for a module, and what its ids are, is the matter of package objfile.
//
// The package is not yet promised: it may change in any version.
package objtab

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

// ErrMismatch is wrapped if two files that do not belong together were given.
var ErrMismatch = errors.New("the files do not belong together")

// File is one file of a module. A nil Reader means that there is none.
type File struct {
	Reader io.ReaderAt
	Size   int64
}

// Options of a conversion. The zero value works.
type Options struct {
	// Limits of the tables.
	Limits functab.Limits
	// Sections says how compressed sections are decompressed.
	Sections objfile.SectionOptions
	// Workers is the number of units of DWARF that are read at the same time; 0
	// means one for each processor.
	Workers int
	// Generator is recorded in the tables.
	Generator string
	// ShownOnly omits the linkage names of functions whose shown form differs.
	ShownOnly bool
	// Demangle returns the shown form of a linkage name; nil means unchanged. It
	// must be safe for concurrent use.
	Demangle func(raw string) string
	// NoFunctions omits DWARF, NoSymbols public symbols, NoUnwind unwind rules.
	NoFunctions, NoSymbols, NoUnwind bool
}

// ELFFiles are the files of one ELF module. Program or Debug must be there.
type ELFFiles struct {
	// Name is the name of the module, as it appears in crash reports.
	Name string
	// Program is the program or library as it runs. Debug is its separate debug
	// file.
	Program, Debug File
	// Package is the .dwp file of the program.
	Package File
	// Alternate is the supplementary file that dwz made.
	Alternate File
	// Object opens .dwo files by the name and the directory in the program and
	// the id of the unit; may be nil. The error wraps fs.ErrNotExist if there is
	// none. The files must stay open until the conversion ends.
	Object func(name, dir string, id uint64) (File, error)
}

// ELF reads what the files of an ELF module know of its functions. Damaged parts
// and missing files are reported in the warnings of the Builder. The error wraps
// ErrMismatch if the build-ids of two files differ, objfile.ErrBroken or
// objfile.ErrNotSymbolFile if a file cannot be read at all, functab.ErrLimit,
// dwarf.ErrBudget, or it is that of ctx or of reading.
func ELF(ctx context.Context, files ELFFiles, opt Options) (*functab.Builder, error) {
	c, err := openELFModule(files, opt)
	if err != nil {
		return nil, err
	}
	if err := c.read(ctx, files); err != nil {
		return nil, err
	}
	return c.b, nil
}

// openELFModule opens the program and the debug file of a module, and makes the Builder.
func openELFModule(files ELFFiles, opt Options) (*elfModule, error) {
	c := &elfModule{conversion: conversion{opt: opt}}
	var err error
	for _, f := range []struct {
		to   **objfile.ELFFile
		file File
		what string
	}{{&c.program, files.Program, "program"}, {&c.debug, files.Debug, "debug file"}} {
		if f.file.Reader == nil {
			continue
		}
		if *f.to, err = objfile.OpenELF(f.file.Reader, f.file.Size); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", f.what, files.Name, err)
		}
	}
	if c.program == nil && c.debug == nil {
		return nil, fmt.Errorf("module %s: no file: %w", files.Name, fs.ErrNotExist)
	}
	return c, c.identify(files)
}

// elfModule is a conversion under way.
type elfModule struct {
	conversion
	program, debug *objfile.ELFFile // one of them may be nil
}

// files returns the files that are there, the debug file first.
func (c *elfModule) files() []*objfile.ELFFile {
	var out []*objfile.ELFFile
	for _, f := range []*objfile.ELFFile{c.debug, c.program} {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// identify checks that the files belong together, and makes the Builder.
func (c *elfModule) identify(files ELFFiles) error {
	main := c.program
	if main == nil {
		main = c.debug
	}
	var id debugid.BuildID
	for i, f := range c.files() {
		have, err := f.BuildID()
		if err != nil {
			return err
		}
		if i > 0 && have != id && have != "" && id != "" {
			return fmt.Errorf("%w: the program has the build-id %s, its debug file %s", ErrMismatch, have, id)
		}
		if have != "" {
			id = have
		}
	}
	if c.program != nil && c.debug != nil && (c.program.Arch() != c.debug.Arch() || c.program.Is64() != c.debug.Is64()) {
		return fmt.Errorf("%w: the program is for %s, its debug file for %s", ErrMismatch, c.program.Arch(), c.debug.Arch())
	}
	c.base, c.code = main.Base(), main.Code()
	m := functab.Module{
		OS: "Linux", Arch: main.Arch(), Name: files.Name, Base: c.base, Generator: c.opt.Generator, Relocatable: main.Relocatable(),
	}
	if id != "" {
		m.ID, m.CodeID = id.DebugID(main.Order().String() == "LittleEndian"), strings.ToUpper(string(id))
		m.UUID, _ = hex.DecodeString(string(id)) // a build-id is hexadecimal
		m.UUID = m.UUID[:min(len(m.UUID), 20)]
	} else {
		f := files.Program
		if f.Reader == nil {
			f = files.Debug
		}
		objects, err := objfile.Identify(f.Reader, f.Size, files.Name, objfile.Options{IDs: true})
		if err == nil && len(objects) > 0 {
			m.ID = objects[0].DebugID
		}
	}
	if c.b = functab.NewBuilder(m, c.opt.Limits); c.opt.ShownOnly {
		c.b.ShownOnly()
	}
	return nil
}

// relocatable reports whether the module is not linked.
func (c *elfModule) relocatable() bool {
	return c.program == nil && c.debug.Relocatable() || c.program != nil && c.program.Relocatable()
}

func (c *elfModule) read(ctx context.Context, files ELFFiles) error {
	if c.relocatable() {
		c.b.Warn("ELF: a relocatable file; its addresses are not final, so that functions and symbols were left out")
		return nil
	}
	c.addSections(c.files()[0].Sections())
	if err := c.readSymbols(ctx); err != nil {
		return err
	}
	// What takes one processor goes on beside what takes all of them.
	symbols := make(chan error, 1)
	go func() { symbols <- c.addSymbols() }()
	err := c.readRules(ctx, files)
	return cmp.Or(<-symbols, err, ctx.Err())
}

// readRules reads the unwind rules, and then the functions. Their warnings are in the other order.
func (c *elfModule) readRules(ctx context.Context, files ELFFiles) error {
	before := c.b.TakeWarnings()
	if !c.opt.NoUnwind {
		if err := c.readUnwind(ctx); err != nil {
			return err
		}
	}
	last := c.b.TakeWarnings()
	c.b.GiveWarnings(before)
	if !c.opt.NoFunctions {
		if err := c.readFunctions(ctx, files); err != nil {
			return err
		}
	}
	c.b.GiveWarnings(last)
	return nil
}

// readSymbols reads and sorts the symbol table: .symtab of the debug file or of the program,
// else .dynsym and the symbols of .gnu_debugdata.
func (c *elfModule) readSymbols(ctx context.Context) error {
	add := c.keep(ctx)
	found := false
	for _, f := range c.files() {
		if f.HasSymbols() {
			found = true
			if err := c.warnBroken(f.CodeSymbols(false, add)); err != nil {
				return err
			}
			break
		}
	}
	if !found && c.program != nil {
		if err := c.warnBroken(c.program.CodeSymbols(true, add)); err != nil {
			return err
		}
		mini, err := c.program.MiniDebugInfo()
		switch {
		case err == nil:
			if err := c.readMini(mini, add); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, objfile.ErrBroken), errors.Is(err, objfile.ErrNotSymbolFile):
			c.b.Warn("MiniDebugInfo: %v", err)
		default:
			return err
		}
	}
	c.symbols = sortSymbols(c.symbols)
	return nil
}

// addSymbols adds what readSymbols has read.
func (c *elfModule) addSymbols() error {
	if c.opt.NoSymbols {
		return nil
	}
	return addSymbols(c.b, c.symbols, c.base, c.opt.shown)
}

// readMini reads the table of a MiniDebugInfo file. Its sections have the
// addresses of the program's.
func (c *elfModule) readMini(mini *objfile.ELFFile, add func(objfile.CodeSymbol) error) error {
	err := mini.CodeSymbols(false, add)
	if errors.Is(err, objfile.ErrBroken) {
		c.b.Warn("MiniDebugInfo: %v", err)
		return nil
	}
	return err
}

// sortSymbols orders symbols by address, the best name of an address first:
// lower rank, shorter, then in alphabetical order.
func sortSymbols(s []objfile.CodeSymbol) []objfile.CodeSymbol {
	slices.SortFunc(s, func(a, b objfile.CodeSymbol) int {
		if a.Address != b.Address { // nearly always: the rest takes longer
			return cmp.Compare(a.Address, b.Address)
		}
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return s
}

// addSymbols adds the best symbol of each address.
func addSymbols(b *functab.Builder, symbols []objfile.CodeSymbol, base uint64, shown func(string) string) error {
	for len(symbols) > 0 {
		n := 1
		for n < len(symbols) && symbols[n].Address == symbols[0].Address {
			n++
		}
		if symbols[0].Address >= base {
			s := symbolOf(symbols[:n], base)
			s.Name = b.Name(shown(symbols[0].Name), symbols[0].Name)
			if err := b.Symbol(s); err != nil {
				return err
			}
		}
		symbols = symbols[n:]
	}
	return nil
}

// symbolOf makes one symbol, without its name, of those at one address.
func symbolOf(same []objfile.CodeSymbol, base uint64) functab.Symbol {
	s := functab.Symbol{Address: same[0].Address - base}
	size := uint64(0)
	for _, x := range same {
		s.Multiple = s.Multiple || x.Name != same[0].Name
		if size == 0 {
			size = x.Size
		}
	}
	if size <= 1<<32-1 {
		s.Size = uint32(size)
	}
	return s
}

// symbolAt returns the name of the symbol at an address, or "".
func symbolAt(symbols []objfile.CodeSymbol, a uint64) string {
	i, found := slices.BinarySearchFunc(symbols, a, func(x objfile.CodeSymbol, a uint64) int { return cmp.Compare(x.Address, a) })
	if !found {
		return ""
	}
	return symbols[i].Name
}

// shown returns the shown form of a linkage name.
func (o Options) shown(raw string) string {
	if o.Demangle == nil {
		return raw
	}
	return o.Demangle(raw)
}

// readFunctions reads DWARF.
func (c *elfModule) readFunctions(ctx context.Context, files ELFFiles) error {
	d, err := c.dwarfData(files)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.readDWARF(ctx, d)
}

// dwarfData returns the DWARF: of the debug file, or of the program if that has it. The
// error wraps fs.ErrNotExist if neither has it.
func (c *elfModule) dwarfData(files ELFFiles) (dwarf.Data, error) {
	for _, f := range c.files() {
		if _, err := f.Section(".debug_info", objfile.SectionOptions{Limit: 1}); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		d, err := elfData(f, files, c.opt.Sections)
		if err == nil && d.Alternate == nil {
			if name, id, err := f.AltLink(); err == nil {
				c.b.Warn("DWARF: the supplementary file %s with the build-id %s is missing; some names are omitted", name, id)
			}
		}
		return d, err
	}
	return dwarf.Data{}, fmt.Errorf("DWARF: %w", fs.ErrNotExist)
}

// maxUnwind is the largest unwind section that is read, in bytes.
const maxUnwind = 512 << 20

// readUnwind reads call frame information.
func (c *elfModule) readUnwind(ctx context.Context) error {
	s, err := c.unwindSections()
	if err != nil || len(s.EHFrame) == 0 && len(s.DebugFrame) == 0 {
		return cmp.Or(err, ctx.Err())
	}
	return unwind.EHFrame(ctx, s, c.b)
}

// unwindSections returns .eh_frame of the program, because a debug file has the section without
// content, and .debug_frame of both.
func (c *elfModule) unwindSections() (unwind.Sections, error) {
	s := unwind.Sections{Base: c.base, Code: codeSections(c.code, c.base)}
	for _, f := range []*objfile.ELFFile{c.program, c.debug} {
		if f == nil {
			continue
		}
		s.Arch, s.BigEndian = f.Arch(), f.Order().String() == "BigEndian"
		if s.AddressSize = 4; f.Is64() {
			s.AddressSize = 8
		}
		var err error
		if len(s.EHFrame) == 0 {
			if s.EHFrame, err = c.unwindSection(f.Section(".eh_frame", c.opt.Sections)); err != nil {
				return s, err
			}
			s.EHFrameAddress = f.SectionAddress(".eh_frame")
		}
		if len(s.DebugFrame) == 0 {
			if s.DebugFrame, err = c.unwindSection(f.Section(".debug_frame", c.opt.Sections)); err != nil {
				return s, err
			}
		}
		if s.TextAddress == 0 {
			s.TextAddress, s.DataAddress = f.SectionAddress(".text"), f.SectionAddress(".got")
		}
	}
	return s, nil
}

func (c *elfModule) unwindSection(d *objfile.SectionData, err error) ([]byte, error) {
	return unwindSection(c.b, d, err)
}

// unwindSection returns the content of an unwind section. A section that is missing
// or damaged has none.
func unwindSection(b *functab.Builder, d *objfile.SectionData, err error) ([]byte, error) {
	var p []byte
	if err == nil {
		p, err = d.ReadAll(maxUnwind)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, objfile.ErrBroken):
		b.Warn("unwind rules: %v", err)
		return nil, nil
	}
	return p, err
}

// codeSections returns ranges of code relative to the base.
func codeSections(code []objfile.AddressRange, base uint64) []functab.Section {
	var out []functab.Section
	for _, r := range code {
		if r.Start >= base {
			out = append(out, functab.Section{Start: r.Start - base, Size: r.End - r.Start})
		}
	}
	return out
}
