package unwind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/symdepot/symdepot/functab"
)

// Finder gives the unwind rules of single functions of a module: the same rules as the conversion of the
// whole module, whose unwind data it converts only where it is asked. It is safe for concurrent use.
//
// The first question reads the table of functions: the entries of .pdata, or the heads of the frames of
// .eh_frame and .debug_frame. Compact unwind information has pages that are searched as they are.
type Finder struct {
	mu      sync.Mutex
	indexed bool
	index   func(ctx context.Context) error
	find    func(ctx context.Context, rva uint64, to *found) error
	empty   bool // there are no rules
}

// Empty reports that the file has no unwind data at all.
func (f *Finder) Empty() bool { return f.empty }

// Find returns the frame that holds the rules of the code at rva. It returns false if there is none, or
// if it cannot be read or translated. The errors are those of ctx and of the reader.
func (f *Finder) Find(ctx context.Context, rva uint64) (functab.Frame, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return functab.Frame{}, false, err
	}
	if !f.indexed {
		if err := f.index(ctx); err != nil {
			return functab.Frame{}, false, err
		}
		f.indexed = true
	}
	to := &found{at: rva}
	if err := f.find(ctx, rva, to); err != nil && !errors.Is(err, errWork) {
		return functab.Frame{}, false, err
	}
	return to.frame, to.ok, nil
}

// found is a sink that keeps the frame of one address. Of several, it keeps the first.
type found struct {
	at    uint64
	ok    bool
	frame functab.Frame
}

func (t *found) Frame(f functab.Frame) error {
	if t.ok || t.at < f.Start || t.at-f.Start >= uint64(f.Size) {
		return nil
	}
	f.Deltas = slices.Clone(f.Deltas)
	t.frame, t.ok = f, true
	return nil
}

func (t *found) Warn(string, ...any) {}

// exception is one entry of an exception table. ARM64 has no end in it.
type exception struct{ begin, end, info uint32 }

// byBegin finds the last of the entries, in ascending order, that begins at or before an address; -1 for
// none.
func byBegin(list []exception, rva uint64) int {
	i, _ := slices.BinarySearchFunc(list, rva, func(e exception, at uint64) int {
		if uint64(e.begin) <= at {
			return -1
		}
		return 1
	})
	return i - 1
}

// NewPE returns a Finder for an image for x64 or ARM64. For other processors it finds nothing.
func NewPE(img Image) *Finder {
	f := &Finder{}
	var list []exception
	var known bool // the code outside of the entries
	size := map[string]int{"x86_64": entry64, "arm64": entryArm64}[img.Arch()]
	f.index = func(ctx context.Context) error {
		if list, known = nil, true; size == 0 {
			return nil
		}
		t, err := openTable(ctx, img, &found{}, size)
		last := uint32(0)
		for err == nil && t.next() {
			e := exception{t.uint32(0), t.uint32(4), 0}
			if size == entry64 {
				e.info = t.uint32(8)
			}
			known = known && e.begin >= last
			if last = e.begin; size == entry64 {
				last = max(e.begin, e.end)
			}
			list = append(list, e)
		}
		if err = t.close(err); err != nil {
			return err
		}
		slices.SortStableFunc(list, func(a, b exception) int { return cmp.Compare(a.begin, b.begin) })
		return nil
	}
	shared := &pages{r: img}
	f.find = func(ctx context.Context, rva uint64, to *found) error {
		i := byBegin(list, rva)
		next, gap := uint32(noEnd), uint32(0)
		if i+1 < len(list) {
			next = list[i+1].begin
		}
		if size == entryArm64 {
			d := &arm64{b: to, p: shared, work: newWork(ctx, 0)}
			if i >= 0 {
				if gap = d.end(list[i].begin, list[i].end); rva < uint64(gap) {
					return omit(to, "", 0, d.record(list[i].begin, list[i].end))
				}
			}
			if !known || len(list) == 0 {
				return nil
			}
			g := d.gaps(img)
			g.last = gap
			return g.until(next, next)
		}
		d := &x64{b: to, p: shared, work: newWork(ctx, 0)}
		if i >= 0 {
			if gap = list[i].end; rva < uint64(gap) {
				return omit(to, "", 0, d.entry(list[i].begin, list[i].end, list[i].info))
			}
		}
		if !known || len(list) == 0 {
			return nil
		}
		g := newGaps(d, img)
		g.last = gap
		return g.until(next, next)
	}
	return f
}

