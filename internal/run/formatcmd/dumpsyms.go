package formatcmd

import (
	"fmt"
	"runtime/debug"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/run/console"
)

// DumpSyms is the command symdepot dump-syms.
type DumpSyms struct {
	Store  string   `help:"Write each file below this folder, in Breakpad's layout, instead of to standard output." placeholder:"DIR"`
	Format string   `help:"sym: Breakpad's text. gsym: LLVM's binary form." enum:"sym,gsym" default:"sym" placeholder:"sym|gsym"`
	Files  []string `arg:"" name:"file" help:"PDBs, programs and their debug files."`
}

// Run writes the symbol files.
func (c DumpSyms) Run(a *console.Console) error {
	format := symbolicate.Breakpad
	if c.Format == "gsym" {
		format = symbolicate.GSYM
	}
	if format == symbolicate.GSYM && c.Store == "" && term.IsTerminal(a.Stdout) {
		return term.UsageError("a GSYM file is binary: redirect the output to a file, or write it with --store DIR")
	}
	// Nearly all of the memory is tables without pointers, which cost the collector
	// little: half of its usual headroom is enough.
	debug.SetGCPercent(50)
	return symbolicate.Dump(a.Ctx, c.Files, format, a.Stdout, c.Store,
		func(path string) { fmt.Fprintln(a.Stdout, term.Printable(path)) },
		func(text string) { fmt.Fprintln(a.Stderr, "symdepot: warning:", term.Printable(text)) })
}
