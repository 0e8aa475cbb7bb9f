package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/dsym"
)

type dsymCmd struct {
	upstreamFlags
	serverFlags
	Cache               string   `help:"Folder for the bundles. Default: symdepot/dsym in your cache folder." placeholder:"DIR"`
	CopyExecutable      bool     `name:"copyExecutable" hidden:"" help:"LLDB gives it; it has no effect."`
	IgnoreNegativeCache bool     `name:"ignoreNegativeCache" hidden:"" help:"LLDB gives it; it has no effect."`
	UUIDs               []string `arg:"" name:"uuid" help:"UUIDs, as dwarfdump --uuid prints them."`
}

// Run gets the bundles.
func (c dsymCmd) Run(a *session) error {
	if c.Cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		c.Cache = filepath.Join(base, "symdepot", "dsym")
	}
	dir, err := filepath.Abs(c.Cache)
	if err != nil {
		return err
	}
	g := getCmd{upstreamFlags: c.upstreamFlags, serverFlags: c.serverFlags}
	open := g.open
	if c.Server != "" {
		open = g.emptyDepot
	}
	d, done, err := open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	var answers []dsym.Answer
	for _, uuid := range c.UUIDs {
		answers = append(answers, dsym.Fetch(a.Ctx, d, dir, uuid))
	}
	if err := a.Ctx.Err(); err != nil {
		return err
	}
	_, err = fmt.Fprint(a.Stdout, dsym.PropertyList(answers))
	return err
}
