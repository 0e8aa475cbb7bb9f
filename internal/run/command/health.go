package command

import (
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/daemon"
	"github.com/symdepot/symdepot/internal/run/doctor"
)

type healthCmd struct {
	Config string `help:"Configuration file of the server." placeholder:"FILE" type:"path"`
	Server string `arg:"" optional:"" help:"URL of the server. Default: the address of the key listen, on this machine."`
}

// Run asks the server.
func (c healthCmd) Run(a *session) error {
	if c.Server != "" && !strings.Contains(c.Server, "://") {
		c.Server = "http://" + c.Server
	}
	base, server := c.Server, upstream.NewDialer(upstream.DialerOptions{}).ClientFor(c.Server)
	if base != "" {
		if err := client.CheckURL(base); err != nil {
			return term.UsageError(err.Error())
		}
	} else {
		conf, err := a.config(c.Config)
		if err != nil {
			return term.UsageError(err.Error())
		}
		if base, err = daemon.LocalURL(conf.Listen, conf.TLS.Enabled()); err != nil {
			return term.UsageError(err.Error())
		}
		server = doctor.LocalClient(base)
	}
	if _, err := daemon.Health(a.Ctx, base, server); err != nil {
		return a.Nothing(fmt.Sprintf("not ready: %v", err))
	}
	return nil
}
