package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/exchange"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/objfile"
)

type identifyCmd struct {
	JSON  bool     `help:"Print one JSON object per line and per contained object."`
	As    string   `help:"Kind of files that cannot be recognized: sha1, jsmap, il2cpp or proguard." enum:",sha1,jsmap,il2cpp,proguard" default:"" placeholder:"KIND"`
	ID    string   `help:"Debug id of an il2cpp mapping." placeholder:"ID"`
	Paths []string `arg:"" name:"path" help:"Files, folders and archives."`
}

// Help is the long help text.
func (identifyCmd) Help() string {
	return `Reads files, folders and the files inside archives; stores and changes nothing.

  symdepot identify app.exe app.pdb
  symdepot identify --json build/ | jq -r 'select(.kind=="pdb").paths.symstore[0]'
  symdepot identify --json --as sha1 src/main.c

ANSWERS says what symbolication can read of the file: functions, lines, inlines (inlined calls), publics (names of
public symbols) and unwind (rules for stack walking). A line below it names the other file that is needed for the rest:

  $ symdepot identify libfoo.so
  KIND  ARCH    ID        SIZE    FEATURES       ANSWERS         PATH
  elf   x86_64  aa45acad  14 KiB  symtab,unwind  publics,unwind  libfoo.so
                                                                   needs the debug file with the id aa45acad, for functions and lines

In JSON, "answers" and "needs" say the same; "paths" lists for each layout the paths under which clients request the object, the canonical one first. A file
that is not a symbol file gives {"path":…,"error":…}.

Exit codes: 0 at least one symbol file, 1 none, 2 wrong command line, 3 a path could not be read (the
others were).`
}

// Run identifies every file below the paths.
func (c identifyCmd) Run(a *app) error {
	found, unreadable := 0, error(nil)
	out := term.NewJSONLines(a.stdout)
	var t *term.Table
	if !c.JSON {
		t = term.NewTable(a.stdout, "KIND", "ARCH", "ID", "SIZE", "FEATURES", "ANSWERS", "PATH")
	}
	fail := func(path, reason string, named bool) error {
		if c.JSON {
			return out.Write(struct {
				Path  string `json:"path"`
				Error string `json:"error"`
			}{path, reason})
		}
		if named {
			t.Row("-", "", "", "", reason, "", path)
		}
		return nil
	}
	forced, err := objfile.ParseForced(c.As)
	if err != nil {
		return err
	}
	opt := objfile.Options{Kind: forced, ID: c.ID}
	for f, err := range scan.Walk(a.ctx, c.Paths, scan.Options{}) {
		if err != nil {
			if a.ctx.Err() != nil {
				return a.ctx.Err()
			}
			var skip *scan.Skip
			if !errors.As(err, &skip) {
				return err
			}
			if exchange.Unreadable(skip) || skip.Reason == scan.ReasonVanished && isNamed(c.Paths, skip.Path) {
				unreadable = skip
			}
			if err := fail(skip.Path, exchange.SkipText(skip), true); err != nil {
				return err
			}
			continue
		}
		objs, err := f.Identify(a.ctx, opt)
		if err != nil {
			if exchange.FromDisk(err) {
				unreadable = fmt.Errorf("%s: %w", f.Path, err)
			}
			if err := fail(f.Path, err.Error(), !errors.Is(err, objfile.ErrNotSymbolFile) || isNamed(c.Paths, f.Path)); err != nil {
				return err
			}
			continue
		}
		for _, o := range objs {
			found++
			id := report.NewIdentified(f.Path, o)
			if c.JSON {
				if err := out.Write(id); err != nil {
					return err
				}
				continue
			}
			t.Row(id.Kind, id.Arch, id.ID(), term.Size(id.Size), strings.Join(id.Features, ","), strings.Join(id.Answers, ","), id.Path)
			for _, what := range id.Needs {
				t.Row("", "", "", "", "", "", "  needs "+what)
			}
		}
	}
	if !c.JSON {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if found == 0 && unreadable == nil {
		if !c.JSON {
			fmt.Fprintln(a.stderr, "symdepot: there is no symbol file")
		}
		return term.ErrNegative
	}
	if unreadable != nil {
		return unreadable
	}
	return nil
}

// isNamed reports whether path was given on the command line itself.
func isNamed(paths []string, path string) bool {
	for _, p := range paths {
		if p == path {
			return true
		}
	}
	return false
}
