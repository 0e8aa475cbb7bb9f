package command

import (
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
)

// session is what a command needs that works on a depot.
type session struct {
	*console.Console
	site *setup.Site
}

// open opens the depot for a command.
func (a *session) open(opt depot.Options) (*depot.Depot, error) { return a.site.Open(a.Ctx, opt) }

// openFor opens the depot for a command that adds files; nil: a dry run found none.
func (a *session) openFor(dryRun bool) (*depot.Depot, error) { return a.site.OpenFor(a.Ctx, dryRun) }

// dir returns the address of the depot.
func (a *session) dir() (string, error) { return a.site.Dir() }

// config reads the configuration once. named is the file of --config.
func (a *session) config(named string) (*config.Config, error) { return a.site.Config(named) }
