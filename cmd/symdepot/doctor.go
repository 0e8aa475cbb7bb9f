package main

import (
	"os"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/doctor"
	"github.com/symdepot/symdepot/internal/term"
)

type doctorCmd struct {
	Config string `help:"Configuration file of the server." placeholder:"FILE" type:"path"`
	Listen string `help:"Address of the server, if it was started with --listen." placeholder:"ADDR:PORT"`
	JSON   bool   `help:"Print one JSON object per finding."`
}

// Help is the long help text.
func (doctorCmd) Help() string {
	return `Prints one page: each finding is ok, unknown (not wholly looked at), a warning (it works, and somebody should look at it) or a fault (it does not work),
with what it means and what to do. Run it as the user of the server, with its configuration. Nothing is changed; in a bucket, an object of a few bytes is written and
deleted again. The upstreams are asked for a file that nobody has, unless no_egress is set. A server on this machine is asked at the address of
the key listen, with the token of SYMDEPOT_TOKEN if it wants one.

  symdepot doctor
  symdepot doctor --config /etc/symdepot/symdepot.yaml
  symdepot doctor --listen 127.0.0.1:9090
  symdepot doctor --json | jq 'select(.state != "ok")'

Exit codes: 0 nothing wrong was found, 1 there are warnings and no fault, 2 wrong command line, 3 there are faults.`
}

// Run examines the installation.
func (c doctorCmd) Run(a *app) error {
	what := a.doctorCase(c.Config)
	what.Listen = c.Listen
	list, _ := doctor.Examine(a.ctx, what)
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if err := printFindings(a.console, c.JSON, list); err != nil {
		return err
	}
	switch doctor.Worst(list) {
	case doctor.Fault:
		return term.Exit(exitFailed)
	case doctor.Warning:
		return term.Exit(exitNo)
	}
	return nil
}

// doctorCase says what is examined.
func (a *app) doctorCase(configFile string) doctor.Case {
	return doctor.Case{ConfigFile: config.Find(configFile, os.Getenv), Getenv: os.Getenv, DepotDir: a.site.Depot, Blobs: a.site.Blobs, Version: programVersion()}
}

func printFindings(a *console, asJSON bool, list []doctor.Finding) error {
	if !asJSON {
		return doctor.Print(a.stdout, list)
	}
	out := term.NewJSONLines(a.stdout)
	for _, f := range list {
		if err := out.Write(f); err != nil {
			return err
		}
	}
	return nil
}
