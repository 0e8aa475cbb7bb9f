package dump

import (
	"encoding/binary"
	"strconv"
)

// Registers are the known registers of a thread or frame. A copy is independent
// of its original. The zero value has no registers and no processor.
type Registers struct {
	// Arch is the processor, as in Dump.Arch.
	Arch   string
	values [maxRegisters]uint64
	known  uint64 // a bit for each of values
}

const maxRegisters = 40

// processor has the names of the registers of one processor.
type processor struct {
	names  []string
	index  map[string]int // of all names and aliases
	pc, sp int
	size   int // of a register, in bytes
}

func newProcessor(size int, pc, sp string, names []string, aliases map[string]string) *processor {
	p := &processor{names: names, index: map[string]int{}, size: size}
	for i, n := range names {
		p.index[n] = i
	}
	for alias, n := range aliases {
		p.index[alias] = p.index[n]
	}
	p.pc, p.sp = p.index[pc], p.index[sp]
	return p
}

// numbered returns prefix0 to prefix(n-1), and then more.
func numbered(prefix string, n int, more ...string) []string {
	var names []string
	for i := range n {
		names = append(names, prefix+strconv.Itoa(i))
	}
	return append(names, more...)
}

var (
	namesX86    = []string{"eip", "esp", "ebp", "ebx", "esi", "edi", "eax", "ecx", "edx", "eflags"}
	namesX86_64 = []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		"rip", "eflags"}
	namesARM   = numbered("r", 11, "fp", "r12", "sp", "lr", "pc", "cpsr")
	namesARM64 = numbered("x", 29, "fp", "lr", "sp", "pc", "cpsr")
	namesMIPS  = []string{"zero", "at", "v0", "v1", "a0", "a1", "a2", "a3", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "s0", "s1",
		"s2", "s3", "s4", "s5", "s6", "s7", "t8", "t9", "k0", "k1", "gp", "sp", "fp", "ra", "pc", "lo", "hi"}
	namesPPC   = numbered("r", 32, "srr0", "srr1", "cr", "xer", "lr", "ctr")
	namesRISCV = []string{"pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2",
		"s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"}
	aliasPPC = map[string]string{"pc": "srr0", "sp": "r1"}
)

var processors = map[string]*processor{
	"x86":     newProcessor(4, "eip", "esp", namesX86, nil),
	"x86_64":  newProcessor(8, "rip", "rsp", namesX86_64, map[string]string{"rflags": "eflags"}),
	"arm":     newProcessor(4, "pc", "sp", namesARM, map[string]string{"r11": "fp", "r13": "sp", "r14": "lr", "r15": "pc"}),
	"arm64":   newProcessor(8, "pc", "sp", namesARM64, map[string]string{"x29": "fp", "x30": "lr", "x31": "sp"}),
	"mips":    newProcessor(4, "pc", "sp", namesMIPS, map[string]string{"s8": "fp"}),
	"mips64":  newProcessor(8, "pc", "sp", namesMIPS, map[string]string{"s8": "fp"}),
	"ppc":     newProcessor(4, "srr0", "r1", namesPPC, aliasPPC),
	"ppc64":   newProcessor(8, "srr0", "r1", namesPPC, aliasPPC),
	"riscv32": newProcessor(4, "pc", "sp", namesRISCV, map[string]string{"fp": "s0"}),
	"riscv64": newProcessor(8, "pc", "sp", namesRISCV, map[string]string{"fp": "s0"}),
}

// find returns the index of the value of a register by its name; false if the processor has no such
// register.
func (r *Registers) find(name string) (int, bool) {
	p := processors[r.Arch]
	if p == nil {
		return 0, false
	}
	i, ok := p.index[name]
	return i, ok
}

// Get returns the value of a register if it is known. The names are those of
// Breakpad's CFI records without $, among them the aliases fp and x29, lr and
// x30.
func (r *Registers) Get(name string) (uint64, bool) {
	i, ok := r.find(name)
	if !ok || r.known>>i&1 == 0 {
		return 0, false
	}
	return r.values[i], true
}

// Set sets a register; a value wider than the register loses its upper bits.
// Set ignores a name that the processor does not have.
func (r *Registers) Set(name string, v uint64) {
	if i, ok := r.find(name); ok {
		r.put(i, v)
	}
}

func (r *Registers) put(i int, v uint64) {
	if processors[r.Arch].size == 4 {
		v = uint64(uint32(v))
	}
	r.values[i], r.known = v, r.known|1<<i
}

