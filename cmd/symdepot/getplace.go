package main

import (
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/want"
	"github.com/symdepot/symdepot/layout"
)

// oneFile reports whether the output is the name of the only file, and not a folder.
func (c getCmd) oneFile(wants []want.Want, lay layout.Layout) bool {
	fi, err := os.Stat(c.Output)
	return len(wants) == 1 && lay == layout.Flat && c.Output != "" && (err != nil || !fi.IsDir()) && !os.IsPathSeparator(c.Output[len(c.Output)-1])
}

// place returns where a file is written to.
func (c getCmd) place(wants []want.Want, lay layout.Layout) (func(want.Want) (string, error), error) {
	if c.oneFile(wants, lay) {
		return func(want.Want) (string, error) { return c.Output, nil }, nil
	}
	if c.Output != "" {
		if err := os.MkdirAll(c.Output, 0o777); err != nil {
			return nil, err
		}
	}
	place := want.Places(wants, lay)
	return func(w want.Want) (string, error) {
		name, err := place(w)
		return filepath.Join(c.Output, name), err
	}, nil
}

// hint says how a debugger uses what was written for a dump or a program. single is set if
// the output is the name of a file.
func (c getCmd) hint(wrote []want.Want, lay layout.Layout, single bool, dump, program string) string {
	switch {
	case dump == "":
		return ""
	case single && len(wrote) == 1:
		return want.DebuggerFile(wrote[0], c.Output, dump)
	}
	return want.Debugger(wrote, lay, filepath.Dir(filepath.Join(c.Output, "x")), dump, program)
}
