package main

import (
	"github.com/symdepot/symdepot/internal/sources"
	"github.com/symdepot/symdepot/internal/term"
)

// sourceFlags name the folders with sources.
type sourceFlags struct {
	Sources []string `help:"Also take the source files that debug information names from this folder; PREFIX is how the names begin, if the build ran elsewhere; repeatable." placeholder:"DIR[=PREFIX]" sep:"none"`
}

// roots reads the folders.
func (f sourceFlags) roots() (list []sources.Root, err error) {
	for _, s := range f.Sources {
		r, err := sources.ParseRoot(s)
		if err != nil {
			return nil, term.UsageError("--sources: " + err.Error())
		}
		list = append(list, r)
	}
	return list, nil
}
