package gsym

import (
	"fmt"
	"math"
	"math/bits"
)

// site is what a record says of one address.
type site struct {
	entry  int
	start  uint64 // of the function, relative to the base of the file
	size   uint32 // 0: ends at the next entry
	name   string
	symbol bool
	row    row
	calls  []callSite // the inlined calls at the address, outermost first
}

// callSite is an inlined call at an address.
type callSite struct {
	name       uint32 // offset in the string table
	file, line uint32 // of the call
}

// maxScan is how many bytes a record has that is decoded again for each address: up to there, that is
// faster than to keep it decoded.
const maxScan = 2 << 10

// scan finds an address in the record of an entry, which begins b, without decoding what lies behind
// it: of the line table the rows up to the address, of the inlined calls those that contain it. ok is
// false if the function does not contain it. A fault behind the address is not found.
func (f *File) scan(s *site, i int, rva uint64, b []byte) (ok bool, err error) {
	if len(b) < 8 {
		return false, fmt.Errorf("%w: a record is cut off", ErrFormat)
	}
	*s = site{entry: i, start: f.start(i), size: le.Uint32(b), calls: s.calls[:0]}
	at := rva - s.start
	if s.size > 0 && at >= uint64(s.size) {
		return false, nil
	}
	rows, inlined := false, false
	for pos := 8; ; {
		if len(b)-pos < 8 {
			return false, fmt.Errorf("%w: a record is cut off", ErrFormat)
		}
		kind, n := le.Uint32(b[pos:]), le.Uint32(b[pos+4:])
		pos += 8
		if kind == infoEnd {
			break
		}
		if n > maxRecord || int(n) > len(b)-pos {
			return false, fmt.Errorf("%w: information of %d bytes", ErrFormat, n)
		}
		body := b[pos : pos+int(n)]
		pos += int(n)
		switch kind {
		case infoLines:
			s.row, rows, err = rowAt(body, at)
		case infoInline:
			s.calls, inlined, err = callsAt(body, s.start, rva, s.calls[:0])
		}
		if err != nil {
			return false, err
		}
	}
	s.name, s.symbol, err = f.nameOf(i, le.Uint32(b[4:]), rows || inlined, s.size)
	return err == nil, err
}

// Errors of records that are too short for what they say they have.
var (
	errLines = fmt.Errorf("%w: a line table is cut off", ErrFormat)
	errCalls = fmt.Errorf("%w: a tree of inlined calls is cut off", ErrFormat)
)

// opRows[width][op] is what the special opcode op adds to line and address in a line table whose opcodes choose among
// width numbers of lines.
var opRows = func() (t [maxLineDeltas + 1][256]struct{ line, at uint8 }) {
	for width := 1; width <= maxLineDeltas; width++ {
		for op := range 256 - opSpecial {
			t[width][op+opSpecial].line, t[width][op+opSpecial].at = uint8(op%width), uint8(op/width)
		}
	}
	return t
}()

// rowAt returns the last row of a line table at or before an offset in its function. rows is
// false if there is none at all.
func rowAt(b []byte, at uint64) (found row, rows bool, err error) {
	d, err := newLineDecoder(b)
	if err != nil {
		return row{}, false, err
	}
	if d.width > maxLineDeltas { // of another producer
		return d.rowAt(at)
	}
	table := &opRows[d.width]
	now := d.row
	for pos := d.pos; pos < len(b); {
		op := b[pos]
		pos++
		switch {
		case op >= opSpecial:
			now.line += uint32(d.first) + uint32(table[op].line)
			now.at += uint64(table[op].at)
		case op == opLine && pos < len(b) && b[pos] < 0x80: // most of the others
			now.line += uint32(int8(b[pos]<<1) >> 1)
			pos++
			continue
		default:
			var end bool
			if pos, end = now.apply(b, pos, op); end {
				return found, rows, nil
			}
			if pos < 0 {
				return row{}, false, errLines
			}
			if op != opAdvance {
				continue
			}
		}
		if now.at > at {
			return found, true, nil
		}
		found, rows = now, true
	}
	return row{}, false, errLines
}

// apply applies an opcode that is not special, whose operand is at pos, and returns the
// position behind it; -1 if it is cut off.
func (r *row) apply(b []byte, pos int, op byte) (next int, end bool) {
	c := cursor{b: b, pos: pos}
	switch op {
	case opEnd:
		return pos, true
	case opFile:
		r.file = uint32(min(c.unsigned(), math.MaxUint32))
	case opAdvance:
		before := r.at
		if r.at += c.unsigned(); r.at < before {
			c.bad = true
		}
	case opLine:
		r.line += uint32(c.signed())
	}
	if c.bad {
		return -1, false
	}
	return c.pos, false
}

