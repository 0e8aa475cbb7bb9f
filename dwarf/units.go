package dwarf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"

	"github.com/symdepot/symdepot/functab"
)

// ErrWhole is wrapped by the errors of Units for debug information of which single
// units cannot be read, or are not enough: it is damaged, a split unit is missing, or
// the units do not say which code they have. Read says more.
var ErrWhole = errors.New("all of the debug information must be read")

const (
	maxUnitRanges = 4 << 20 // ranges of all units
	maxUnits      = 1 << 22
	// Units that do not say which code they have are all read, if they are at most
	// this part of .debug_info, or this many bytes.
	loosePart  = 64
	looseBytes = 1 << 20
)

// Units finds the units that have code at an address by the first entry of each
// unit, and reads these units alone. It must not be used by several goroutines at the
// same time.
type Units struct {
	r       *reader
	workers []*worker
	list    []unitPlace
	spans   []unitSpan // in ascending order of Start
	reach   []uint64   // the highest End up to here
	loose   []uint32   // units without ranges, until they are read

	looseSize uint64 // of the units without ranges, in bytes
}

// unitPlace is one unit.
type unitPlace struct {
	off    uint64
	number uint32
	read   bool
}

// unitSpan is a range of code of the unit with an index in Units.list.
type unitSpan struct {
	Range
	unit uint32
}

