package main

import (
	"github.com/symdepot/symdepot/internal/srclink"
	"github.com/symdepot/symdepot/internal/term"
)

type srcsrvCmd struct {
	Base    string   `help:"Make a new stream, with URLs of the symdepot server at this base URL." placeholder:"URL" xor:"act"`
	Sources []string `help:"${srcsrv_sources}" placeholder:"DIR[=PREFIX]" sep:"none"`
	Product string   `help:"With --base: product in the URLs of files that are not in a folder of --sources." short:"p"`
	Version string   `help:"With --base: its version." short:"v"`
	Rebase  string   `help:"${srcsrv_rebase}" placeholder:"OLD=NEW" xor:"act"`
	Write   bool     `help:"Write the stream into the PDB itself, by way of a temporary file." xor:"out"`
	Output  string   `help:"Write a copy of the PDB with the stream to this file." short:"o" placeholder:"FILE" xor:"out"`
	Raw     bool     `help:"Print the text of the stream that is there, and nothing else." xor:"act"`
	JSON    bool     `help:"Print one JSON object per source file."`
	Files   []string `arg:"" name:"pdb" help:"PDBs."`
}

// Help is the long help text.
func (srcsrvCmd) Help() string {
	return `Prints where debuggers get the source files of a PDB: what its source server stream (srcsrv) and its Source Link say of each file.
Nothing of it is run or asked for. CLASS is http (a download), unc (a file by its path), command (the debugger runs a program) or broken.

  symdepot srcsrv app.pdb
  symdepot srcsrv --raw app.pdb > stream.txt             as pdbstr -r does

With --base, it makes a stream by which WinDbg and Visual Studio download the files from a symdepot server, and prints it or writes it into
the PDB. The id of the PDB stays, its bytes do not: write the stream first, then push both the PDB and the sources.

  symdepot srcsrv --base https://symbols.example.com --sources . --write build/*.pdb
  symdepot push -p Game -v 1.0 --sources . build/

A file below --sources gets a URL with the hash of its content. With --product and --version, all others get one with these labels, for
sources that are pushed later. --rebase changes the server in the streams that are there, Source Link included; without --write it counts.

  symdepot srcsrv --base https://symbols.example.com -p Game -v 1.0 --sources .=C:\build\game --write app.pdb
  symdepot srcsrv --rebase https://old.example.com=https://symbols.example.com --write app.pdb

Exit codes: 0 printed or written, 1 there is no link, no source file that gets a URL, or no URL of OLD, 2 wrong command line, 3 a file cannot be
read or written, or is no PDB.`
}

// Run works on one PDB after the other.
func (c srcsrvCmd) Run(a *console) error {
	task := srclink.Task{StreamOptions: srclink.StreamOptions{Base: c.Base, Product: c.Product, Version: c.Version},
		Rebase: c.Rebase, Write: c.Write, Output: c.Output, Raw: c.Raw, JSON: c.JSON}
	var err error
	if task.Roots, err = (sourceFlags{c.Sources}).roots(); err != nil {
		return err
	}
	if err := task.Check(len(c.Files)); err != nil {
		return err
	}
	found := false
	for _, path := range c.Files {
		ok, err := task.Do(a.ctx, path, a.stdout, a.stderr)
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
