package command

import (
	"os"

	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

type tokenExchangeCmd struct {
	Server string `help:"Base URL of the server; required." env:"SYMDEPOT_SERVER" placeholder:"URL"`
}

// Run exchanges the id token of the running CI job.
func (c tokenExchangeCmd) Run(a *console.Console) error {
	p, err := client.NewPusher(c.Server, "", os.Getenv, upstream.NewDialer(upstream.DialerOptions{}).ClientFor, nil)
	if err != nil {
		return err
	}
	token, err := p.Token()
	if err != nil {
		return err
	}
	if !auth.IsToken(token) {
		return client.ErrNoIDToken
	}
	return a.Print(false, nil, "%s\n", token)
}
