package formatcmd

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/run/console"
)

// Srcsrv is the command symdepot srcsrv.
type Srcsrv struct {
	Base    string   `help:"Make a new stream, with URLs of the symdepot server at this base URL." placeholder:"URL" xor:"act"`
	Sources []string `help:"text:srcsrv_sources" placeholder:"DIR[=PREFIX]" sep:"none"`
	Product string   `help:"With --base: product in the URLs of files that are not in a folder of --sources." short:"p"`
	Version string   `help:"With --base: version in the same URLs." short:"v"`
	Rebase  string   `help:"text:srcsrv_rebase" placeholder:"OLD=NEW" xor:"act"`
	Write   bool     `help:"Write the stream into the PDB itself." xor:"out"`
	Output  string   `help:"Write a copy of the PDB with the stream to this file." short:"o" placeholder:"FILE" xor:"out"`
	Raw     bool     `help:"Print the text of the existing stream, and nothing else." xor:"act"`
	JSON    bool     `help:"Print one JSON object per source file."`
	Files   []string `arg:"" name:"pdb" help:"PDBs."`
}

// Run works on one PDB after the other.
func (c Srcsrv) Run(a *console.Console) error {
	task := srclink.Task{StreamOptions: srclink.StreamOptions{Base: c.Base, Product: c.Product, Version: c.Version},
		Rebase: c.Rebase, Write: c.Write, Output: c.Output, Raw: c.Raw, JSON: c.JSON}
	var err error
	if task.Roots, err = sources.ParseRoots(c.Sources); err != nil {
		return term.UsageError("--sources: " + err.Error())
	}
	if err := task.Check(len(c.Files)); err != nil {
		return err
	}
	found := false
	for _, path := range c.Files {
		ok, err := task.Do(a.Ctx, path, a.Stdout, a.Stderr)
		if err != nil {
			return err
		}
		found = found || ok
	}
	if !found {
		return term.ErrNegative
	}
	return nil
}
