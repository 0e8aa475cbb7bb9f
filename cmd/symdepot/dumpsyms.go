package main

import (
	"fmt"
	"runtime/debug"

	"github.com/symdepot/symdepot/internal/symbolicate"
	"github.com/symdepot/symdepot/internal/term"
)

type dumpSymsCmd struct {
	Store  string   `help:"Write each file below this folder, in Breakpad's layout, instead of to standard output." placeholder:"DIR"`
	Format string   `help:"sym: Breakpad's text. gsym: LLVM's binary form." enum:"sym,gsym" default:"sym" placeholder:"sym|gsym"`
	Files  []string `arg:"" name:"file" help:"PDBs, programs and their debug files."`
}

// Help is the long help text.
func (dumpSymsCmd) Help() string {
	return `Writes the Breakpad symbol file (.sym) of a module: its functions, lines, inlined calls, public symbols and unwind rules.
Files with the same debug id are read as one module: name the program too, because a PDB has no unwind rules for x64 and
ARM64, and a separate ELF or Mach-O debug file has none at all. What cannot be read is named on standard error and in INFO
records of the file.

  symdepot dump-syms app.pdb app.exe > app.sym
  symdepot dump-syms --store symbols/ app.pdb app.exe lib.so lib.so.debug

Exit codes: 0 done, 2 wrong command line, 3 a file cannot be read or holds no functions.`
}

// Run writes the symbol files.
func (c dumpSymsCmd) Run(a *console) error {
	format := symbolicate.Breakpad
	if c.Format == "gsym" {
		format = symbolicate.GSYM
	}
	if format == symbolicate.GSYM && c.Store == "" && term.IsTerminal(a.stdout) {
		return term.UsageError("a GSYM file is binary: redirect the output to a file, or write it with --store DIR")
	}
	// Nearly all of the memory is tables without pointers, which cost the collector
	// little: half of its usual headroom is enough.
	debug.SetGCPercent(50)
	return symbolicate.Dump(a.ctx, c.Files, format, a.stdout, c.Store,
		func(path string) { fmt.Fprintln(a.stdout, term.Printable(path)) },
		func(text string) { fmt.Fprintln(a.stderr, "symdepot: warning:", term.Printable(text)) })
}
