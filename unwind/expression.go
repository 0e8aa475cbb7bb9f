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
	x := translation{cursor: cursor{p: p, order: order}, m: m, addressSize: addressSize}
	if first != "" {
		x.stack = append(x.stack, term{text: first})
	}
	for len(x.p) > 0 && !x.short {
		t, pushed, ok := x.step(x.u8())
		if !ok {
			return "", false
		}
		if !pushed {
			continue
		}
		if len(t.text) > maxExpressionText || len(x.stack) >= maxExpressionDepth {
			return "", false
		}
		x.stack = append(x.stack, t)
	}
	if x.short || len(x.stack) == 0 {
		return "", false
	}
	return x.stack[len(x.stack)-1].text, true
}

// translation is the state of one expression: what is left of it, and the stack.
type translation struct {
	cursor
	m           *machine
	addressSize int
	stack       []term
}

// step carries out one operation (DWARF 5, section 2.5), and returns what it pushes. ok is
// false for those that have no equal in Breakpad's expressions.
func (x *translation) step(op byte) (t term, pushed, ok bool) {
	switch {
	case op >= 0x30 && op <= 0x4f: // lit
		t = constant(int64(op - 0x30))
	case op >= 0x70 && op <= 0x8f: // breg
		t = x.register(uint64(op-0x70), x.sleb())
	case op == 0x92: // bregx
		reg := x.uleb()
		t = x.register(reg, x.sleb())
	case op >= 0x08 && op <= 0x0f: // const1u, const1s, const2u …
		n := 1 << ((op - 0x08) / 2)
		if op&1 == 0 {
			t = constant(int64(x.uint(n)))
		} else {
			t = constant(x.sint(n))
		}
	case op == 0x10: // constu
		t = constant(int64(x.uleb()))
	case op == 0x11: // consts
		t = constant(x.sleb())
	case op == 0x06: // deref
		t = term{text: x.pop().text + " ^"}
	case op == 0x12: // dup
		t = x.pop()
		x.stack = append(x.stack, t)
	case op == 0x13: // drop
		x.pop()
		return t, false, true
	case op == 0x23: // plus_uconst
		t = arithmetic(x.pop(), constant(int64(x.uleb())), "+")
	case op == 0x22:
		t = x.binary("+")
	case op == 0x1c:
		t = x.binary("-")
	case op == 0x1e:
		t = x.binary("*")
	case op == 0x1a:
		t, ok = x.and()
		return t, true, ok
	case op == 0x96: // nop
		return t, false, true
	default:
		return t, false, false
	}
	return t, true, true
}

func (x *translation) pop() (t term) {
	if len(x.stack) == 0 {
		x.short = true
		return t
	}
	t = x.stack[len(x.stack)-1]
	x.stack = x.stack[:len(x.stack)-1]
	return t
}

// register is the value of a register plus n.
func (x *translation) register(reg uint64, n int64) term {
	i, known := x.m.number(reg)
	if !known || x.m.style.names[i] == "" {
		x.short = true
		return term{}
	}
	name := x.m.style.names[i]
	if n != 0 {
		name += " " + strconv.FormatInt(n, 10) + " +"
	}
	return term{text: name}
}

func (x *translation) binary(op string) term {
	b := x.pop()
	return arithmetic(x.pop(), b, op)
}

// and is Breakpad's alignment "@", the only form of and that walkers know: a constant whose
// low bits alone are zero.
func (x *translation) and() (t term, ok bool) {
	b := x.pop()
	a := x.pop()
	if a.constant {
		a, b = b, a
	}
	mask := uint64(b.n)
	if x.addressSize == 4 {
		mask = uint64(int64(int32(uint32(mask))))
	}
	if !b.constant || a.constant || bits.OnesCount64(-mask) != 1 || -mask > 1<<32 {
		return t, false
	}
	return term{text: a.text + " " + strconv.FormatUint(-mask, 10) + " @"}, true
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
