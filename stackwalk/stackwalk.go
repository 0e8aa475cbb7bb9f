// Package stackwalk finds the calls on the stack of a thread, from its registers and the memory of a
// crash dump.
//
// A Walker looks for the caller of each frame by the unwind rules of the function, then by the frame
// pointer, then by a bounded search of the stack for a return address. Each Frame says which way found
// it: its Trust. The package knows no symbols and no files: a Source gives the rules, in Breakpad's
// syntax, and says where code is.
//
// Dumps and rules are hostile: a walk ends after a limited number of frames, of reads and of bytes of
// rules, whatever they hold.
//
// The package is not yet promised: it may change in any version.
package stackwalk

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/symdepot/symdepot/functab"
)

// Memory is the memory of a process as its dump holds it.
type Memory interface {
	// ReadMemory reads into p from an address on and returns the number of bytes that the dump
	// holds from there without a gap, at most len(p).
	ReadMemory(p []byte, address uint64) int
}

// Module is the place of one loaded module.
type Module struct{ Base, Size uint64 }

// Process is what a walk needs of a process. It is not changed.
type Process struct {
	Arch    string // x86, x86_64, arm or arm64
	OS      string // windows, linux, android, macos, ios and so on
	Modules []Module
	Memory  Memory
	// AddressMask has the bits of a pointer of ARM64 that are an address; the others may hold a
	// signature. Zero: they follow from the places of the modules.
	AddressMask uint64
}

// Thread is the start of a walk.
type Thread struct {
	// Registers gives the value of a register by its name in Breakpad's rules, without "$": rip,
	// esp, r11, x29, pc. It returns false for one that the dump does not have.
	Registers interface {
		Get(name string) (uint64, bool)
	}
	// Stack is the memory of the stack. A stack that does not hold the stack pointer, such as the
	// zero value, is not known: then all memory may be the stack.
	Stack Range
}

// Range is a range of addresses.
type Range struct{ Address, Size uint64 }

func (r Range) has(address uint64) bool { return address-r.Address < r.Size }

// Source knows the code of the modules. It must be safe for concurrent use if the Walker is used so.
// Modules are numbered as in Process.Modules; addresses are relative to the base of the module.
type Source interface {
	// Rules returns the unwind rules in force at an address. It returns false if the module or the
	// function is not known.
	Rules(ctx context.Context, module int, rva uint64) (functab.Rules, bool)
	// Code reports whether an address can be code: whether a known function or symbol holds it. For
	// a module of which nothing is known it returns true.
	Code(ctx context.Context, module int, rva uint64) bool
}

// Trust says how a frame was found. The words are those of minidump-stackwalk.
type Trust string

// The ways to find a frame.
const (
	None         Trust = "none"
	Context      Trust = "context"       // from the registers of the thread
	CFI          Trust = "cfi"           // by the unwind rules of the frame before
	FramePointer Trust = "frame_pointer" // by the frame pointer of the frame before
	Scan         Trust = "scan"          // a return address was found on the stack
	CFIScan      Trust = "cfi_scan"      // by unwind rules, corrected by a search of the stack
	Prewalked    Trust = "prewalked"     // given by the program that wrote the dump
)

// Frame is one call.
type Frame struct {
	// PC is the instruction pointer: of a caller, the address to which the call returns.
	PC uint64
	SP uint64
	// Module is the number of the module of the instruction; -1 if there is none.
	Module    int
	Trust     Trust
	Registers Registers
	// Problem says why the rules of the function did not lead to the caller; empty if they did, or
	// if there are none.
	Problem string

	params uint32 // bytes of parameters of the function on the stack
}

// Lookup returns the address at which symbols, lines and rules are looked up: the instruction of a
// context, and the last byte of the call of a caller.
func (f *Frame) Lookup() uint64 {
	pc := f.PC
	if f.Registers.m != nil && f.Registers.m.thumb {
		pc &^= 1
	}
	if f.Trust == Context || f.Trust == Prewalked || pc == 0 {
		return pc
	}
	return pc - 1
}

