package objfile

import "fmt"

// elfArchs names the processors by e_machine if the class does not matter.
// Breakpad and symbolic use one name for both byte orders.
var elfArchs = map[uint16]string{
	3: "x86", 6: "x86", 4: "m68k", 5: "m88k", 7: "i860", 10: "mips", 15: "hppa",
	2: "sparc", 18: "sparc", 43: "sparc64", 20: "ppc", 21: "ppc64", 36: "v800",
	40: "arm", 41: "alpha", 0x9026: "alpha", 42: "sh", 44: "tricore", 45: "arc",
	50: "ia64", 70: "m68hc11", 62: "x86_64", 75: "vax", 76: "cris", 83: "avr",
	84: "fr30", 87: "v850", 88: "m32r", 89: "mn10300", 92: "openrisc",
	93: "arc", 94: "xtensa", 105: "msp430", 106: "blackfin", 113: "nios2",
	140: "tic6000", 164: "hexagon", 173: "rx", 183: "arm64", 185: "avr32",
	188: "tilepro", 189: "microblaze", 190: "cuda", 191: "tilegx", 195: "arc",
	220: "z80", 224: "amdgpu", 244: "lanai", 247: "bpf", 251: "ve",
	252: "csky", 253: "arc64",
}

// arch returns the name of the processor. For some families it depends on the
// class.
func (f *elfFile) arch() string {
	word := func(narrow, wide string) string {
		if f.is64 {
			return wide
		}
		return narrow
	}
	switch f.machine {
	case 0:
		return ""
	case 8:
		return word("mips", "mips64")
	case 22:
		return word("s390", "s390x")
	case 243:
		return word("riscv32", "riscv64")
	case 258:
		return word("loongarch32", "loongarch64")
	}
	if w, ok := elfArchs[f.machine]; ok {
		return w
	}
	return fmt.Sprintf("machine%d", f.machine)
}
