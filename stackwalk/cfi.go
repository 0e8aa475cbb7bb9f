package stackwalk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxStack is the number of values that an expression may hold at a time.
const maxStack = 64

var (
	errBudget    = errors.New("the walk evaluates more rules than its limit")
	errUndefined = errors.New("the value is undefined")
	errShort     = errors.New("an operation lacks a value")
	errDivision  = errors.New("a division by zero, or an alignment that is no power of two")
)

// evaluation finds the registers of a caller from those of a callee.
type evaluation struct {
	m      *machine
	memory *memory
	callee *Registers
	noLR   bool // the link register is not that of the callee
	grand  int  // bytes of parameters of the function that the callee called; -1: it called none
	rules  *int // bytes of rules that may still be evaluated

	caller Registers
	cfa    uint64
	hasCFA bool
	stack  [maxStack]uint64
	texts  [maxRegisters]string // expressions by register
}

// forward gives the caller the registers that functions leave as they were.
func (e *evaluation) forward(system string) {
	e.caller = Registers{m: e.m}
	keep := func(list []int) {
		for _, i := range list {
			if e.callee.has(i) {
				e.caller.set(i, e.callee.v[i])
			}
		}
	}
	keep(e.m.saved)
	if system == "windows" {
		keep(e.m.savedWindows)
	}
}

// word returns the next word of a text, and the rest.
func nextWord(s string) (word, rest string) {
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	s = s[i:]
	for i = 0; i < len(s) && s[i] != ' ' && s[i] != '\t'; {
		i++
	}
	return s[:i], s[i:]
}

// cfi evaluates rules in the syntax of STACK CFI records: "REGISTER: EXPRESSION …". A later rule of a
// register replaces an earlier one.
func (e *evaluation) cfi(rules []string) error {
	var cfa, ra string
	for _, text := range rules {
		if *e.rules -= len(text); *e.rules < 0 {
			return errBudget
		}
		var target *string
		var ignored string
		for rest := text; ; {
			word, after := nextWord(rest)
			name, isName := strings.CutSuffix(word, ":")
			switch {
			case word == "":
				if target == nil {
					return errors.New("a text without rules")
				}
			case isName:
				switch i, known := e.m.number(name); {
				case name == ".cfa":
					target = &cfa
				case name == ".ra":
					target = &ra
				case known:
					target = &e.texts[i]
				default:
					target = &ignored // a register that no rule reads
				}
				*target = expression(after)
			case target == nil:
				return fmt.Errorf("the rules begin with %q, which is no register", word)
			}
			if rest = after; word == "" {
				break
			}
		}
	}
	var err error
	if e.cfa, err = e.value(cfa); err != nil {
		return fmt.Errorf(".cfa: %w", err)
	}
	e.hasCFA = true
	pc, err := e.value(ra)
	if err != nil {
		return fmt.Errorf(".ra: %w", err)
	}
	e.caller.set(e.m.sp, e.cfa)
	e.caller.set(e.m.pc, pc)
	for i := range e.m.names {
		if e.texts[i] == "" {
			continue
		}
		if v, err := e.value(e.texts[i]); err == nil {
			e.caller.set(i, v)
		} else {
			e.caller.forget(i)
		}
	}
	return nil
}

// expression returns the text up to the next register's rule.
func expression(s string) string {
	for rest := s; ; {
		word, after := nextWord(rest)
		if word == "" {
			return s
		}
		if strings.HasSuffix(word, ":") {
			return s[:len(s)-len(after)-len(word)]
		}
		rest = after
	}
}

// value evaluates a postfix expression.
func (e *evaluation) value(text string) (uint64, error) {
	n := 0
	for {
		var word string
		if word, text = nextWord(text); word == "" {
			break
		}
		var v uint64
		var err error
		switch {
		case word == "^":
			if n < 1 {
				return 0, errShort
			}
			if v, err = e.load(e.stack[n-1]); err != nil {
				return 0, err
			}
			n--
		case isOperator(word):
			if n < 2 {
				return 0, errShort
			}
			if v, err = operate(word[0], e.stack[n-2], e.stack[n-1]); err != nil {
				return 0, err
			}
			n -= 2
		default:
			if v, err = e.operand(word); err != nil {
				return 0, err
			}
		}
		if n == maxStack {
			return 0, fmt.Errorf("an expression holds more than %d values", maxStack)
		}
		e.stack[n] = v
		n++
	}
	if n != 1 {
		return 0, fmt.Errorf("an expression leaves %d values", n)
	}
	return e.cut(e.stack[0]), nil
}

func (e *evaluation) cut(v uint64) uint64 {
	if e.m.word == 4 {
		return v & (1<<32 - 1)
	}
	return v
}

func (e *evaluation) load(address uint64) (uint64, error) {
	address = e.cut(address)
	v, ok := e.memory.word(address, e.m.word)
	if !ok {
		return 0, fmt.Errorf("the dump does not hold the memory at %#x", address)
	}
	return v, nil
}

// operand returns the value of a number, of a register, or of the CFA.
func (e *evaluation) operand(word string) (uint64, error) {
	switch {
	case word == ".cfa":
		if !e.hasCFA {
			return 0, errors.New(".cfa is not known yet")
		}
		return e.cfa, nil
	case word == ".undef":
		return 0, errUndefined
	case word[0] == '-' || word[0] >= '0' && word[0] <= '9':
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no number", word)
		}
		return uint64(n), nil
	}
	i, ok := e.m.number(word)
	if !ok {
		return 0, fmt.Errorf("the word %q is not known", word)
	}
	if !e.callee.has(i) || e.noLR && i == e.m.lr {
		return 0, fmt.Errorf("the register %s is not known", word)
	}
	return e.callee.v[i], nil
}

func isOperator(word string) bool { return len(word) == 1 && strings.Contains("+-*/%@", word) }

// operate applies a binary operation.
func operate(op byte, x, y uint64) (uint64, error) {
	switch op {
	case '+':
		return x + y, nil
	case '-':
		return x - y, nil
	case '*':
		return x * y, nil
	case '@':
		if y == 0 || y&(y-1) != 0 {
			return 0, errDivision
		}
		return x &^ (y - 1), nil
	}
	if y == 0 {
		return 0, errDivision
	}
	if op == '/' {
		return x / y, nil
	}
	return x % y, nil
}
