package symbolicate

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

const (
	// unitsFrom is the size of the ELF files of a module from which on its first
	// addresses are looked up in single units of DWARF: all of smaller ones is read at
	// once.
	unitsFrom = 32 << 20
	// unitsTime is how long units are read for the lookups of one user of a module.
	// Reading all of them at once then takes less time.
	unitsTime = 2 * time.Second
	// unitTime is how long the units of one address may be read.
	unitTime = 30 * time.Second
	// unitsMemory is the limit of what is kept of the units of a module, in bytes.
	unitsMemory = 256 << 20
)

// byUnits reports whether a module of a kind is looked up in single units at first. size
// is that of its files.
func byUnits(k symfile.Kind, size int64) bool { return k == symfile.ELF && size >= unitsFrom }

// unitTables are the units of an open ELF module.
type unitTables struct {
	*objtab.ELFLookup
	scratch *scratch
}

// openUnits opens an ELF module of its parts. The error is that of ReadParts, or it wraps
// dwarf.ErrWhole. Close must be called.
func openUnits(ctx context.Context, dir string, parts []Part) (*unitTables, error) {
	if err := link(ctx, parts); err != nil {
		return nil, err
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return a.rank() - b.rank() })
	t := &unitTables{scratch: &scratch{dir: dir, left: maxScratch}}
	files, opt := elfFiles(parts), elfOptions(t.scratch)
	opt.Limits.Bytes = unitsMemory
	var err error
	if t.ELFLookup, err = objtab.OpenELFLookup(ctx, files, opt); err != nil {
		return nil, errors.Join(badIfFormat(err), t.Close())
	}
	return t, nil
}

// closers are closed together.
type closers []func() error

// Close implements io.Closer.
func (list closers) Close() error {
	var errs []error
	for _, f := range list {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// memory implements sizedLooker.
func (t *unitTables) memory() int64 { return unitsMemory }

// Close removes temporary files.
func (t *unitTables) Close() error { return t.scratch.close() }

// Lookup implements Looker. An address for which the whole module is needed is not found.
func (t *unitTables) Lookup(rva uint64) (functab.Answer, bool) {
	a, ok, err := t.lookup(context.Background(), rva)
	return a, ok && err == nil
}

// lookup looks an address up. The error is that of objtab.ELFLookup, or of writing
// temporary files.
func (t *unitTables) lookup(ctx context.Context, rva uint64) (functab.Answer, bool, error) {
	a, ok, err := t.ELFLookup.Lookup(ctx, rva)
	if failed := t.scratch.failure(); failed != nil {
		err = failed
	}
	return a, ok, err
}

// unitLooker looks addresses up in the units of a module, for one user. Where units cannot
// answer, the whole module does.
type unitLooker struct {
	ctx   context.Context // of the user
	units *unitTables
	// open opens the whole module, and returns what ends its use.
	open func(context.Context) (Looker, func(), error)

	mu    sync.Mutex
	spent time.Duration // guarded by mu
	whole Looker        // nil: not yet needed; guarded by mu
	end   func()        // ends the use of whole; nil if there is nothing to end; guarded by mu
}

// none is the Looker of a module of which the whole cannot be read.
type none struct{ err error }

// Lookup implements Looker.
func (none) Lookup(uint64) (a functab.Answer, ok bool) { return a, false }

// Lookup implements Looker.
func (l *unitLooker) Lookup(rva uint64) (functab.Answer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole == nil && l.spent < unitsTime {
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), unitTime)
		a, ok, err := l.units.lookup(ctx, rva)
		cancel()
		if l.spent += time.Since(start); err == nil {
			return a, ok
		}
	}
	return l.all().Lookup(rva)
}

// all returns the whole module. The caller holds mu.
func (l *unitLooker) all() Looker {
	if l.whole == nil {
		w, end, err := l.open(l.ctx)
		if err != nil {
			w = none{err}
		}
		l.whole, l.end = w, end
	}
	return l.whole
}

// done ends the use of the module.
func (l *unitLooker) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
		l.end = nil
	}
}

// functions implements functionLister.
func (l *unitLooker) functions(ctx context.Context, from int, match func(name string) bool) iter.Seq2[Function, error] {
	l.mu.Lock()
	w := l.all()
	l.mu.Unlock()
	if list, ok := w.(functionLister); ok {
		return list.functions(ctx, from, match)
	}
	err := ErrNoFunctions
	if n, ok := w.(none); ok {
		err = n.err
	}
	return func(yield func(Function, error) bool) { yield(Function{}, err) }
}
