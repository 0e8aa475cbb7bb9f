package layout

import "github.com/symdepot/symdepot/symfile"

// Debuggers returns the layouts in which debuggers ask for a program or library of a kind and for its
// debug information; that of the debuggers of its system first. It is nil for other kinds of files.
// Breakpad's layout is not among them: it has .sym files only.
func Debuggers(kind symfile.Kind) []Layout {
	switch kind {
	case symfile.PE:
		return []Layout{SymStore, SSQP, Unified}
	case symfile.ELF:
		return []Layout{Debuginfod, GDB, SSQP, Unified}
	case symfile.MachO:
		return []Layout{LLDB, SSQP, Unified}
	case symfile.WASM:
		return []Layout{SymStore, Unified}
	}
	return nil
}
