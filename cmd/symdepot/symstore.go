package main

import (
	"os"

	"github.com/symdepot/symdepot/internal/mstools"
	"github.com/symdepot/symdepot/internal/term"
)

type symstoreCmd struct {
	Args []string `arg:"" optional:""`
}

// Run runs one of the symstore commands.
func (c symstoreCmd) Run(a *app) error {
	env := mstools.Env{Stdin: os.Stdin, Stdout: a.stdout, Stderr: a.stderr, Version: version}
	if code := mstools.Run(a.ctx, c.Args, env); code != 0 {
		return term.Exit(code)
	}
	return nil
}
