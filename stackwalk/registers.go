package stackwalk

import (
	"fmt"
	"iter"
	"strings"
)

// machine is what the walker knows of a processor.
type machine struct {
	names          []string // of registers by number, as Breakpad's rules name them
	pc, sp, fp, lr int      // numbers of registers; -1 if there is none
	word           int      // bytes
	saved          []int    // registers that a function leaves as they were
	savedWindows   []int    // those of Windows in addition
	thumb          bool     // bit 0 of a code address is no part of the address
	// outside reports whether a number cannot be the address of code.
	outside func(pc uint64) bool
	numbers map[string]int // by name and alias
}

const maxRegisters = 34

var (
	x86 = newMachine(machine{
		names: []string{"eip", "esp", "ebp", "ebx", "esi", "edi", "eax", "ecx", "edx", "eflags"},
		pc:    0, sp: 1, fp: 2, lr: -1, word: 4, saved: []int{2, 3, 4, 5},
		outside: func(uint64) bool { return false },
	})
	x64 = newMachine(machine{
		names: []string{
			"rip", "rsp", "rbp", "rbx", "r12", "r13", "r14", "r15", "rsi", "rdi",
			"rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "rflags",
		},
		pc: 0, sp: 1, fp: 2, lr: -1, word: 8, saved: []int{2, 3, 4, 5, 6, 7}, savedWindows: []int{8, 9},
		// Bits 47 to 63 of an address are equal.
		outside: func(pc uint64) bool { return pc+1<<47 >= 1<<48 },
	})
	arm = newMachine(machine{
		names: numbered("r", 16),
		pc:    15, sp: 13, fp: 11, lr: 14, word: 4, saved: []int{4, 5, 6, 7, 8, 9, 10, 11}, thumb: true,
		outside: func(uint64) bool { return false },
	})
	arm64 = newMachine(machine{
		names: append(numbered("x", 31), "sp", "pc"),
		pc:    32, sp: 31, fp: 29, lr: 30, word: 8, saved: []int{19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29},
		outside: func(pc uint64) bool { return pc < firstCode || pc >= 1<<52 },
	})
	// machines are the processors by the names of package dump.
	machines = map[string]*machine{"x86": x86, "x86_64": x64, "arm": arm, "arm64": arm64}
)

func numbered(letter string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(letter, i))
	}
	return names
}

// newMachine completes the description of a processor.
func newMachine(m machine) *machine {
	m.numbers = map[string]int{}
	for i, name := range m.names {
		m.numbers[name] = i
	}
	if m.lr >= 0 {
		m.numbers["pc"], m.numbers["sp"], m.numbers["fp"], m.numbers["lr"] = m.pc, m.sp, m.fp, m.lr
	}
	return &m
}

// number returns the number of a register by its name, with or without "$".
func (m *machine) number(name string) (int, bool) {
	i, ok := m.numbers[strings.TrimPrefix(name, "$")]
	return i, ok
}

// read copies those registers of a thread that the processor has and that the dump gives.
func (m *machine) read(from interface{ Get(string) (uint64, bool) }) Registers {
	r := Registers{m: m}
	for name, i := range m.numbers {
		if v, ok := from.Get(name); ok && !r.has(i) {
			r.set(i, v)
		}
	}
	return r
}

// Registers are the registers of a frame that are known.
type Registers struct {
	m     *machine
	known uint64 // a bit for each number
	v     [maxRegisters]uint64
}

func (r *Registers) has(i int) bool { return r.known>>i&1 != 0 }

// set sets a register. Higher bits than those of a register are dropped.
func (r *Registers) set(i int, v uint64) {
	if r.m.word == 4 {
		v &= 1<<32 - 1
	}
	r.v[i], r.known = v, r.known|1<<i
}

func (r *Registers) forget(i int) { r.v[i], r.known = 0, r.known&^(1<<i) }

// Get returns the value of a register by its name in Breakpad's rules, with or without "$". It returns
// false if the value is not known.
func (r *Registers) Get(name string) (uint64, bool) {
	if r.m == nil {
		return 0, false
	}
	i, ok := r.m.number(name)
	if !ok || !r.has(i) {
		return 0, false
	}
	return r.v[i], true
}

// All returns the names and values of the known registers, in an order that is always the same.
func (r *Registers) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		if r.m == nil {
			return
		}
		for i, name := range r.m.names {
			if r.has(i) && !yield(name, r.v[i]) {
				return
			}
		}
	}
}
