package command

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/checkcmd"
	"github.com/symdepot/symdepot/internal/run/client"
)

type checkCmd struct {
	Server    string   `help:"Base URL of the server with the symbols. Default: this machine's depot." env:"SYMDEPOT_SERVER" placeholder:"URL"`
	TokenFile string   `help:"File with the token. Default: SYMDEPOT_TOKEN, or the login of symdepot login." placeholder:"FILE"`
	Symbols   []string `help:"text:check_symbols" placeholder:"DIR" sep:"none"`
	checkcmd.Flags
}

// Run checks against a server, folders or the depot of this machine.
func (c *checkCmd) Run(a *session) error {
	return c.Check(a.Console, func(do func(*client.API, *client.Pusher) error) error {
		switch local := func(k *client.API) error { return do(k, nil) }; {
		case len(c.Symbols) > 0 && c.Build != "":
			return term.UsageError("--symbols does not go with --build")
		case len(c.Symbols) > 0:
			return checkcmd.Folders(a.Ctx, c.Symbols, local)
		case c.Server == "":
			return a.api(serverFlags{}, depot.Options{}, local)
		}
		p, err := pusher(a.Console, c.Server, c.TokenFile)
		if err != nil {
			return err
		}
		return do(client.NewAPI(p), p)
	})
}
