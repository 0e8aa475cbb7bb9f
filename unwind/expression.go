package unwind

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// Limits of DWARF expressions. Those in unwind data have less than ten operations.
const (
	maxExpressionText  = 512
	maxExpressionDepth = 16
)

// term is one value on the stack of a DWARF expression.
type term struct {
	text     string
	constant bool
	n        int64 // if constant
}

func constant(n int64) term { return term{text: strconv.FormatInt(n, 10), constant: true, n: n} }

// translate returns a DWARF expression as a postfix expression of Breakpad. ok is
// false for an expression that walkers cannot evaluate. first, if not empty, is on
// the stack at the beginning.
func (m *machine) translate(p []byte, order binary.ByteOrder, addressSize int, first string) (text string, ok bool) {
	c := cursor{p: p, order: order}
	var stack []term
	if first != "" {
		stack = append(stack, term{text: first})
	}
	pop := func() (t term) {
		if len(stack) == 0 {
			c.short = true
			return t
		}
		t = stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		return t
	}
	register := func(reg uint64, n int64) term {
		i, known := m.number(reg)
		if !known || m.style.names[i] == "" {
			c.short = true
			return term{}
		}
		name := m.style.names[i]
		if n != 0 {
			name += " " + strconv.FormatInt(n, 10) + " +"
		}
		return term{text: name}
	}
	for len(c.p) > 0 && !c.short {
		var t term
		switch op := c.u8(); {
		case op >= 0x30 && op <= 0x4f: // lit
			t = constant(int64(op - 0x30))
		case op >= 0x70 && op <= 0x8f: // breg
			t = register(uint64(op-0x70), c.sleb())
		case op == 0x92: // bregx
			reg := c.uleb()
			t = register(reg, c.sleb())
		case op >= 0x08 && op <= 0x0f: // const1u, const1s, const2u …
			n := 1 << ((op - 0x08) / 2)
			if op&1 == 0 {
				t = constant(int64(c.uint(n)))
			} else {
				t = constant(c.sint(n))
			}
		case op == 0x10:
			t = constant(int64(c.uleb()))
		case op == 0x11:
			t = constant(c.sleb())
		case op == 0x06: // deref
			t = term{text: pop().text + " ^"}
		case op == 0x12: // dup
			t = pop()
			stack = append(stack, t)
		case op == 0x13: // drop
			pop()
			continue
		case op == 0x23: // plus_uconst
			t = arithmetic(pop(), constant(int64(c.uleb())), "+")
		case op == 0x22:
			y := pop()
			t = arithmetic(pop(), y, "+")
		case op == 0x1c:
			y := pop()
			t = arithmetic(pop(), y, "-")
		case op == 0x1e:
			y := pop()
			t = arithmetic(pop(), y, "*")
		case op == 0x1a: // and
			y := pop()
			x := pop()
			if x.constant {
				x, y = y, x
			}
			mask := uint64(y.n)
			if addressSize == 4 {
				mask = uint64(int64(int32(uint32(mask))))
			}
			if !y.constant || x.constant || bits.OnesCount64(-mask) != 1 || -mask > 1<<32 {
				return "", false
			}
			t = term{text: x.text + " " + strconv.FormatUint(-mask, 10) + " @"}
		case op == 0x96: // nop
			continue
		default:
			return "", false
		}
		if len(t.text) > maxExpressionText || len(stack) >= maxExpressionDepth {
			return "", false
		}
		stack = append(stack, t)
	}
	if c.short || len(stack) == 0 {
		return "", false
	}
	return stack[len(stack)-1].text, true
}

func arithmetic(x, y term, op string) term {
	if x.constant && y.constant {
		switch op {
		case "+":
			return constant(x.n + y.n)
		case "-":
			return constant(x.n - y.n)
		}
		return constant(x.n * y.n)
	}
	return term{text: x.text + " " + y.text + " " + op}
}

// slots is the rule of a procedure linkage table: the CFA is register sp + low in
// the first part of each slot of code, and sp + high in the rest. Linkers write it
// as an expression with the program counter, because all slots share one record.
type slots struct {
	low, high int64
	bias      int64  // added to the address
	mask      uint64 // size of a slot - 1
	from      uint64 // of the rest
}

// slots recognizes sp + n + ((((pc + bias) & mask) >= from) << shift).
func (m *machine) slots(p []byte, order binary.ByteOrder) (s slots, ok bool) {
	if m.pc < 0 || m.pc > 31 || m.sp > 31 {
		return s, false
	}
	c := cursor{p: p, order: order}
	literal := func() uint64 {
		op := c.u8()
		if op < 0x30 || op > 0x4f {
			c.short = true
		}
		return uint64(op - 0x30)
	}
	expect := func(op int) {
		if int(c.u8()) != op {
			c.short = true
		}
	}
	expect(0x70 + m.sp)
	s.low = c.sleb()
	expect(0x70 + m.pc)
	s.bias = c.sleb()
	s.mask = literal()
	expect(0x1a)
	s.from = literal()
	expect(0x2a) // ge
	shift := literal()
	expect(0x24) // shl
	expect(0x22)
	s.high = s.low + 1<<shift
	return s, !c.short && len(c.p) == 0 && s.mask&(s.mask+1) == 0 && s.from <= s.mask && s.from > 0 && shift < 16
}
