package objtab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/objfile"
)

// maxWidened is how often a lookup asks for more units, because functions of units
// overlap.
const maxWidened = 64

// ELFLookup looks up addresses of an ELF module, and reads only the units of DWARF that
// have code there. What it has read serves later lookups. It answers as the table of the
// whole module does, or with an error. It is safe for concurrent use.
type ELFLookup struct {
	module functab.Module

	mu    sync.Mutex
	c     *elfModule
	units *dwarf.Units
	names *functab.Excerpt
	err   error // why nothing more is answered

	sections []functab.Section // with code, in ascending order
}

// OpenELFLookup opens an ELF module. The files must stay open. The error wraps
// dwarf.ErrWhole if only the table of the whole module can answer, or fs.ErrNotExist if
// there is no DWARF, or it is one of those of ELF.
func OpenELFLookup(ctx context.Context, files ELFFiles, opt Options) (*ELFLookup, error) {
	opt.NoSymbols = true // a lookup adds the symbol that it needs
	c, err := openELFModule(files, opt)
	if err != nil {
		return nil, err
	}
	if c.relocatable() {
		return nil, fmt.Errorf("%w: a relocatable file", dwarf.ErrWhole)
	}
	l := &ELFLookup{c: c, names: functab.NewExcerpt(c.b, opt.Demangle), module: c.b.Module()}
	l.sections = codeOf(c.files()[0].Sections(), c.base)
	sorting.By(l.sections, func(a, b functab.Section) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Size, b.Size))
	})
	d, err := c.dwarfData(files)
	if err != nil {
		return nil, err
	}
	symbols := make(chan error, 1)
	go func() {
		err := c.readSymbols(ctx)
		if err == nil {
			err = c.addSymbols()
		}
		symbols <- err
	}()
	read := c.dwarfOptions()
	read.Demangle = nil // the names of answers alone are demangled
	l.units, err = dwarf.OpenUnits(ctx, d, read, c.b)
	if failed := <-symbols; err == nil {
		err = failed
	}
	if err == nil {
		err = l.sound()
	}
	return l, err
}

// Module returns the description of the module.
func (l *ELFLookup) Module() functab.Module { return l.module }

// sound is an error if something was left out, which the table of the whole module
// reports.
func (l *ELFLookup) sound() error {
	if l.names.Warned() {
		return fmt.Errorf("%w: a part is damaged or missing", dwarf.ErrWhole)
	}
	return nil
}

// Lookup describes the code at an address relative to the base of the module, as
// functab.Table does. The error wraps dwarf.ErrWhole or functab.ErrEntangled if only the
// table of the whole module can answer, dwarf.ErrBudget or functab.ErrLimit, or it is that of
// ctx or of reading. After an error, all lookups have it.
func (l *ELFLookup) Lookup(ctx context.Context, rva uint64) (a functab.Answer, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && rva+1 != 0 {
		a, ok, l.err = l.lookup(ctx, rva)
	}
	return a, ok, l.err
}

func (l *ELFLookup) lookup(ctx context.Context, rva uint64) (a functab.Answer, ok bool, err error) {
	if err := l.readAround(ctx, rva, rva+1); err != nil {
		return a, false, err
	}
	if a, ok, err = l.names.Lookup(rva); ok || err != nil {
		return a, ok, err
	}
	if a, ok = l.symbolBefore(rva); !ok {
		return a, false, nil
	}
	// A function between the symbol and the address ends the range of the symbol.
	if err := l.readAround(ctx, a.FunctionStart, rva+1); err != nil {
		return functab.Answer{}, false, err
	}
	if has, err := l.names.HasFunction(a.FunctionStart, rva+1); has || err != nil {
		return functab.Answer{}, false, err
	}
	return a, true, nil
}

// readAround reads the units on which the answers to lookups in a range depend.
func (l *ELFLookup) readAround(ctx context.Context, from, to uint64) error {
	for range maxWidened {
		more, err := l.units.Read(ctx, dwarf.Range{Start: from, End: to})
		if err == nil && more {
			err = l.sound()
		}
		if err != nil {
			return err
		}
		low, high, err := l.names.Around(from, to)
		if err != nil {
			return err
		}
		if low == from && high == to {
			return nil
		}
		from, to = low, high
	}
	return fmt.Errorf("%w: around %#x", functab.ErrEntangled, from)
}

// symbolBefore answers with the last symbol at or before an address in no function, if the
// range of the symbol has the address unless a function ends it.
func (l *ELFLookup) symbolBefore(rva uint64) (a functab.Answer, ok bool) {
	list, base := l.c.symbols, l.c.base
	i, _ := slices.BinarySearchFunc(list, rva+base+1, func(x objfile.CodeSymbol, a uint64) int { return cmp.Compare(x.Address, a) })
	for last := i == len(list); i > 0 && list[i-1].Address > base; last = false {
		end := i
		for i--; i > 0 && list[i-1].Address == list[i].Address; {
			i--
		}
		s := symbolOf(list[i:end], base)
		if s.Name = l.c.b.Name(l.c.opt.shown(list[i].Name), list[i].Name); !l.names.IsSymbol(s.Name) {
			continue
		}
		k := sort.Search(len(l.sections), func(k int) bool { return l.sections[k].Start > rva })
		if k > 0 && l.sections[k-1].Start > s.Address {
			return a, false // a section begins behind the symbol
		}
		if last && k == len(l.sections) && k > 0 && s.Size == 0 && l.units.End() <= s.Address {
			// The last symbol of the module ends with its section.
			if size := l.sections[k-1].Start + l.sections[k-1].Size - s.Address; size > 0 && size < 1<<32 {
				s.Size = uint32(size)
			}
		}
		if s.Size > 0 && rva-s.Address >= uint64(s.Size) {
			return a, false
		}
		return l.names.Symbol(s), true
	}
	return a, false
}
