package functab

import (
	"errors"
	"fmt"
	"slices"
)

// ErrEntangled is wrapped by the errors of an Excerpt of functions that overlap so
// that an answer depends on very many of them.
var ErrEntangled = errors.New("too many functions overlap")

// maxEntangled is on how many functions an answer of an Excerpt may depend.
const maxEntangled = 1 << 14

// Excerpt answers lookups from the functions that a Builder has so far, as the Table
// of all functions would. Which functions an answer depends on, Around says. Nobody may add
// to the Builder during a call of its methods.
type Excerpt struct {
	b     *Builder
	n     int      // functions that are sorted
	reach []uint64 // the highest end up to here
}

// NewExcerpt returns an Excerpt of a Builder, of which no Table must be made. Names that
// are added with equal shown and raw forms from now on get their shown form from demangle
// when an answer has them. Nil: they have it.
func NewExcerpt(b *Builder, demangle func(raw string) string) *Excerpt {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = demangle
	return &Excerpt{b: b}
}

// sort sorts what was added.
func (x *Excerpt) sort() {
	funcs := &x.b.funcs
	if x.n == funcs.len() {
		return
	}
	funcs.sort()
	x.n = funcs.len()
	x.reach = slices.Grow(x.reach[:0], x.n)
	high := uint64(0)
	for i := range x.n {
		start, pos := funcs.get(i)
		high = max(high, readHead(x.b.records.at(pos)).end(start))
		x.reach = append(x.reach, high)
	}
}

// overlapping returns the numbers of the functions, from first up to end, that have
// code in a range, or that overlap with such a function, and so on.
func (x *Excerpt) overlapping(from, to uint64) (first, end int, err error) {
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	x.sort()
	if to == 0 {
		return 0, 0, nil
	}
	end = x.b.funcs.last(to-1) + 1
	for first = end; first > 0; first-- {
		low := from
		if first < end {
			start, _ := x.b.funcs.get(first)
			low = min(low, start)
		}
		if x.reach[first-1] <= low {
			break
		}
		if end-first > maxEntangled {
			return 0, 0, fmt.Errorf("%w: around %#x", ErrEntangled, from)
		}
	}
	for ; end > first && end < x.n; end++ {
		if start, _ := x.b.funcs.get(end); start >= x.reach[end-1] {
			break
		}
		if end-first > maxEntangled {
			return 0, 0, fmt.Errorf("%w: around %#x", ErrEntangled, from)
		}
	}
	return first, end, nil
}

// Around returns a range of addresses that contains the given one: the answers to
// lookups in the given range depend on the functions in the returned range alone, as far as
// these were added. The error wraps ErrEntangled.
func (x *Excerpt) Around(from, to uint64) (low, high uint64, err error) {
	first, end, err := x.overlapping(from, to)
	low, high = from, to
	if err == nil && first < end {
		start, _ := x.b.funcs.get(first)
		low, high = min(low, start), max(high, x.reach[end-1])
	}
	return low, high, err
}

// Lookup describes the function that contains an address. It is not ok if none does.
// The error wraps ErrEntangled.
func (x *Excerpt) Lookup(rva uint64) (a Answer, ok bool, err error) {
	err = x.kept(rva, rva+1, func(c *candidate) {
		if ok || rva < c.start || rva >= c.head.end(c.start) {
			return
		}
		t := x.table()
		a, ok = t.inFunction(c.start, c.head, x.b.records.at(c.pos)[headSize:], rva), true
	})
	return a, ok, err
}

// kept calls a function with each function that a Table keeps and that has code in a
// range.
func (x *Excerpt) kept(from, to uint64, do func(*candidate)) error {
	first, end, err := x.overlapping(from, to)
	if err == nil {
		x.b.arrange(first, end, func(c *candidate) {
			if c.start < to && c.head.end(c.start) > from {
				do(c)
			}
		})
	}
	return err
}

// HasFunction reports whether a function has code in a range. The error wraps
// ErrEntangled.
func (x *Excerpt) HasFunction(from, to uint64) (has bool, err error) {
	err = x.kept(from, to, func(*candidate) { has = true })
	return has, err
}

// Symbol describes the code at an address that is in no function and belongs to a
// symbol.
func (x *Excerpt) Symbol(s Symbol) Answer {
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	t := x.table()
	return Answer{Frames: []Line{t.line(s.Name, 0, 0)}, FunctionStart: s.Address, FunctionSize: s.Size, Symbol: true}
}

// IsSymbol reports whether a Table keeps symbols of a name.
func (x *Excerpt) IsSymbol(name NameID) bool {
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	shown, raw := x.b.bothOf(name)
	return shown != "" && !constant(shown) && !constant(raw)
}

// table returns a Table for the texts and records.
func (x *Excerpt) table() *Table {
	return &Table{files: x.b.files, records: x.b.records, late: x.b.bothOf}
}

// Warned reports whether readers left out something.
func (x *Excerpt) Warned() bool {
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	return len(x.b.warnings) > 0
}
