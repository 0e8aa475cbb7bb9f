package gsym

import (
	"encoding/binary"

	"github.com/symdepot/symdepot/functab"
)

// row is a row of a line table.
type row struct {
	at   uint64 // offset in the function
	file uint32 // number in the file table
	line uint32 // 0: unknown
}

// encode returns the record of a function or symbol, a multiple of four bytes. The
// result is valid until the next call.
func (p *plan) encode(e entry) []byte {
	b := le.AppendUint32(p.out[:0], e.size)
	b = le.AppendUint32(b, p.nameAt(e.name))
	if e.f != nil {
		if p.lineRows(e.f); len(p.rows) > 0 {
			b = info(b, infoLines, func(b []byte) []byte { return appendLines(b, p.rows) })
		}
		if len(e.f.Inlines) > 0 {
			b = info(b, infoInline, func(b []byte) []byte { return p.appendInlines(b, e.f) })
		}
	}
	b = append(b, make([]byte, 8)...) // infoEnd, length 0
	for len(b)&3 != 0 {
		b = append(b, 0)
	}
	p.out = b
	return b
}

// info appends a type, a length and the bytes that body appends.
func info(b []byte, kind uint32, body func([]byte) []byte) []byte {
	b = le.AppendUint32(b, kind)
	at := len(b)
	b = body(le.AppendUint32(b, 0))
	le.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// lineRows sets p.rows. LLVM's reader fails for an address without a row at or
// before it, so that code without a position before the first row gets a row of
// line 0.
func (p *plan) lineRows(f *functab.Function) {
	p.rows = p.rows[:0]
	file := uint32(0)
	for _, r := range f.Rows {
		if p.known(r) {
			file = p.file(r.File)
			break
		}
	}
	if file == 0 {
		return
	}
	if f.Rows[0].Start > f.Start {
		p.rows = append(p.rows, row{0, file, 0})
	}
	for _, r := range f.Rows {
		out := row{at: r.Start - f.Start, file: file}
		if p.known(r) {
			out.file, out.line = p.file(r.File), r.Line
			file = out.file
		}
		p.rows = append(p.rows, out)
	}
}

// appendLines appends a line table. A special opcode advances the address and, by
// one of at most 15 consecutive values, the line.
func appendLines(b []byte, rows []row) []byte {
	first, last := lineWindow(rows)
	b = appendSigned(b, first)
	b = appendSigned(b, last)
	b = binary.AppendUvarint(b, uint64(rows[0].line))
	width := last - first + 1
	special := func(advance uint64, lines int64) (byte, bool) {
		if lines < first || lines > last || advance > 255 {
			return 0, false
		}
		op := opSpecial + (lines - first) + width*int64(advance)
		return byte(op), op <= 255
	}
	at, file, line := uint64(0), uint32(1), rows[0].line
	for _, r := range rows {
		if r.file != file {
			b = binary.AppendUvarint(append(b, opFile), uint64(r.file))
		}
		lines, advance := int64(r.line)-int64(line), r.at-at
		op, ok := special(advance, lines)
		if !ok && lines != 0 {
			b = appendSigned(append(b, opLine), lines)
			op, ok = special(advance, 0)
		}
		if ok {
			b = append(b, op)
		} else {
			b = binary.AppendUvarint(append(b, opAdvance), advance)
		}
		at, file, line = r.at, r.file, r.line
	}
	return append(b, opEnd)
}

// lineWindow returns the smallest and the largest line advance that special opcodes
// have: those of the window that covers most rows.
func lineWindow(rows []row) (first, last int64) {
	const reach = 64
	var count [2 * reach]int
	line := rows[0].line
	for _, r := range rows[1:] {
		if d := int64(r.line) - int64(line) + reach; d >= 0 && d < 2*reach {
			count[d]++
		}
		line = r.line
	}
	best, from, sum := 0, reach, 0
	for i, n := range count {
		if sum += n; i >= maxLineDeltas {
			sum -= count[i-maxLineDeltas]
		}
		if sum > best {
			best, from = sum, i-maxLineDeltas+1
		}
	}
	if best == 0 {
		return 0, 0
	}
	lo, hi := max(from, 0), from+maxLineDeltas-1
	for count[lo] == 0 {
		lo++
	}
	for count[hi] == 0 {
		hi--
	}
	return int64(lo - reach), int64(hi - reach)
}

// appendSigned appends a signed LEB128 number.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7F)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// appendInlines appends the tree of inlined calls. Its root is the function itself.
func (p *plan) appendInlines(b []byte, f *functab.Function) []byte {
	b = append(b, 1, 0)
	b = binary.AppendUvarint(b, uint64(f.Size))
	b = append(b, 1)
	b = le.AppendUint32(b, p.nameAt(f.Name))
	b = append(b, 0, 0) // no call file, no call line
	bases := []uint64{f.Start}
	for i := range f.Inlines {
		in := &f.Inlines[i]
		for len(bases) > in.Depth+1 { // the calls before have no further inner ones
			b = append(b, 0)
			bases = bases[:len(bases)-1]
		}
		base := bases[in.Depth]
		b = binary.AppendUvarint(b, uint64(len(in.Ranges)))
		for _, r := range in.Ranges {
			b = binary.AppendUvarint(b, r.Start-base)
			b = binary.AppendUvarint(b, uint64(r.Size))
		}
		inner := i+1 < len(f.Inlines) && f.Inlines[i+1].Depth > in.Depth
		if inner {
			b = append(b, 1)
			bases = append(bases, in.Ranges[0].Start)
		} else {
			b = append(b, 0)
		}
		b = le.AppendUint32(b, p.nameAt(in.Name))
		b = binary.AppendUvarint(b, uint64(p.callFile(in)))
		b = binary.AppendUvarint(b, uint64(in.CallLine))
	}
	return append(b, make([]byte, len(bases))...)
}
