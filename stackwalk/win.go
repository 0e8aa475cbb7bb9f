package stackwalk

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/functab"
)

// win evaluates a STACK WIN record. Only code for x86 has such records.
func (e *evaluation) win(w *functab.WinFrame) error {
	if e.m != x86 {
		return errors.New("a STACK WIN record in code that is not for x86")
	}
	if !e.callee.has(x86.sp) || !e.callee.has(x86.fp) {
		return errors.New("esp or ebp is not known")
	}
	if w.Type == 4 {
		return e.frameData(w)
	}
	return e.fpo(w)
}

// frameSize returns the bytes between esp and the return address: locals, saved registers, and the
// parameters of the called function, which that function removes.
func (e *evaluation) frameSize(w *functab.WinFrame) uint32 {
	return w.Locals + w.SavedRegs + e.called()
}

// called returns the size of the parameters of the function that the callee called.
func (e *evaluation) called() uint32 { return uint32(max(e.grand, 0)) }

// fpo evaluates a record of type 0, which only has sizes.
func (e *evaluation) fpo(w *functab.WinFrame) error {
	sp := uint32(e.callee.v[x86.sp])
	at := sp + e.frameSize(w)
	pc, err := e.load(uint64(at))
	if err != nil {
		return err
	}
	if e.grand < 0 && e.callee.has(x86.pc) && pc == e.callee.v[x86.pc] {
		// A system call whose return address is still on the stack after the return.
		at += 4
		if pc, err = e.load(uint64(at)); err != nil {
			return err
		}
	}
	fp := e.callee.v[x86.fp]
	if w.AllocatesBP {
		// The function uses ebp for other things: the caller's is the last saved register.
		if fp, err = e.load(uint64(sp + e.called() + w.SavedRegs - 8)); err != nil {
			return err
		}
	}
	e.caller.set(x86.pc, pc)
	e.caller.set(x86.sp, uint64(at+4))
	e.caller.set(x86.fp, fp)
	return nil
}

// variable is a value of a frame data program, or the name of one.
type variable struct {
	name      string // empty: a value
	v         uint32
	undefined bool
}

const maxVariables = 32

// program executes a frame data program: postfix expressions with assignments to variables.
type program struct {
	e     *evaluation
	names [maxVariables]variable // with their values
	n     int
	stack [maxStack]variable
	depth int
}

func (p *program) find(name string) *variable {
	for i := range p.names[:p.n] {
		if p.names[i].name == name {
			return &p.names[i]
		}
	}
	return nil
}

func (p *program) assign(name string, v variable) error {
	at := p.find(name)
	if at == nil {
		if p.n == maxVariables {
			return fmt.Errorf("a program has more than %d variables", maxVariables)
		}
		at = &p.names[p.n]
		p.n++
	}
	*at = variable{name: name, v: v.v, undefined: v.undefined}
	return nil
}

func (p *program) push(v variable) error {
	if p.depth == maxStack {
		return fmt.Errorf("a program holds more than %d values", maxStack)
	}
	p.stack[p.depth] = v
	p.depth++
	return nil
}

func (p *program) pop() (variable, error) {
	if p.depth == 0 {
		return variable{}, errShort
	}
	p.depth--
	return p.stack[p.depth], nil
}

// number pops a value, or the value of a variable.
func (p *program) number() (uint32, error) {
	v, err := p.pop()
	if err != nil {
		return 0, err
	}
	if v.name != "" {
		known := p.find(v.name)
		if known == nil {
			return 0, fmt.Errorf("the variable %s is not known", v.name)
		}
		v = *known
	}
	if v.undefined {
		return 0, errUndefined
	}
	return v.v, nil
}

// frameData evaluates a record of type 4, which has a program.
func (e *evaluation) frameData(w *functab.WinFrame) error {
	if *e.rules -= len(w.Program); *e.rules < 0 {
		return errBudget
	}
	p := &program{e: e}
	search := uint32(e.callee.v[x86.sp]) + e.frameSize(w)
	if strings.Contains(w.Program, "@") {
		// The stack pointer was aligned, by a number of bytes that is not known: the return address is
		// above the saved ebp.
		search = uint32(e.callee.v[x86.fp]) + 4
	}
	for _, v := range []variable{
		{name: "$esp", v: uint32(e.callee.v[x86.sp])},
		{name: "$ebp", v: uint32(e.callee.v[x86.fp])},
		{name: ".cbParams", v: w.Params}, {name: ".cbCalleeParams", v: e.called()},
		{name: ".cbSavedRegs", v: w.SavedRegs}, {name: ".cbLocals", v: w.Locals},
		{name: ".raSearch", v: search}, {name: ".raSearchStart", v: search},
	} {
		_ = p.assign(v.name, v) // there is room for these
	}
	if v, ok := e.callee.Get("ebx"); ok {
		_ = p.assign("$ebx", variable{v: uint32(v)})
	}
	for text := w.Program; ; {
		word, rest := nextWord(text)
		if word == "" {
			break
		}
		// Some programs have no space after "=".
		if word[0] == '=' && len(word) > 1 {
			rest = text[len(text)-len(rest)-len(word)+1:]
			word = "="
		}
		if err := p.step(word); err != nil {
			return err
		}
		text = rest
	}
	if pc := p.find("$eip"); pc == nil || pc.undefined {
		return errors.New("a program does not set $eip")
	}
	if sp := p.find("$esp"); sp.undefined || sp.v == uint32(e.callee.v[x86.sp]) {
		return errors.New("a program does not set $esp")
	}
	for _, name := range []string{"$eip", "$esp", "$ebp", "$ebx", "$esi", "$edi"} {
		i, _ := x86.number(name)
		switch v := p.find(name); {
		case v == nil:
		case v.undefined:
			e.caller.forget(i)
		default:
			e.caller.set(i, uint64(v.v))
		}
	}
	return nil
}

// step executes one word of a program.
func (p *program) step(word string) error {
	switch {
	case word == "=":
		v, err := p.pop()
		if err != nil {
			return err
		}
		to, err := p.pop()
		if err != nil {
			return err
		}
		if to.name == "" {
			return errors.New("a program assigns to a value")
		}
		if v.name != "" {
			_ = p.push(v)
			if v.v, err = p.number(); err != nil {
				return err
			}
		}
		return p.assign(to.name, v)
	case word == "^":
		at, err := p.number()
		if err != nil {
			return err
		}
		v, err := p.e.load(uint64(at))
		if err != nil {
			return err
		}
		return p.push(variable{v: uint32(v)})
	case isOperator(word):
		y, err := p.number()
		if err != nil {
			return err
		}
		x, err := p.number()
		if err != nil {
			return err
		}
		v, err := operate(word[0], uint64(x), uint64(y))
		if err != nil {
			return err
		}
		return p.push(variable{v: uint32(v)})
	case word == ".undef":
		return p.push(variable{undefined: true})
	case word[0] == '$' || word[0] == '.':
		return p.push(variable{name: word})
	}
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil {
		return fmt.Errorf("the word %q of a program is not known", word)
	}
	return p.push(variable{v: uint32(n)})
}
