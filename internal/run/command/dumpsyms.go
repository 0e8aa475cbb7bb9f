package command

import (
	"fmt"
	"runtime/debug"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

type dumpSymsCmd struct {
	Store  string   `help:"Write each file below this folder, in Breakpad's layout, instead of to standard output." placeholder:"DIR"`
	Format string   `help:"sym: Breakpad's text. gsym: LLVM's binary form." enum:"sym,gsym" default:"sym" placeholder:"sym|gsym"`
	Files  []string `arg:"" name:"file" help:"PDBs, programs and their debug files."`
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
