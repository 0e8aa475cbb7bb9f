package main

import (
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/keeper"
	"github.com/symdepot/symdepot/internal/term"
)

type usageCmd struct {
	serverFlags
	By    string `help:"What to list: product (default), version, class or kind." enum:"product,version,class,kind" default:"product" placeholder:"product|version|class|kind"`
	Limit int    `help:"Maximum number of lines, the largest first; 0: all." default:"0"`
	JSON  bool   `help:"Print one JSON object with all lists."`
}

// Help is the long help text.
func (usageCmd) Help() string {
	return `Prints what takes the space of the depot. OWN is what nothing else in the list holds, so its removal alone would free it;
SHARED is what others hold too. Sizes are disk space, with what was made from the files.

  symdepot usage
  symdepot usage --by class
  symdepot usage --by version --limit 20

Exit codes: 0 done, 2 wrong command line, 3 failed, 4 no depot,
5 credentials refused, 7 server not reachable.`
}

// Run prints the usage.
func (c usageCmd) Run(a *app) error {
	return a.keeper(c.serverFlags, depot.Options{}, func(k keeper.Keeper) error {
		l, err := k.Usage(a.ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return term.NewJSONLines(a.stdout).Write(l)
		}
		return l.Print(a.stdout, c.By, c.Limit)
	})
}
