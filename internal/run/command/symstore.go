package command

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/mstools"
)

type symstoreCmd struct {
	Args []string `arg:"" optional:"" help:"The tool and its options; symdepot symstore /? lists the tools."`
}

// Run runs one of the symstore commands.
func (c symstoreCmd) Run(a *console.Console) error {
	if code := runSymstore(a, c.Args); code != 0 {
		return term.Exit(code)
	}
	return nil
}

// runSymstore runs one of the symstore commands. Builds call them thousands of
// times: as a first word, symstore does not wait for the parser of all other
// commands, which takes half the time of a start.
func runSymstore(a *console.Console, args []string) int {
	return mstools.Run(a.Ctx, args, mstools.Env{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Version: a.Options.Program()})
}