// OpenUnits reads the first entry of each unit. Functions are added to b. The error
// wraps ErrWhole, or it is one of those of Read.
func OpenUnits(ctx context.Context, d Data, opt Options, b *functab.Builder) (*Units, error) {
	r, err := newReader(ctx, d, opt, b)
	if err != nil {
		return nil, err
	}
	x := &Units{r: r}
	n := opt.Workers
	if n <= 0 {
		n = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	for range max(n, 1) {
		x.workers = append(x.workers, newWorker(r))
	}
	w0 := x.workers[0]
	v := w0.view(r.main)
	if err := w0.mark(v); err != nil {
		return nil, err
	}
	if r.main.damage != nil || len(r.main.marks)*r.main.step > maxUnits {
		return nil, fmt.Errorf("%w: %d groups of units, %w", ErrWhole, len(r.main.marks), cmp.Or(r.main.damage, errBad))
	}
	if r.pkg != nil {
		if r.pkgIdx, r.pkgErr = w0.readPackageIndex(w0.view(r.pkg)); r.pkgErr != nil {
			return nil, fmt.Errorf("%w: %w", ErrWhole, r.pkgErr)
		}
	}
	for _, w := range x.workers {
		w.survey = true
	}
	if err := x.each(ctx, (*Units).survey); err != nil {
		return nil, err
	}
	for _, w := range x.workers {
		w.survey = false
		clear(w.units)
	}
	return x, x.sort()
}

// sound is an error if a section cannot be read.
func (x *Units) sound() error {
	for _, im := range []*image{x.r.main, x.r.alt, x.r.pkg} {
		if im != nil && len(im.errs) > 0 {
			return fmt.Errorf("%w: %w", ErrWhole, im.errs[0])
		}
	}
	return nil
}

// each calls a function in each worker, and waits.
func (x *Units) each(ctx context.Context, do func(*Units, *worker) error) error {
	x.r.next.Store(0)
	errs := make([]error, len(x.workers))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for i, w := range x.workers {
		w.ctx = ctx
		wg.Go(func() {
			if errs[i] = do(x, w); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return cmp.Or(cmp.Or(errs...), x.sound())
}

// survey reads the first entries of the units of marks, until there are no more.
func (x *Units) survey(w *worker) error {
	r, v := x.r, w.view(x.r.main)
	for {
		m := int(r.next.Add(1) - 1)
		if m >= len(r.main.marks) {
			return v.err()
		}
		off := r.main.marks[m]
		for i := range r.main.step {
			h, err := v.header(off)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil || h.unsupported {
				return fmt.Errorf("%w: the unit at %#x cannot be read", ErrWhole, off)
			}
			at := unitPlace{off: off, number: uint32(m*r.main.step + i)}
			if err := x.place(w, v, h, at); w.fatal(err) {
				return err
			} else if err != nil {
				return fmt.Errorf("%w: %w", ErrWhole, err)
			}
			off = h.end
		}
	}
}

// place enters a unit with its ranges.
func (x *Units) place(w *worker, v *view, h header, at unitPlace) error {
	if h.typ == unitType || h.typ == unitSplitType || h.die >= h.end {
		return nil
	}
	u, err := w.openUnit(v, h, nil, contribution{})
	if err != nil || u.tag == tagPartial && !u.hasCode {
		return err
	}
	// Version 2 has no lists of ranges: a unit in several sections names one of them.
	ranged := h.version > 2 && (u.top.ranges.form != 0 || u.top.low.form != 0 && u.top.high.form != 0)
	if w.spans, err = w.entryRanges(u, &u.top, w.spans[:0]); err != nil {
		return err
	}
	loose := !ranged && (u.dwo != "" || h.typ == unitSkeleton)
	if !ranged && !loose {
		all, err := w.abbrevTable(v, h.abbrev, h.encoding)
		if err != nil {
			return err
		}
		loose = all.haveCode()
	}
	if !loose && len(w.spans) == 0 {
		return nil
	}
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	n := uint32(len(x.list))
	x.list = append(x.list, at)
	if loose {
		x.loose = append(x.loose, n)
		x.looseSize += h.end - h.off
	}
	if len(x.spans)+len(w.spans) > maxUnitRanges {
		return fmt.Errorf("%w: more than %d ranges of units", errBad, maxUnitRanges)
	}
	for _, s := range w.spans {
		x.spans = append(x.spans, unitSpan{s, n})
	}
	return nil
}

// haveCode reports whether a unit with these abbreviations may have functions.
func (t *abbrevs) haveCode() bool {
	for i := range t.dense {
		if t.dense[i].role == roleFunc {
			return true
		}
	}
	for _, a := range t.sparse {
		if a.role == roleFunc {
			return true
		}
	}
	return false
}

// sort orders the ranges.
func (x *Units) sort() error {
	if limit := max(looseBytes, x.workers[0].view(x.r.main).info.Size()/loosePart); x.looseSize > limit {
		return fmt.Errorf("%w: units of %d bytes do not say which code they have", ErrWhole, x.looseSize)
	}
	slices.SortFunc(x.spans, func(a, b unitSpan) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.unit, b.unit)) })
	x.reach = make([]uint64, len(x.spans))
	high := uint64(0)
	for i, s := range x.spans {
		high = max(high, s.End)
		x.reach[i] = high
	}
	return nil
}

// End returns the end of the highest range of a unit, relative to the base of the module.
func (x *Units) End() uint64 {
	if n := len(x.reach); n > 0 && x.reach[n-1] > x.r.opt.Base {
		return x.reach[n-1] - x.r.opt.Base
	}
	return 0
}

// Read reads the units that have code in a range and that were not read before, and
// reports whether there were any. The range is relative to the base of the module. After an
// error nothing more can be read; it wraps ErrWhole, or is one of those of the function
// Read.
func (x *Units) Read(ctx context.Context, r Range) (bool, error) {
	x.workers[0].ctx = ctx
	wanted, err := x.in(r, x.loose)
	x.loose = nil
	if err != nil || len(wanted) == 0 {
		return false, err
	}
	for _, i := range wanted {
		x.list[i].read = true
	}
	err = x.each(ctx, func(x *Units, w *worker) error {
		v := w.view(x.r.main)
		for {
			i := int(x.r.next.Add(1) - 1)
			if i >= len(wanted) {
				return v.err()
			}
			if err := w.readPlace(v, x.list[wanted[i]]); err != nil {
				return err
			}
		}
	})
	return true, err
}

// in appends the units with code in a range that are not read.
func (x *Units) in(r Range, out []uint32) ([]uint32, error) {
	base := x.r.opt.Base
	low, high := r.Start+base, r.End+base
	if low < base || high < base {
		return out, nil // no unit has code there
	}
	i, _ := slices.BinarySearchFunc(x.spans, high, func(s unitSpan, a uint64) int { return cmp.Compare(s.Start, a) })
	for i--; i >= 0 && x.reach[i] > low; i-- {
		if err := x.workers[0].spend(1); err != nil {
			return out, err
		}
		if s := x.spans[i]; s.End > low && !x.list[s.unit].read {
			x.list[s.unit].read = true
			out = append(out, s.unit)
		}
	}
	return out, nil
}

// readPlace reads one unit.
func (w *worker) readPlace(v *view, at unitPlace) error {
	h, err := v.header(at.off)
	if err == nil {
		w.number, w.stats = at.number, Stats{}
		err = w.unit(v, h)
	}
	switch {
	case w.fatal(err):
		return err
	case err != nil:
		return fmt.Errorf("%w: the unit at %#x: %w", ErrWhole, at.off, err)
	case w.stats.Missing > 0:
		return fmt.Errorf("%w: a split unit is missing", ErrWhole)
	}
	return nil
}
