package functab

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"
)

// A record of a function is a head of fixed size, which the Table changes in
// place, and a body:
//
//	head   size, name, parameter size and flags, 4 bytes each
//	body   unit, rows, inlines, bytes of the rows; then rows and inlines
//	row    address advance*2 + 1 if the file changes, line advance, [file advance]
//	inline depth, name, call file advance, call line advance, ranges, each:
//	       start minus the end of the range before, size
//
// All numbers of the body are varints. Advances of lines and files, and starts of
// ranges, are signed.
const (
	headSize = 12
	maxSize  = math.MaxUint32

	flagMultiple = 1 << 31
	flagClipped  = 1 << 30 // the range is shorter than rows and ranges may be
	flagUnsized  = 1 << 29
	flagJump     = 1 << 28
	paramsMask   = flagJump - 1
)

type head struct{ size, name, params uint32 }

func readHead(p []byte) head {
	le := binary.LittleEndian
	return head{le.Uint32(p), le.Uint32(p[4:]), le.Uint32(p[8:])}
}

func (h head) write(p []byte) {
	le := binary.LittleEndian
	le.PutUint32(p, h.size)
	le.PutUint32(p[4:], h.name)
	le.PutUint32(p[8:], h.params)
}

// end returns the end of a function; one of unknown size has no end.
func (h head) end(start uint64) uint64 {
	if h.params&flagUnsized != 0 {
		return math.MaxUint64
	}
	return start + uint64(h.size)
}

// packParams packs the size of parameters, which is cut to 28 bits, and a flag.
func packParams(params uint32, multiple bool) uint32 {
	params = min(params, paramsMask)
	if multiple {
		params |= flagMultiple
	}
	return params
}

// encoder holds the memory that encoding one function needs.
type encoder struct {
	out, rows []byte
	sorted    []Row
	inlines   []call
	pieces    []piece
	kept      []piece
	fixed     []Range
	order     []int
	open      []int    // the calls that contain the current one
	ends      []uint64 // per depth: where the last range ends
}

// call is an inlined call while its ranges are checked.
type call struct {
	Inline
	parent int // number of the calling call, or -1
}

// piece is a part of a range of call number call.
type piece struct {
	start, end uint64
	call       int
}

// function appends the record of f to e.out. Rows and ranges outside the function
// are cut off.
func (e *encoder) function(f *Function) {
	h := head{size: f.Size, name: uint32(f.Name), params: packParams(f.Params, f.Multiple)}
	if f.Size == 0 {
		h.params |= flagUnsized
	} else if f.Start+uint64(f.Size) < f.Start {
		h.size = uint32(math.MaxUint64 - f.Start)
	}
	if f.Jump {
		h.params |= flagJump
	}
	end := h.end(f.Start)
	e.out = append(e.out[:0], make([]byte, headSize)...)
	h.write(e.out)
	e.out = binary.AppendUvarint(e.out, uint64(f.Unit))

	rows := e.encodeRows(f, end)
	inlines := e.nest(f, end)
	count := 0
	for i := range inlines {
		if len(inlines[i].Ranges) > 0 {
			count++
		}
	}
	e.out = binary.AppendUvarint(e.out, uint64(rows))
	e.out = binary.AppendUvarint(e.out, uint64(count))
	e.out = binary.AppendUvarint(e.out, uint64(len(e.rows)))
	e.out = append(e.out, e.rows...)
	e.encodeInlines(f.Start, inlines)
}

// encodeRows writes the rows into e.rows and returns their number. Of rows at one
// address the last one counts. Equal neighbours are merged.
func (e *encoder) encodeRows(f *Function, end uint64) int {
	e.rows = e.rows[:0]
	in := f.Rows
	byStart := func(a, b Row) int { return compare(a.Start, b.Start) }
	if !slices.IsSortedFunc(in, byStart) {
		e.sorted = append(e.sorted[:0], in...)
		slices.SortStableFunc(e.sorted, byStart)
		in = e.sorted
	}
	count := 0
	at, file, line := f.Start, FileID(0), uint32(0)
	for i, r := range in {
		start := max(r.Start, f.Start)
		if start >= end {
			break
		}
		if i+1 < len(in) && max(in[i+1].Start, f.Start) == start {
			continue
		}
		if r.Line == 0 {
			r.File = file // a hole names no file
		}
		if r.File == file && r.Line == line {
			continue
		}
		step := (start - at) << 1
		if r.File != file {
			step |= 1
		}
		e.rows = binary.AppendUvarint(e.rows, step)
		e.rows = binary.AppendVarint(e.rows, int64(r.Line)-int64(line))
		if r.File != file {
			e.rows = binary.AppendVarint(e.rows, int64(r.File)-int64(file))
		}
		at, file, line = start, r.File, r.Line
		count++
	}
	return count
}

