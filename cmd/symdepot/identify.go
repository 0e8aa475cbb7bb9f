package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/internal/importexport"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/want"
	"github.com/symdepot/symdepot/objfile"
)

type identifyCmd struct {
	Server    string   `help:"Base URL of a server that says what its depot has of the files." placeholder:"URL"`
	TokenFile string   `help:"With --server: file with the token. Default: the environment variable SYMDEPOT_TOKEN." placeholder:"FILE"`
	JSON      bool     `help:"Print one JSON object per line and per contained object."`
	Sources   bool     `help:"List the source files that the debug information names."`
	As        string   `help:"${identify_as}" enum:",sha1,jsmap,il2cpp,proguard" default:"" placeholder:"KIND"`
	ID        string   `help:"Debug id of an il2cpp mapping." placeholder:"ID"`
	Paths     []string `arg:"" name:"path" help:"Files, folders and archives."`
}

// Help is the long help text.
func (identifyCmd) Help() string {
	return `Reads files, folders and the files inside archives; stores and changes nothing. Below the table are the paths under
which debuggers request each file that the command line names itself; --json has them for all files.

  symdepot identify app.exe app.pdb
  symdepot identify --json build/ | jq -r 'select(.kind=="pdb").paths.symstore[0]'
  symdepot identify --json --as sha1 src/main.c
  symdepot identify --sources app.pdb                  the names that push --sources looks for

ANSWERS says what symbolication can read of the file: functions, lines, inlines (inlined calls), publics (names of
public symbols) and unwind (rules for stack walking). A line below it names the other file that is needed for the rest:

  $ symdepot identify lib/
  KIND  ARCH    ID        SIZE    FEATURES       ANSWERS         PATH
  elf   x86_64  aa45acad  14 KiB  symtab,unwind  publics,unwind  lib/libfoo.so
                                                                   needs the debug file with the id aa45acad, for functions and lines

With --server, a server examines the files and says what its depot has; of a large file, only the parts are sent that
are needed. A minidump or core file lists what the depot has of each module.

  symdepot identify --server https://symbols.example.com app.pdb
  symdepot identify --server https://symbols.example.com crash.dmp

In JSON, "answers" and "needs" are the last columns of the table, and "paths" has for each layout the paths under which
debuggers request the object, the canonical one first. A file that is not a symbol file gives {"path":…,"error":…}.

Exit codes: 0 at least one symbol file or, with --server, one dump, 1 none, 2 wrong command line, 3 a path could not be read (the
others were), 5 credentials refused, 7 server not reachable.`
}

// Run identifies every file below the paths.
func (c identifyCmd) Run(a *app) error {
	var unreadable error
	out := term.NewJSONLines(a.stdout)
	var t *term.Table
	if !c.JSON {
		columns := []string{"KIND", "ARCH", "ID", "SIZE", "FEATURES", "ANSWERS", "PATH"}
		switch {
		case c.Sources:
			columns = sourceColumns
		case c.Server != "":
			columns = append(columns, "HELD")
		}
		t = term.NewTable(a.stdout, columns...)
	}
	fail := func(path, reason string, named bool) error {
		if c.JSON {
			return out.Write(struct {
				Path  string `json:"path"`
				Error string `json:"error"`
			}{path, reason})
		}
		if named {
			t.Row(c.faultRow(reason, path)...)
		}
		return nil
	}
	forced, err := objfile.ParseForced(c.As)
	if err != nil {
		return err
	}
	p := &identified{json: c.JSON, out: out, t: t, named: c.Paths}
	examine, opt := p.local(objfile.Options{Kind: forced, ID: c.ID}), scan.Options{}
	switch {
	case c.Sources && c.Server != "":
		return term.UsageError("--sources does not go with --server")
	case c.Sources:
		examine = p.sources(a.console, objfile.Options{Kind: forced, ID: c.ID})
	case c.Server != "":
		opt.Want = mayBeSent
		if examine, err = c.remote(a, p); err != nil {
			return err
		}
	}
	for f, err := range scan.Walk(a.ctx, c.Paths, opt) {
		if err != nil {
			if a.ctx.Err() != nil {
				return a.ctx.Err()
			}
			var skip *scan.Skip
			if !errors.As(err, &skip) {
				return err
			}
			if skip.Reason.Unreadable() || skip.Reason == scan.ReasonVanished && slices.Contains(c.Paths, skip.Path) {
				unreadable = skip
			}
			if err := fail(skip.Path, importexport.SkipText(skip), skip.Reason != scan.ReasonUnwanted || slices.Contains(c.Paths, skip.Path)); err != nil {
				return err
			}
			continue
		}
		err := examine(a.ctx, f)
		switch _, refused := errors.AsType[*fileError](err); {
		case err == nil:
		case refused:
			if importexport.FromDisk(err) {
				unreadable = fmt.Errorf("%s: %w", f.Path, err)
			}
			if err := fail(f.Path, err.Error(), !errors.Is(err, objfile.ErrNotSymbolFile) || slices.Contains(c.Paths, f.Path)); err != nil {
				return err
			}
		default:
			return err
		}
	}
	if !c.JSON {
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprint(a.stdout, p.paths)
	}
	if p.found == 0 && unreadable == nil {
		if !c.JSON {
			if c.Sources {
				return a.nothing("no symbol file here names source files")
			}
			fmt.Fprintln(a.stderr, "symdepot: there is no symbol file")
			for _, path := range want.Dumps(c.Paths) {
				fmt.Fprintf(a.stderr, "symdepot: %s is a dump; symdepot why %[1]s says which files of its modules are here\n", term.Printable(path))
			}
		}
		return term.ErrNegative
	}
	if unreadable != nil {
		return unreadable
	}
	return nil
}
