package stackwalk

import (
	"context"

	"github.com/symdepot/symdepot/functab"
)

// Finder gives the frame with the rules of the code at an address. unwind.Finder is one.
type Finder interface {
	Find(ctx context.Context, rva uint64) (functab.Frame, bool, error)
}

// Known is what is known of one module. The zero value is a module of which nothing is known.
type Known struct {
	Table  *functab.Table // functions, symbols and rules of the debug information
	Finder Finder         // rules of the program itself, for code without rules in Table
}

// Modules is a Source: what is known of each module of a process.
type Modules []Known

// Rules implements Source. An error of a Finder means that the rules are not known.
func (m Modules) Rules(ctx context.Context, module int, rva uint64) (r functab.Rules, ok bool) {
	k := &m[module]
	if k.Table != nil {
		r, ok = k.Table.RulesAt(rva)
	}
	if k.Finder != nil && len(r.CFI) == 0 {
		if f, found, err := k.Finder.Find(ctx, rva); err == nil && found {
			if own, holds := f.RulesAt(rva); holds {
				r.Start, r.CFI, ok = own.Start, own.CFI, true
			}
		}
	}
	return r, ok
}

// Code implements Source. A module without Table has code where its program has rules.
func (m Modules) Code(ctx context.Context, module int, rva uint64) bool {
	k := &m[module]
	switch {
	case k.Table != nil:
		return k.Table.Known(rva)
	case k.Finder != nil:
		_, found, err := k.Finder.Find(ctx, rva)
		return found || err != nil
	}
	return true
}