// rowAt is the function of that name for any table.
func (d *lineDecoder) rowAt(at uint64) (found row, rows bool, err error) {
	for d.next() {
		if d.row.at < found.at {
			return row{}, false, fmt.Errorf("%w: a line table whose addresses overflow", ErrFormat)
		}
		if d.row.at > at {
			return found, true, nil
		}
		found, rows = d.row, true
	}
	if d.bad {
		return row{}, false, errLines
	}
	return found, rows, nil
}

// callsAt appends the inlined calls at an address to out, outermost first. some is false if the
// function, which starts at start, has no inlined calls at all.
func callsAt(b []byte, start, rva uint64, out []callSite) (calls []callSite, some bool, err error) {
	c := cursor{b: b}
	n := c.unsigned()
	if n == 0 {
		return out, false, nil
	}
	base := start + c.unsigned()
	pos := skipNumbers(b, c.pos, 2*n-1)
	if c.bad || n > uint64(len(b)) || len(b)-pos < 5 {
		return out, false, errCalls
	}
	inner := b[pos] != 0
	if pos = skipNumbers(b, pos+5, 2); pos > len(b) {
		return out, false, errCalls
	}
	for inner {
		first, hit := uint64(0), false
		n, next := number(b, pos)
		if n == 0 || n > uint64(len(b)) {
			if n != 0 || next > len(b) {
				return out, false, errCalls
			}
			return out, some, nil // no call of this depth contains the address
		}
		some, pos = true, next
		for k := range n {
			var from, size uint64
			from, pos = number(b, pos)
			size, pos = number(b, pos)
			from += base
			if k == 0 {
				first = from
			}
			hit = hit || rva-from < min(size, math.MaxUint32)
			if pos > len(b) {
				return out, false, errCalls
			}
		}
		if len(b)-pos < 5 {
			return out, false, errCalls
		}
		inner = b[pos] != 0
		if !hit {
			if pos = skipNumbers(b, pos+5, 2); inner {
				pos = skipCalls(b, pos, maxDepth-len(out))
			}
			if pos > len(b) {
				return out, false, errCalls
			}
			inner = true // the next one has the same caller
			continue
		}
		call := callSite{name: le.Uint32(b[pos+1:])}
		file, next := number(b, pos+5)
		line, next := number(b, next)
		if next > len(b) || len(out) > maxDepth {
			return out, false, errCalls
		}
		call.file, call.line = uint32(min(file, math.MaxUint32)), uint32(min(line, math.MaxUint32))
		out = append(out, call)
		pos, base = next, first
	}
	return out, some, nil
}

// number reads an unsigned number at pos. A next behind the end of b means that it is cut off.
func number(b []byte, pos int) (v uint64, next int) {
	if pos < len(b) && b[pos] < 0x80 {
		return uint64(b[pos]), pos + 1
	}
	return longNumber(b, pos)
}

func longNumber(b []byte, pos int) (v uint64, next int) {
	if len(b)-pos >= 2 && b[pos+1] < 0x80 {
		return uint64(b[pos]&0x7F) | uint64(b[pos+1])<<7, pos + 2
	}
	c := cursor{b: b, pos: min(pos, len(b))}
	if v = c.unsigned(); c.bad {
		return 0, len(b) + 1
	}
	return v, c.pos
}

// skipNumbers returns the position behind n numbers. It is behind the end of b if they are cut off.
func skipNumbers(b []byte, pos int, n uint64) int {
	const high = 0x8080808080808080
	for n > 0 && len(b)-pos >= 8 {
		ends := ^le.Uint64(b[pos:]) & high
		if k := uint64(bits.OnesCount64(ends)); k < n {
			n -= k
			pos += 8
			continue
		}
		for ; n > 1; n-- {
			ends &= ends - 1
		}
		return pos + bits.TrailingZeros64(ends)>>3 + 1
	}
	for ; n > 0; pos++ {
		if pos >= len(b) {
			return len(b) + 1
		}
		if b[pos] < 0x80 {
			n--
		}
	}
	return pos
}

// skipCalls returns the position behind the calls that were inlined into one, of at most depth
// levels. It is behind the end of b if they are cut off or deeper.
func skipCalls(b []byte, pos, depth int) int {
	for open := 1; open > 0; {
		n, next := number(b, pos)
		if n == 0 {
			open--
			if pos = next; pos > len(b) {
				return pos
			}
			continue
		}
		if pos = skipNumbers(b, next, 2*n); n > uint64(len(b)) || len(b)-pos < 5 {
			return len(b) + 1
		}
		inner := b[pos] != 0
		if pos = skipNumbers(b, pos+5, 2); inner {
			if open++; open > depth {
				return len(b) + 1
			}
		}
	}
	return pos
}

// at describes an address in a decoded function.
func (s *site) at(fn *function, rva uint64) {
	s.entry, s.start, s.size, s.name, s.symbol = fn.entry, fn.start, fn.size, fn.name, fn.symbol
	s.row = fn.row(rva - fn.start)
	s.calls = fn.chain(rva, s.calls[:0])
}
