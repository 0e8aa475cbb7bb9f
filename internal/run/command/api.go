package command

import (
	"math"
	"os"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/logincmd"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/api"
)

// serverFlags let a command work on the depot of a server. The environment does not
// name the server: a removal must not go elsewhere unseen.
type serverFlags struct {
	Server    string `help:"Base URL of the server whose depot is used. Default: the depot of this machine." placeholder:"URL"`
	TokenFile string `help:"With --server: file with the token. Default: SYMDEPOT_TOKEN, or the login of symdepot login." placeholder:"FILE"`
}

// api calls fn with the API of the server, or else with that of the depot, which is opened
// with opt: both are asked the same, and answer the same.
func (a *session) api(f serverFlags, opt depot.Options, fn func(*client.API) error) error {
	return a.apiWith(f, opt, nil, fn)
}

// apiWith is api that also prepares the opened depot and the configuration of its API.
func (a *session) apiWith(
	f serverFlags, opt depot.Options, prepare func(*depot.Depot, *web.Config) error, fn func(*client.API) error,
) error {
	if f.Server != "" {
		c, err := f.client(a.Console)
		if err != nil {
			return err
		}
		return fn(c)
	}
	opt.MustExist = true
	d, err := a.open(opt)
	if err != nil {
		return err
	}
	defer d.Close()
	var conf web.Config
	if prepare != nil {
		if err := prepare(d, &conf); err != nil {
			return err
		}
	}
	return fn(apiOf(d, conf))
}

// client returns a client of the API of the server.
func (f serverFlags) client(a *console.Console) (*client.API, error) {
	p, err := pusher(a, f.Server, f.TokenFile)
	if err != nil {
		return nil, err
	}
	return client.NewAPI(p), nil
}

// pusher returns a client of a server for the running command.
func pusher(a *console.Console, server, tokenFile string) (*client.Pusher, error) {
	direct, login := upstream.NewDialer(upstream.DialerOptions{}), logincmd.Token(a.Ctx, a.Stderr)
	p, err := client.NewPusher(server, tokenFile, os.Getenv, direct.ClientFor, login)
	if err == nil {
		p.Command = a.Command
	}
	return p, err
}

// apiOf returns a client of the API of an open depot, for the administrator of this machine.
func apiOf(d *depot.Depot, conf web.Config) *client.API {
	conf.Use(d)
	conf.FoundInPlace = math.MaxInt
	return client.Within(api.New(web.New(conf)).Within(console.LocalUser()))
}

// emptyDepot opens an empty depot, for the time of a command, with the server as its
// only upstream. The function closes it.
func (f serverFlags) emptyDepot(a *session, opt depot.Options) (*depot.Depot, func(), error) {
	p, err := pusher(a.Console, f.Server, f.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	spec, err := upstream.SpecOf(f.Server)
	if err != nil {
		return nil, nil, err
	}
	if spec.Credentials.Token, err = p.Token(); err != nil {
		return nil, nil, err
	}
	return setup.TemporaryWith(a.Ctx, spec, opt)
}

// pushLimits returns the configured limits, with the quotas of products. A mistake in the
// configuration does not keep a command from working that only prints them.
func (a *session) pushLimits() stage.Limits {
	conf, err := a.config("")
	if err != nil {
		return stage.Limits{}
	}
	return setup.PushLimits(conf)
}
