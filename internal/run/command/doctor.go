package command

import (
	"os"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/doctor"
)

type doctorCmd struct {
	Config string `help:"Configuration file of the server." placeholder:"FILE" type:"path"`
	Listen string `help:"Address of the server, if it was started with --listen." placeholder:"ADDR:PORT"`
	JSON   bool   `help:"Print one JSON object per finding."`
}

// Run examines the installation.
func (c doctorCmd) Run(a *session) error {
	what := a.doctorCase(c.Config)
	what.Listen = c.Listen
	list, _ := doctor.Examine(a.Ctx, what)
	if err := a.Ctx.Err(); err != nil {
		return err
	}
	if err := printFindings(a.Console, c.JSON, list); err != nil {
		return err
	}
	switch doctor.Worst(list) {
	case doctor.Fault:
		return term.Exit(ExitFailed)
	case doctor.Warning:
		return term.Exit(ExitNo)
	}
	return nil
}

// doctorCase says what is examined.
func (a *session) doctorCase(configFile string) doctor.Case {
	return doctor.Case{
		ConfigFile: config.Find(configFile, os.Getenv), Getenv: os.Getenv,
		DepotDir: a.site.Depot, Blobs: a.site.Blobs, Version: a.Options.Program(),
	}
}

func printFindings(a *console.Console, asJSON bool, list []doctor.Finding) error {
	if !asJSON {
		return doctor.Print(a.Stdout, list)
	}
	out := term.NewJSONLines(a.Stdout)
	for _, f := range list {
		if err := out.Write(f); err != nil {
			return err
		}
	}
	return nil
}