// Stack is the result of a walk.
type Stack struct {
	Frames []Frame // innermost first
	// Problem says in words why the walk ended early; empty if it reached the end of the stack, or
	// what looks like the end.
	Problem string
}

// Limits bound a walk. A zero field means the default.
type Limits struct {
	Frames int // default 1024
	Rules  int // bytes of rules that are evaluated; default 32 MiB
}

// Words of a stack that a search reads: after a frame that is trusted, and after another one.
const (
	longScan  = 160
	shortScan = 40
)

// maxStill is the number of consecutive frames at one stack pointer.
const maxStill = 8

// Walker walks the stacks of one process. It is safe for concurrent use if the memory and the source
// are.
type Walker struct {
	p    Process
	m    *machine
	src  Source
	lim  Limits
	list []int // numbers of the modules, by address
	mask uint64
}

// New returns a Walker. The error is for a processor whose stacks the package does not know.
func New(p Process, src Source, lim Limits) (*Walker, error) {
	m := machines[p.Arch]
	if m == nil {
		return nil, fmt.Errorf("stacks of the processor %q are not known: x86, x86_64, arm and arm64 are", p.Arch)
	}
	if lim.Frames <= 0 {
		lim.Frames = 1024
	}
	if lim.Rules <= 0 {
		lim.Rules = 32 << 20
	}
	w := &Walker{p: p, m: m, src: src, lim: lim}
	highest := uint64(1<<47 - 1) // as Apple's systems sign pointers
	for i, mod := range p.Modules {
		if end := mod.Base + mod.Size; mod.Size > 0 && end > mod.Base {
			w.list = append(w.list, i)
			highest = max(highest, end)
		}
	}
	slices.SortStableFunc(w.list, func(a, b int) int {
		x, y := p.Modules[a].Base, p.Modules[b].Base
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	// Signed pointers have bits above those of addresses.
	if w.mask = p.AddressMask; w.mask == 0 {
		w.mask = 1<<bits.Len64(highest-1) - 1
	}
	return w, nil
}

// module returns the number of the module at an address, or -1.
func (w *Walker) module(address uint64) int {
	n, found := slices.BinarySearchFunc(w.list, address, func(i int, at uint64) int {
		switch base := w.p.Modules[i].Base; {
		case base < at:
			return -1
		case base > at:
			return 1
		}
		return 0
	})
	if !found {
		n--
	}
	if n < 0 {
		return -1
	}
	if m := w.p.Modules[w.list[n]]; address-m.Base < m.Size {
		return w.list[n]
	}
	return -1
}

// Walk returns the frames of a thread. The error is that of ctx; the frames found before are returned
// with it.
func (w *Walker) Walk(ctx context.Context, t Thread) (Stack, error) {
	k := &walk{Walker: w, ctx: ctx, stack: t.Stack, memory: memory{from: w.p.Memory}, rules: w.lim.Rules}
	first := Frame{Trust: Context, Registers: w.m.read(t.Registers)}
	if first.PC, first.SP = first.Registers.v[w.m.pc], first.Registers.v[w.m.sp]; !first.Registers.has(w.m.pc) {
		return Stack{Problem: "the dump has no instruction pointer of the thread"}, ctx.Err()
	}
	if !k.stack.has(first.SP) {
		k.stack = Range{}
	}
	s := Stack{Frames: []Frame{first}}
	k.locate(&s.Frames[0])
	still := 0
	for {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		n := len(s.Frames)
		if n >= w.lim.Frames {
			s.Problem = fmt.Sprintf("the walk ended after %d frames", n)
			return s, nil
		}
		callee := &s.Frames[n-1]
		grand := -1
		if n > 1 {
			grand = int(s.Frames[n-2].params)
		}
		caller, ok := k.caller(callee, grand)
		if !ok {
			return s, nil
		}
		if still++; caller.SP != callee.SP {
			still = 0
		}
		if still > maxStill {
			s.Problem = fmt.Sprintf("more than %d frames have the stack pointer %#x", maxStill, caller.SP)
			return s, nil
		}
		k.locate(&caller)
		s.Frames = append(s.Frames, caller)
	}
}

// walk is the state of one walk.
type walk struct {
	*Walker
	ctx    context.Context
	stack  Range
	memory memory
	rules  int // bytes of rules that may still be evaluated
	eval   evaluation
}

// locate finds the module of a frame.
func (k *walk) locate(f *Frame) { f.Module = k.module(f.Lookup()) }

// caller finds the caller of a frame. grand is the size of the parameters of the function that the
// frame called, or -1 for the first frame. It returns false at the end of the stack.
func (k *walk) caller(f *Frame, grand int) (Frame, bool) {
	if !f.Registers.has(k.m.sp) {
		return Frame{}, false
	}
	c, ok := k.byRules(f, grand)
	if !ok {
		c, ok = k.byFramePointer(f)
	}
	if !ok {
		c, ok = k.byScan(f)
	}
	if !ok {
		return Frame{}, false
	}
	c.Registers.m = k.m
	c.PC, c.SP = c.Registers.v[k.m.pc], c.Registers.v[k.m.sp]
	return c, c.PC >= firstCode && k.progress(f, &c)
}

// firstCode is the lowest address of code. Lower ones end a walk.
const firstCode = 4096

// progress reports whether a caller may be one: it is higher on the stack. A function that is a leaf,
// or that was just entered, need not use the stack where calls keep the return address in a register.
func (k *walk) progress(f, caller *Frame) bool {
	if caller.SP != f.SP || k.m.lr < 0 {
		return caller.SP > f.SP
	}
	return caller.PC != f.PC && (f.Trust == Context || caller.Trust == CFI)
}

// byRules finds the caller by the rules of the function.
func (k *walk) byRules(f *Frame, grand int) (Frame, bool) {
	if f.Module < 0 {
		return Frame{}, false
	}
	rva := f.Lookup() - k.p.Modules[f.Module].Base
	r, ok := k.src.Rules(k.ctx, f.Module, rva)
	if !ok {
		return Frame{}, false
	}
	f.params = r.Params
	e := &k.eval
	*e = evaluation{m: k.m, memory: &k.memory, callee: &f.Registers, grand: grand, rules: &k.rules}
	// A link register that a frame pointer led to is that at the start of the function: its first
	// instruction only has it still.
	e.noLR = f.Trust == FramePointer && r.Start != rva&^3
	e.forward(k.p.OS)
	var err error
	if r.Win != nil {
		if err = e.win(r.Win); err != nil {
			e.forward(k.p.OS)
		}
	}
	if len(r.CFI) > 0 && (r.Win == nil || err != nil) {
		err = e.cfi(r.CFI)
	} else if r.Win == nil {
		return Frame{}, false
	}
	if err != nil {
		f.Problem = "the unwind rules fail: " + err.Error()
		return Frame{}, false
	}
	if k.m == arm64 {
		for _, i := range []int{k.m.pc, k.m.fp, k.m.lr} {
			e.caller.v[i] &= k.mask
		}
	}
	return Frame{Trust: CFI, Registers: e.caller}, true
}

// word reads one word of the stack.
func (k *walk) word(address uint64) (uint64, bool) {
	if k.stack.Size > 0 && (!k.stack.has(address) || k.stack.Size-(address-k.stack.Address) < uint64(k.m.word)) {
		return 0, false
	}
	return k.memory.word(address, k.m.word)
}

// code reports whether a word of the stack may be a return address.
func (k *walk) code(pc uint64) bool {
	if pc <= 1 || k.m.outside(pc) {
		return false
	}
	if k.m.thumb {
		pc &^= 1
	}
	n := k.module(pc - 1)
	return n >= 0 && k.src.Code(k.ctx, n, pc-1-k.p.Modules[n].Base)
}
