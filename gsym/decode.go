package gsym

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/symdepot/symdepot/functab"
)

// function is a decoded record.
type function struct {
	entry  int
	start  uint64 // relative to the base of the file
	size   uint32 // 0: ends at the next entry
	name   string
	symbol bool
	lines  []byte  // the line table
	checks []check // where its decoding can start; empty without rows
	calls  []call  // inlined calls in preorder
	ranges []functab.Range
	cost   int64 // bytes of memory
	// scratch, if not nil, is the memory of all this, to be used again.
	scratch *scratch
}

// free ends the use of a function, which may be nil.
func (fn *function) free() {
	if fn != nil && fn.scratch != nil {
		fn.scratch.put()
	}
}

// check is a state of decoding a line table: the next byte, and the row before it.
type check struct {
	pos int
	row row
}

// call is an inlined call.
type call struct {
	depth      int
	name       uint32 // offset in the string table
	file, line uint32 // of the call
	first, end int    // ranges[first:end]
	next       int    // the first call after the calls inlined into this one
}

// cursor reads numbers. Its first error empties it.
type cursor struct {
	b   []byte
	pos int
	bad bool
}

func (c *cursor) byte() byte {
	if c.pos >= len(c.b) {
		c.bad = true
		return 0
	}
	c.pos++
	return c.b[c.pos-1]
}

func (c *cursor) uint32() uint32 {
	if len(c.b)-c.pos < 4 {
		c.bad, c.pos = true, len(c.b)
		return 0
	}
	c.pos += 4
	return le.Uint32(c.b[c.pos-4:])
}

func (c *cursor) unsigned() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := c.byte()
		if shift >= 64 {
			c.bad = true
			return 0
		}
		v |= uint64(b&0x7F) << shift
		if b < 0x80 {
			return v
		}
	}
}

