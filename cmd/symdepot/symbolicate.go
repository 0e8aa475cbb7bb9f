package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/symbolicate"
	"github.com/symdepot/symdepot/internal/term"
)

type symbolicateCmd struct {
	Obj       string   `help:"File with the functions: a PDB, a program, a debug file or a .sym. A file of the same module beside it is read too." short:"e" placeholder:"FILE"`
	JSON      bool     `help:"Print JSON in the form of llvm-symbolizer."`
	Relative  bool     `name:"relative-address" help:"Addresses are relative to the base of the image, instead of those that the linker assigned."`
	Arch      string   `help:"Processor of the slice of a fat file, such as arm64." placeholder:"ARCH"`
	Addresses []string `arg:"" optional:"" name:"address" help:"Addresses in hex, with -e. Default: one a line on standard input."`
}

// Help is the long help text.
func (symbolicateCmd) Help() string {
	return `Prints the function, the file and the line of addresses, with the inlined functions, innermost first, in the form of
llvm-symbolizer. Columns are not known and printed as 0.

  symdepot symbolicate -e app.pdb 0x140001010
  symdepot symbolicate --json -e libfoo.so.debug < addresses.txt

Exit codes: 0 done, 2 wrong command line, 3 the file cannot be read.`
}

// Run prints the position of each address.
func (c symbolicateCmd) Run(a *app) error {
	if c.Obj == "" {
		return term.UsageError("the file is missing: give -e FILE")
	}
	m, base, err := symbolicate.OpenLocal(a.ctx, c.Obj, c.Arch)
	if errors.Is(err, fs.ErrNotExist) && c.Arch != "" {
		return term.UsageError(err.Error())
	}
	if err != nil {
		return err
	}
	defer m.Done()
	if c.Relative {
		base = 0
	}
	p := symbolicate.NewPrinter(a.stdout, m, c.Obj, base, c.JSON)
	if len(c.Addresses) > 0 {
		if err := p.All(c.Addresses); err != nil {
			return err
		}
		return p.Close()
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && a.ctx.Err() == nil {
		if line := strings.TrimSpace(in.Text()); line != "" {
			if err := p.Line(line); err != nil {
				return err
			}
		}
	}
	return errors.Join(in.Err(), a.ctx.Err(), p.Close())
}
