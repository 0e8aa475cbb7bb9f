package command

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/checkcmd"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/web"
)

type checkCmd struct {
	serverFlags
	Symbols []string `help:"text:check_symbols" placeholder:"DIR" sep:"none"`
	checkcmd.Flags
}

// Run checks against a server, a folder or the depot of this machine.
func (c *checkCmd) Run(a *session) error {
	return c.Check(a.Console, func(do func(*client.API, *client.Pusher) error) error {
		switch {
		case len(c.Symbols) > 0 && (c.Server != "" || c.Build != ""):
			return term.UsageError("--symbols does not go with --server and --build")
		case len(c.Symbols) > 0:
			return c.folders(a, do)
		case c.Server == "":
			return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error { return do(k, nil) })
		}
		p, err := pusher(a.Console, c.Server, c.TokenFile)
		if err != nil {
			return err
		}
		return do(client.NewAPI(p), p)
	})
}

// folders checks against folders, which an empty depot indexes in place for the time of the command.
func (c *checkCmd) folders(a *session, do func(*client.API, *client.Pusher) error) (err error) {
	dir, err := os.MkdirTemp("", "symdepot-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := depot.Open(a.Ctx, filepath.Join(dir, "depot"), depot.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	list, done, err := setup.ScanFolders(a.Ctx, c.Symbols, dir)
	defer done()
	if err != nil {
		return err
	}
	d.Watched.Use(list)
	return do(apiOf(d, web.Config{}), nil)
}