// description is the place of one frame of .eh_frame or .debug_frame.
type description struct {
	span
	at uint32 // offset in the section
	eh bool
}

// NewSections returns a Finder for the unwind sections of an ELF, Mach-O or PE file. It finds the rules
// that Compact gives if the file has compact unwind information, and otherwise those of EHFrame.
func NewSections(s Sections) *Finder {
	f := &Finder{empty: len(s.EHFrame)+len(s.DebugFrame)+len(s.CompactUnwind) == 0}
	m := machineFor(s.Arch, s.Apple)
	var list []description
	readers := map[bool]*frames{}
	var taken []span
	f.index = func(ctx context.Context) error {
		list, taken = nil, nil
		for _, eh := range []bool{true, false} {
			if m == nil {
				break
			}
			d := newFrames(ctx, &s, m, &found{}, eh)
			if uint64(len(d.data)) > 1<<32-1 {
				return fmt.Errorf("%s has %d bytes; at most 4 GiB are searched", d.name(), len(d.data))
			}
			readers[eh] = d
			for at := 0; len(d.data)-at >= 4; {
				_, e, next, err := d.head(at)
				if errors.Is(err, errWork) {
					break
				}
				if err := omit(d.b, d.name(), uint64(at), err); err != nil {
					return err
				}
				if e != nil && err == nil {
					list = append(list, description{span{d.location - s.Base, d.end - s.Base}, uint32(at), eh})
				}
				at = next
			}
		}
		slices.SortStableFunc(list, func(a, b description) int { return cmp.Compare(a.start, b.start) })
		for _, e := range list {
			taken = append(taken, e.span)
		}
		return nil
	}
	f.find = func(ctx context.Context, rva uint64, to *found) error {
		for _, e := range holding(list, rva) {
			d := readers[e.eh]
			d.b, d.work = to, newWork(ctx, 0)
			_, err := d.at(int(e.at))
			if err := omit(to, "", 0, err); err != nil || to.ok {
				return err
			}
		}
		if d := newCompact(ctx, &s, to); len(s.CompactUnwind) > 0 && d.decode != nil {
			d.taken = taken
			return omit(to, "", 0, d.find(rva))
		}
		return nil
	}
	return f
}

// maxHolding is the number of frames before an address that are searched for one that holds it.
const maxHolding = 8

// holding returns the frames that hold an address, that which starts first before the others.
func holding(list []description, rva uint64) (out []description) {
	i, _ := slices.BinarySearchFunc(list, rva, func(e description, at uint64) int {
		if e.start <= at {
			return -1
		}
		return 1
	})
	for _, e := range list[max(i-maxHolding, 0):i] {
		if rva < e.end {
			out = append(out, e)
		}
	}
	return out
}

// find adds the frame of the function that holds an address.
func (d *compact) find(rva uint64) error {
	var version, index, count uint32
	if err := d.words(0, &version, &d.common, &d.commons); err != nil {
		return err
	}
	if version != 1 || rva >= 1<<32 {
		return bad("version %d is not known", version)
	}
	if err := d.words(20, &index, &count); err != nil {
		return err
	}
	start := func(i uint32) (v uint32, err error) { return d.u32(uint64(index) + 12*uint64(i)) }
	i, err := lastEntry(count, uint32(rva), start)
	if err != nil || i < 0 || i+1 == int64(count) {
		return err
	}
	var from, page, end uint32
	if err := d.words(uint64(index)+12*uint64(i), &from, &page); err != nil || page == 0 {
		return err
	}
	if end, err = start(uint32(i) + 1); err != nil {
		return err
	}
	p, err := d.open(from, uint64(page))
	if err != nil {
		return err
	}
	n, err := lastEntry(p.count, uint32(rva), p.start)
	if err != nil || n < 0 {
		return err
	}
	begin, err := p.start(uint32(n))
	if err != nil {
		return err
	}
	if uint32(n)+1 < p.count {
		if end, err = p.start(uint32(n) + 1); err != nil {
			return err
		}
	}
	encoding, err := p.encoding(uint32(n))
	if err != nil || begin >= end {
		return err
	}
	return d.add(uint64(begin), uint64(end), encoding)
}

// lastEntry returns the number of the last of n entries that starts at or before an address; -1 for none.
func lastEntry(n, rva uint32, start func(uint32) (uint32, error)) (int64, error) {
	low, high := uint32(0), n
	for low < high {
		middle := low + (high-low)/2
		v, err := start(middle)
		if err != nil {
			return -1, err
		}
		if v <= rva {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return int64(low) - 1, nil
}
