package unwind

import (
	"strconv"

	"github.com/symdepot/symdepot/functab"
)

// maxRegisters is the largest number of registers that a processor's table names.
const maxRegisters = 40

// ruleKind is the way to find the caller's value of a register.
type ruleKind uint8

const (
	ruleSame     ruleKind = iota // the register keeps its value
	ruleSaved                    // stored at CFA + n
	ruleCFA                      // is CFA + n
	ruleReg                      // is register reg + n
	ruleRegSaved                 // stored at register reg + n
	ruleUndefined
	ruleEnd   // return address only: there is no caller
	ruleText  // the postfix expression text
	ruleSlots // CFA only: number n of the slots of a linkage table
)

// rule is one rule of call frame information.
type rule struct {
	kind ruleKind
	reg  uint8
	n    int64
	text string
}

// rules are the rules that hold at one address: the canonical frame address
// (CFA), the return address, and the registers by the numbers of the unwind data.
type rules struct {
	cfa, ra rule
	regs    [maxRegisters]rule
}

// style is how the rules of one kind of unwind data are written.
type style struct {
	names []string // of registers; "" for one that walkers do not know
	// minus writes a slot below the CFA as ".cfa 8 - ^" instead of ".cfa -8 + ^".
	minus bool
	// raReg is the register of the return address. Its own rule is not written, unless
	// both is set.
	raReg int
	both  bool
}

func (s *style) name(reg uint8) string {
	if int(reg) < len(s.names) {
		return s.names[reg]
	}
	return ""
}

// appendSum appends the expression base + n.
func (s *style) appendSum(p []byte, base string, n int64) []byte {
	p = append(append(p, base...), ' ')
	if n < 0 && s.minus && n != -n {
		return append(strconv.AppendInt(p, -n, 10), " -"...)
	}
	return append(strconv.AppendInt(p, n, 10), " +"...)
}

// appendRule appends the rule for the register of the given name.
func (s *style) appendRule(p []byte, name string, r rule) []byte {
	if len(p) > 0 {
		p = append(p, ' ')
	}
	p = append(append(p, name...), ": "...)
	switch r.kind {
	case ruleSame:
		p = append(p, name...)
	case ruleSaved:
		p = append(s.appendSum(p, ".cfa", r.n), " ^"...)
	case ruleCFA:
		p = s.appendSum(p, ".cfa", r.n)
	case ruleReg:
		if r.n == 0 && name != ".cfa" {
			return append(p, s.name(r.reg)...)
		}
		p = s.appendSum(p, s.name(r.reg), r.n)
	case ruleRegSaved:
		p = append(s.appendSum(p, s.name(r.reg), r.n), " ^"...)
	case ruleUndefined:
		p = append(p, ".undef"...)
	case ruleEnd:
		p = append(p, '0')
	case ruleText:
		p = append(p, r.text...)
	}
	return p
}

// appendChanges appends the rules of now that differ from those of before.
func (s *style) appendChanges(p []byte, before, now *rules) []byte {
	if now.cfa != before.cfa {
		p = s.appendRule(p, ".cfa", now.cfa)
	}
	if now.ra != before.ra {
		p = s.appendRule(p, ".ra", now.ra)
	}
	for i, name := range s.names {
		if now.regs[i] != before.regs[i] && name != "" && (i != s.raReg || s.both) {
			p = s.appendRule(p, name, now.regs[i])
		}
	}
	return p
}

// initial returns the text of all rules, for the start of a frame.
func (s *style) initial(now *rules) string {
	none := rules{cfa: rule{kind: ruleUndefined, n: 1}, ra: rule{kind: ruleUndefined, n: 1}}
	return string(s.appendChanges(nil, &none, now))
}

// frame collects the rows of one frame. Its slices are reused.
type frame struct {
	style  *style
	start  uint64
	end    uint64 // exclusive
	init   rules  // as written at start
	last   rules  // as written by the last row
	at     uint64 // address of the last row
	deltas []functab.FrameDelta
	text   []byte
	full   bool // maxDeltas is reached; the frame ends there
}

// maxDeltas is the number of rows after the first in one frame.
const maxDeltas = 1 << 16

// begin starts a frame with the rules of its first address.
func (f *frame) begin(s *style, start, end uint64, r *rules) {
	f.style, f.start, f.end, f.at = s, start, end, start
	f.init, f.last = *r, *r
	f.deltas, f.full = f.deltas[:0], false
}

// row adds the rules that hold from an address on. Rows come in ascending order of
// addresses. Rows outside the frame are omitted; a row at the start replaces the
// rules of the start.
func (f *frame) row(at uint64, r *rules) {
	if at < f.at || at >= f.end || f.full {
		return
	}
	if at == f.start {
		f.init, f.last = *r, *r
		return
	}
	if *r == f.last {
		return
	}
	if len(f.deltas) == maxDeltas {
		f.full, f.end = true, at
		return
	}
	f.text = f.style.appendChanges(f.text[:0], &f.last, r)
	f.last, f.at = *r, at
	if len(f.text) == 0 {
		return
	}
	f.deltas = append(f.deltas, functab.FrameDelta{Address: at, Rules: string(f.text)})
}

// add gives the frame to the builder. A frame that is larger than a record can
// say is given in part.
func (f *frame) add(b sink, w *work) error {
	if f.end <= f.start {
		return nil
	}
	if w.rows -= int64(len(f.deltas)) + 1; w.rows < 0 {
		return errWork
	}
	size := min(f.end-f.start, 1<<32-1)
	return b.Frame(functab.Frame{Start: f.start, Size: uint32(size), CFI: f.style.initial(&f.init), Deltas: f.deltas})
}