func (c *cursor) signed() int64 {
	var v int64
	for shift := uint(0); ; {
		b := c.byte()
		if shift >= 64 {
			c.bad = true
			return 0
		}
		v |= int64(b&0x7F) << shift
		shift += 7
		if b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// lineDecoder decodes a line table.
type lineDecoder struct {
	cursor
	first, width int64
	row          row
}

func newLineDecoder(b []byte) (lineDecoder, error) {
	d := lineDecoder{cursor: cursor{b: b}}
	first, last := d.signed(), d.signed()
	line := d.unsigned()
	d.first, d.width = first, last-first+1
	d.row = row{file: 1, line: uint32(line)}
	if d.bad || first < math.MinInt32 || last > math.MaxInt32 || d.width < 1 || line > math.MaxUint32 {
		return d, fmt.Errorf("%w: head of a line table", ErrFormat)
	}
	return d, nil
}

// next moves to the next row. It returns false at the end and after an error.
func (d *lineDecoder) next() bool {
	for !d.bad {
		switch op := d.byte(); op {
		case opEnd:
			return false
		case opFile:
			d.row.file = uint32(min(d.unsigned(), math.MaxUint32))
		case opAdvance:
			d.row.at += d.unsigned()
			return !d.bad
		case opLine:
			d.row.line += uint32(d.signed())
		default:
			op := int64(op) - opSpecial
			d.row.line += uint32(d.first + op%d.width)
			d.row.at += uint64(op / d.width)
			return !d.bad
		}
	}
	return false
}

// decodeLines checks a line table and notes where decoding can start.
func (fn *function) decodeLines(b []byte, s *scratch) error {
	d, err := newLineDecoder(b)
	if err != nil {
		return err
	}
	fn.lines = b
	checks := s.checks[:0]
	defer func() { s.checks = checks }()
	before := uint64(0)
	for n := 0; d.next(); n++ {
		if d.row.at < before {
			return fmt.Errorf("%w: a line table whose addresses overflow", ErrFormat)
		}
		before = d.row.at
		if n%checkEvery == 0 {
			checks = append(checks, check{d.pos, d.row})
		}
	}
	if d.bad {
		return errLines
	}
	if fn.checks = checks; fn.scratch == nil {
		fn.checks = slices.Clone(checks)
	}
	return nil
}

// row returns the last row at or before an offset in the function.
func (fn *function) row(at uint64) row {
	k := sort.Search(len(fn.checks), func(k int) bool { return fn.checks[k].row.at > at }) - 1
	if k < 0 {
		return row{}
	}
	d, err := newLineDecoder(fn.lines)
	if err != nil {
		return row{}
	}
	d.pos, d.row = fn.checks[k].pos, fn.checks[k].row
	found := d.row
	for n := 0; n < checkEvery && d.next() && d.row.at <= at; n++ {
		found = d.row
	}
	return found
}

// rows returns all rows.
func (fn *function) rows() iter.Seq[row] {
	return func(yield func(row) bool) {
		if len(fn.checks) == 0 {
			return
		}
		d, err := newLineDecoder(fn.lines)
		if err != nil {
			return
		}
		for d.next() {
			if !yield(d.row) {
				return
			}
		}
	}
}

// decodeCalls decodes the tree of inlined calls. Its root is the function itself. s is
// working memory.
func (fn *function) decodeCalls(b []byte, s *scratch) error {
	c := &cursor{b: b}
	fn.calls, fn.ranges = nil, nil
	n := c.unsigned()
	if n == 0 {
		return nil
	}
	base := fn.start
	for k := range n {
		start := c.unsigned()
		if c.unsigned(); k == 0 {
			base += start
		}
		if c.bad {
			break
		}
	}
	inner := c.byte() != 0
	c.uint32()
	c.unsigned()
	c.unsigned()
	if !inner {
		if c.bad {
			return errCalls
		}
		return nil
	}
	calls, ranges := s.calls[:0], s.ranges[:0]
	bases := append(s.bases[:0], base) // of the calls that are open, and of the function
	open := s.open[:0]
	defer func() { s.calls, s.ranges, s.bases, s.open = calls, ranges, bases, open }()
	for len(bases) > 0 && !c.bad {
		n := c.unsigned()
		if n == 0 { // the innermost open call ends
			bases = bases[:len(bases)-1]
			if len(open) > 0 {
				calls[open[len(open)-1]].next = len(calls)
				open = open[:len(open)-1]
			}
			continue
		}
		first := len(ranges)
		for range n {
			start, size := c.unsigned(), c.unsigned()
			if c.bad {
				break
			}
			ranges = append(ranges, functab.Range{Start: bases[len(bases)-1] + start, Size: uint32(min(size, math.MaxUint32))})
		}
		inner := c.byte() != 0
		in := call{depth: len(bases) - 1, name: c.uint32(), first: first, end: len(ranges), next: len(calls) + 1}
		in.file = uint32(min(c.unsigned(), math.MaxUint32))
		in.line = uint32(min(c.unsigned(), math.MaxUint32))
		if c.bad {
			break
		}
		calls = append(calls, in)
		if !inner {
			continue
		}
		if len(bases) > maxDepth {
			return fmt.Errorf("%w: inlined calls of depth %d", ErrFormat, len(bases))
		}
		bases = append(bases, ranges[first].Start)
		open = append(open, len(calls)-1)
	}
	if c.bad {
		return errCalls
	}
	if fn.calls, fn.ranges = calls, ranges; fn.scratch == nil {
		fn.calls, fn.ranges = slices.Clone(calls), slices.Clone(ranges)
	}
	return nil
}

// chain appends the inlined calls at an address to out, outermost first.
func (fn *function) chain(rva uint64, out []callSite) []callSite {
	for i, end := 0, len(fn.calls); i < end; {
		c := &fn.calls[i]
		if fn.covers(c, rva) {
			out = append(out, callSite{c.name, c.file, c.line})
			i, end = i+1, c.next
			continue
		}
		i = c.next
	}
	return out
}

func (fn *function) covers(c *call, rva uint64) bool {
	for _, r := range fn.ranges[c.first:c.end] {
		if rva-r.Start < uint64(r.Size) {
			return true
		}
	}
	return false
}
