package unwind

// Names of registers in DWARF numbering, as walkers know them. A table ends with
// the last register that walkers know.
var (
	namesX86 = []string{"$eax", "$ecx", "$edx", "$ebx", "$esp", "$ebp", "$esi", "$edi", "$eip"}
	// In .eh_frame for Apple's 32-bit systems, $esp and $ebp are swapped.
	namesX86Apple = []string{"$eax", "$ecx", "$edx", "$ebx", "$ebp", "$esp", "$esi", "$edi", "$eip"}
	namesX64      = []string{
		"$rax", "$rdx", "$rcx", "$rbx", "$rsi", "$rdi", "$rbp", "$rsp",
		"$r8", "$r9", "$r10", "$r11", "$r12", "$r13", "$r14", "$r15", "$rip",
	}
	namesArm  = []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr", "pc"}
	namesMIPS = []string{
		"$zero", "$at", "$v0", "$v1", "$a0", "$a1", "$a2", "$a3", "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7",
		"$s0", "$s1", "$s2", "$s3", "$s4", "$s5", "$s6", "$s7", "$t8", "$t9", "$k0", "$k1", "$gp", "$sp", "$fp", "$ra",
	}
	namesPPC = []string{
		"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		"r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31",
	}
	namesRISCV = []string{
		"pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
		"a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
	}
)

// machine holds the properties of a processor that call frame information needs.
type machine struct {
	style style
	// pc and sp are the numbers of the program counter and the stack pointer; -1 if
	// there is none.
	pc, sp int
	// extra is a register whose number is much higher than the others: the link register of
	// PowerPC. It is kept in the place alias.
	extra, alias uint64
}

func newMachine(names []string, pc, sp, ra int) *machine {
	return &machine{style: style{names: names, raReg: ra}, pc: pc, sp: sp}
}

// machineFor returns the machine of a processor, as objfile names it, or nil.
func machineFor(arch string, apple bool) *machine {
	switch arch {
	case "x86":
		if apple {
			return newMachine(namesX86Apple, 8, 5, -1)
		}
		return newMachine(namesX86, 8, 4, -1)
	case "x86_64", "x86_64h":
		return newMachine(namesX64, 16, 7, -1)
	case "arm", "armv6", "armv7", "armv7s", "armv7k", "armv7f", "armv7m", "armv7em", "thumbv7":
		return newMachine(namesArm, 15, 13, -1)
	case "arm64", "arm64e", "arm64v8", "arm64_32":
		return newMachine(namesArm64, -1, 31, -1)
	case "mips", "mips64":
		return newMachine(namesMIPS, -1, 29, -1)
	case "ppc", "ppc64":
		m := newMachine(append(namesPPC[:32:32], "lr"), -1, 1, -1)
		m.extra, m.alias = 65, 32
		return m
	case "riscv", "riscv32", "riscv64":
		return newMachine(namesRISCV, -1, 2, -1)
	}
	return nil
}

// number returns the place of a register in rules, or false if walkers do not
// know it.
func (m *machine) number(reg uint64) (uint8, bool) {
	if m.extra != 0 && reg == m.extra {
		reg = m.alias
	} else if m.extra != 0 && reg == m.alias {
		return 0, false
	}
	if reg >= uint64(len(m.style.names)) {
		return 0, false
	}
	return uint8(reg), true
}