// nest returns the inlined calls with ranges that lie within the ranges of their
// callers, and that no other call of the same depth has. Calls without such
// ranges have none.
func (e *encoder) nest(f *Function, end uint64) []call {
	e.inlines = e.inlines[:0]
	if len(f.Inlines) == 0 {
		return nil
	}
	open, ends := e.open[:0], e.ends[:0]
	good := true
	for i := range f.Inlines {
		c := call{Inline: f.Inlines[i], parent: -1}
		c.Depth = max(0, min(c.Depth, len(open)))
		open = append(open[:c.Depth], i)
		if c.Depth > 0 {
			c.parent = open[c.Depth-1]
		}
		if c.Depth == len(ends) {
			ends = append(ends, f.Start)
		}
		for k, r := range c.Ranges {
			stop := r.Start + uint64(r.Size)
			good = good && r.Size > 0 && r.Start >= ends[c.Depth] && (k == 0 || r.Start > ends[c.Depth]) && stop > r.Start && stop <= end &&
				(c.parent < 0 || contained(e.inlines[c.parent].Ranges, r))
			ends[c.Depth] = stop
		}
		e.inlines = append(e.inlines, c)
	}
	e.open, e.ends = open, ends
	if good {
		return e.inlines
	}
	e.fixed = e.fixed[:0]
	order := e.order[:0]
	for i := range e.inlines {
		order = append(order, i)
	}
	e.order = order
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(e.inlines[a].Depth, e.inlines[b].Depth) })
	for len(order) > 0 {
		n := 1
		for n < len(order) && e.inlines[order[n]].Depth == e.inlines[order[0]].Depth {
			n++
		}
		e.level(order[:n], f.Start, end)
		order = order[n:]
	}
	return e.inlines
}

// contained reports whether one of the sorted ranges contains r.
func contained(ranges []Range, r Range) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Start > r.Start }) - 1
	return i >= 0 && r.Start+uint64(r.Size) <= ranges[i].Start+uint64(ranges[i].Size)
}

// level corrects the ranges of the calls of one depth. Those of their callers are
// correct.
func (e *encoder) level(calls []int, start, end uint64) {
	e.pieces = e.pieces[:0]
	for _, i := range calls {
		c := &e.inlines[i]
		from, to := start, end
		if c.parent >= 0 {
			up := e.inlines[c.parent].Ranges
			if len(up) == 0 {
				continue
			}
			from, to = up[0].Start, up[len(up)-1].Start+uint64(up[len(up)-1].Size)
		}
		for _, r := range c.Ranges {
			stop := r.Start + uint64(r.Size)
			if stop < r.Start {
				stop = math.MaxUint64
			}
			if a, b := max(r.Start, from), min(stop, to); a < b {
				e.pieces = append(e.pieces, piece{a, b, i})
			}
		}
	}
	slices.SortFunc(e.pieces, func(a, b piece) int {
		if c := compare(a.start, b.start); c != 0 {
			return c
		}
		return cmp.Compare(a.call, b.call)
	})
	// Cut each piece to what lies behind the pieces before it, and to the ranges of
	// the caller. Both lists are disjoint, so that the result is no longer than both.
	kept := e.kept[:0]
	done := uint64(0)
	for _, p := range e.pieces {
		p.start = max(p.start, done)
		if p.start >= p.end {
			continue
		}
		done = p.end
		parent := e.inlines[p.call].parent
		if parent < 0 {
			kept = append(kept, p)
			continue
		}
		up := e.inlines[parent].Ranges
		k := sort.Search(len(up), func(k int) bool { return up[k].Start+uint64(up[k].Size) > p.start })
		for ; k < len(up) && up[k].Start < p.end; k++ {
			kept = append(kept, piece{max(p.start, up[k].Start), min(p.end, up[k].Start+uint64(up[k].Size)), p.call})
		}
	}
	e.kept = kept
	slices.SortStableFunc(kept, func(a, b piece) int { return cmp.Compare(a.call, b.call) })
	for _, i := range calls {
		e.inlines[i].Ranges = nil
	}
	for len(kept) > 0 {
		first, n := len(e.fixed), 0
		for ; n < len(kept) && kept[n].call == kept[0].call; n++ {
			p := kept[n]
			if last := len(e.fixed) - 1; last >= first && e.fixed[last].Start+uint64(e.fixed[last].Size) == p.start &&
				p.end-e.fixed[last].Start <= maxSize {
				e.fixed[last].Size = uint32(p.end - e.fixed[last].Start)
				continue
			}
			e.fixed = append(e.fixed, Range{p.start, uint32(p.end - p.start)})
		}
		e.inlines[kept[0].call].Ranges = e.fixed[first:len(e.fixed):len(e.fixed)]
		kept = kept[n:]
	}
}