// Forget makes a register unknown.
func (r *Registers) Forget(name string) {
	if i, ok := r.find(name); ok {
		r.known &^= 1 << i
	}
}

// PC returns the address of the instruction; zero if it is unknown.
func (r *Registers) PC() uint64 {
	if p := processors[r.Arch]; p != nil && r.known>>p.pc&1 != 0 {
		return r.values[p.pc]
	}
	return 0
}

// SP returns the stack pointer; zero if it is unknown.
func (r *Registers) SP() uint64 {
	if p := processors[r.Arch]; p != nil && r.known>>p.sp&1 != 0 {
		return r.values[p.sp]
	}
	return 0
}

// Names lists the known registers, each with one name, in the order of the
// processor's description.
func (r *Registers) Names() []string {
	p := processors[r.Arch]
	if p == nil {
		return nil
	}
	var names []string
	for i, n := range p.names {
		if r.known>>i&1 != 0 {
			names = append(names, n)
		}
	}
	return names
}

// placed says where a record has registers: those of names, each of size bytes,
// from offset at. An empty name is a gap.
type placed struct {
	at, size int
	names    []string
}

// fill reads the registers of a record. It returns false if the record is too
// short.
func (r *Registers) fill(order binary.ByteOrder, p []byte, places []placed) bool {
	for _, pl := range places {
		if len(p) < pl.at+pl.size*len(pl.names) {
			return false
		}
	}
	for _, pl := range places {
		for i, name := range pl.names {
			switch b := p[pl.at+i*pl.size:]; pl.size {
			case 4:
				r.Set(name, uint64(order.Uint32(b)))
			case 8:
				r.Set(name, order.Uint64(b))
			}
		}
	}
	return true
}

// context is the layout of the registers of one processor in a minidump.
type context struct {
	arch   string
	flags  uint32 // one of the bits is set in the flags
	at     int    // of the flags
	size   int    // bytes to read
	places []placed
}

// contexts are the layouts by processor number of the system information:
// those of Windows (winnt.h) and, for processors that Windows does not run on,
// those of Breakpad.
var contexts = map[uint16]context{
	0:      contextX86,
	10:     contextX86,
	9:      {arch: "x86_64", flags: 0x100000, at: 48, size: 256, places: placesX86_64},
	5:      {arch: "arm", flags: 0x40000000 | 0x200000, size: 72, places: []placed{{4, 4, namesARM}}},
	12:     {arch: "arm64", flags: 0x400000, size: 272, places: []placed{{4, 4, []string{"cpsr"}}, {8, 8, namesARM64[:33]}}},
	0x8003: {arch: "arm64", flags: 0x80000000, size: 276, places: []placed{{8, 8, namesARM64[:33]}, {272, 4, []string{"cpsr"}}}},
	1:      contextMIPS("mips"),
	0x8004: contextMIPS("mips64"),
	3: {arch: "ppc", flags: 0x20000000, size: 156, places: []placed{{4, 4, []string{"srr0", "srr1"}}, {12, 4, namesPPC[:32]},
		{140, 4, []string{"cr", "xer", "lr", "ctr"}}}},
	0x8002: {arch: "ppc64", flags: 0x1000000, size: 312, places: []placed{{8, 8, []string{"srr0", "srr1"}}, {24, 8, namesPPC[:32]},
		{280, 8, []string{"cr", "xer", "lr", "ctr"}}}},
	0x8005: {arch: "riscv32", flags: 0x800000, size: 136, places: []placed{{8, 4, namesRISCV}}},
	0x8006: {arch: "riscv64", flags: 0x8000000, size: 264, places: []placed{{8, 8, namesRISCV}}},
}

var contextX86 = context{arch: "x86", flags: 0x10000, size: 204, places: []placed{
	{156, 4, []string{"edi", "esi", "ebx", "edx", "ecx", "eax", "ebp", "eip", "", "eflags", "esp"}}}}

var placesX86_64 = []placed{{68, 4, []string{"eflags"}},
	{120, 8, []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"}}}

func contextMIPS(arch string) context {
	return context{arch: arch, flags: 0x40000 | 0x80000, size: 320, places: []placed{
		{8, 8, namesMIPS[:32]}, {264, 8, []string{"hi", "lo"}}, {312, 8, []string{"pc"}}}}
}