func (e *encoder) encodeInlines(at uint64, inlines []call) {
	var file FileID
	var line uint32
	for i := range inlines {
		c := &inlines[i]
		if len(c.Ranges) == 0 {
			continue
		}
		if c.CallLine == 0 {
			c.CallFile = 0
		}
		e.out = binary.AppendUvarint(e.out, uint64(c.Depth))
		e.out = binary.AppendUvarint(e.out, uint64(c.Name))
		e.out = binary.AppendVarint(e.out, int64(c.CallFile)-int64(file))
		e.out = binary.AppendVarint(e.out, int64(c.CallLine)-int64(line))
		file, line = c.CallFile, c.CallLine
		e.out = binary.AppendUvarint(e.out, uint64(len(c.Ranges)))
		for _, r := range c.Ranges {
			e.out = binary.AppendVarint(e.out, int64(r.Start-at))
			e.out = binary.AppendUvarint(e.out, uint64(r.Size))
			at = r.Start + uint64(r.Size)
		}
	}
}

// decoder reads the records that an encoder wrote.
type decoder struct {
	p []byte
}

func (d *decoder) uint() uint64 {
	if d.p[0] < 0x80 {
		v := d.p[0]
		d.p = d.p[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.p)
	d.p = d.p[n:]
	return v
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

// row reads the row after r, the first time after a zero row at the function's
// start. A hole keeps the file of the row before it.
func (d *decoder) row(r *Row) {
	step := d.uint()
	r.Start += step >> 1
	r.Line = uint32(int64(r.Line) + d.int())
	if step&1 != 0 {
		r.File = FileID(int64(r.File) + d.int())
	}
}

// body describes the part of a record after its head.
type body struct {
	unit          uint64
	rows, inlines int
	rowBytes      int
}

func (d *decoder) body() body {
	return body{d.uint(), int(d.uint()), int(d.uint()), int(d.uint())}
}

// scratch is the memory of one decoded function.
type scratch struct {
	f      Function
	ranges []Range
}

// function decodes a record. Rows and ranges after the end of the function are
// left out.
func (s *scratch) function(start uint64, rec []byte) *Function {
	h := readHead(rec)
	d := decoder{rec[headSize:]}
	b := d.body()
	s.f = Function{
		Start: start, Size: h.size, Name: NameID(h.name), Params: h.params & paramsMask,
		Multiple: h.params&flagMultiple != 0, Jump: h.params&flagJump != 0,
		Unit: uint32(b.unit), Rows: s.f.Rows[:0], Inlines: s.f.Inlines[:0],
	}
	end, clipped := h.end(start), h.params&flagClipped != 0
	inlines := decoder{d.p[b.rowBytes:]}
	r := Row{Start: start}
	for range b.rows {
		d.row(&r)
		if clipped && r.Start >= end {
			break
		}
		out := r
		if out.Line == 0 {
			out.File = 0
		}
		s.f.Rows = append(s.f.Rows, out)
	}
	s.ranges = s.ranges[:0]
	at := start
	var in Inline
	for range b.inlines {
		n := inlines.inline(&in)
		first := len(s.ranges)
		for range n {
			r := inlines.span(&at)
			if clipped {
				if r.Start >= end {
					continue
				}
				r.Size = uint32(min(uint64(r.Size), end-r.Start))
			}
			s.ranges = append(s.ranges, r)
		}
		if len(s.ranges) == first {
			continue
		}
		in.Ranges = s.ranges[first:len(s.ranges):len(s.ranges)]
		s.f.Inlines = append(s.f.Inlines, in)
	}
	return &s.f
}

// inline reads the inlined call after in and returns the number of its ranges.
func (d *decoder) inline(in *Inline) int {
	in.Depth = int(d.uint())
	in.Name = NameID(d.uint())
	in.CallFile = FileID(int64(in.CallFile) + d.int())
	in.CallLine = uint32(int64(in.CallLine) + d.int())
	return int(d.uint())
}

// span reads a range. at is the end of the range before it.
func (d *decoder) span(at *uint64) Range {
	r := Range{Start: *at + uint64(d.int())}
	r.Size = uint32(d.uint())
	*at = r.Start + uint64(r.Size)
	return r
}
